package simtest

import (
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/operate"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// operatorKey stands for an operator's key, whose owner every call of an
// operator comes from.
var operatorKey = intake.Principal{Operator: true, KeyID: "key_of_operator"}

// secret is a tenant's key as an operator knows it.
type secret struct {
	tenant, id, text string
	gone             time.Time // withdrawn; zero: it is valid,
	maybe            bool      // unless a withdrawal without an answer was carried out
}

// admin is what an operator remembers.
type admin struct {
	*Client
	replays []string
	keys    []secret
	unsure  bool // some call had no definite answer: what it did may still come
}

// operator starts an operator's script. On the scheduler.
func (w *World) operator(name string, script func(a *admin)) {
	w.client(name, "", func(c *Client) { script(&admin{Client: c}) })
}

func indefinite(code events.Code) bool { return code == events.Unavailable || code == gatewayError }

// do makes one call in an admission function; check is called on the scheduler
// when it is answered, with the writes that the call made.
func (a *admin) do(what string, body func(ctx context.Context, s *operate.Service) error, check func(code events.Code, writes int)) (code events.Code) {
	var err error
	var in *Instance
	before := 0
	a.call(what, func(ctx context.Context, s *intake.Service) {
		in = a.w.of(s)
		before = in.writes
		err = body(ctx, operate.New(s))
	}, func(ok bool) {
		code = codeOf(ok, err)
		writes := 0
		if in != nil {
			writes = in.writes - before
		}
		a.w.note("operator: %s → %s", what, code)
		a.unsure = a.unsure || indefinite(code)
		check(code, writes)
	})
	return code
}

// of is the instance of an admission.
func (w *World) of(s *intake.Service) *Instance {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, in := range w.instances {
		if in.intake == s {
			return in
		}
	}
	return nil
}

// until repeats a call until it has a definite answer.
func (a *admin) until(call func() events.Code) (code events.Code) {
	for range 40 {
		if code = call(); !indefinite(code) {
			return code
		}
		a.pause(500*time.Millisecond, 3*time.Second)
	}
	return code
}

// setPaused pauses or resumes a lane.
func (a *admin) setPaused(lane string, paused bool) events.Code {
	unsure := a.unsure
	return a.do(fmt.Sprintf("pause %s: %t", lane, paused), func(ctx context.Context, s *operate.Service) error {
		_, err := s.PauseLane(ctx, operatorKey, lane, paused)
		return err
	}, func(code events.Code, _ int) {
		if _, is := a.w.model.ops.paused[lane]; code == "" && is != paused && !unsure {
			a.w.violate("lane %s was answered as paused: %t and is not", lane, paused)
		}
	})
}

// startReplay starts a replay, or only counts. It returns the id.
func (a *admin) startReplay(req intake.ReplayRequest) (id string, code events.Code) {
	var rep events.Replay
	code = a.do(fmt.Sprintf("replay %+v", req), func(ctx context.Context, s *operate.Service) (err error) {
		rep, err = s.StartReplay(ctx, operatorKey, req)
		return err
	}, func(code events.Code, writes int) {
		job := a.w.model.ops.replays[rep.ID]
		switch {
		case req.DryRun && (writes > 0 || job != nil):
			a.w.violate("a dry run of a replay made %d writes", writes)
		case code == "" && !req.DryRun && job == nil:
			a.w.violate("replay %s was answered and is not there", rep.ID)
		case code == "" && rep.Matched > rep.Limit:
			a.w.violate("replay %s matched %d, its limit is %d", rep.ID, rep.Matched, rep.Limit)
		}
	})
	if code == "" && !req.DryRun {
		id = rep.ID
		a.replays = append(a.replays, id)
	}
	return id, code
}

// watchReplay reads how far a replay has come.
func (a *admin) watchReplay(id string) (rep events.Replay, code events.Code) {
	least := 0
	a.begins = func() { least = len(a.w.model.ops.replays[id].took) }
	code = a.do("watch replay "+id, func(ctx context.Context, s *operate.Service) (err error) {
		rep, err = s.Replay(ctx, id)
		return err
	}, func(code events.Code, _ int) {
		if job := a.w.model.ops.replays[id]; code == "" && (rep.Admitted < int64(least) || rep.Admitted > int64(len(job.took))) {
			a.w.violate("replay %s was reported with %d admitted, it was %d to %d", id, rep.Admitted, least, len(job.took))
		}
	})
	return rep, code
}

func (a *admin) stopReplay(id string) events.Code {
	return a.do("stop replay "+id, func(ctx context.Context, s *operate.Service) error {
		_, err := s.StopReplay(ctx, operatorKey, id)
		return err
	}, func(code events.Code, _ int) {
		if code == "" && a.w.model.ops.replays[id].running {
			a.w.violate("replay %s was answered as stopped and runs", id)
		}
	})
}

// putTenant creates a tenant or changes its tier.
func (a *admin) putTenant(id, tier string) events.Code {
	unsure := a.unsure
	return a.do("tenant "+id+" "+tier, func(ctx context.Context, s *operate.Service) error {
		_, _, err := s.PutTenant(ctx, operatorKey, id, tier)
		return err
	}, func(code events.Code, _ int) {
		if is := taskop.DecodeTenant(a.w.table.Peek(taskop.TenantKey(id))); code == "" && is != tier && !unsure {
			a.w.violate("tenant %s was answered with tier %s and has %q", id, tier, is)
		}
	})
}

func (a *admin) makeKey(tenant string) events.Code {
	var key events.NewKey
	code := a.do("key of "+tenant, func(ctx context.Context, s *operate.Service) (err error) {
		key, err = s.CreateKey(ctx, operatorKey, tenant)
		return err
	}, func(code events.Code, _ int) {
		known := a.w.table.Peek(taskop.TenantKey(tenant)) != nil
		if code == "" && a.w.table.Peek(taskop.CredentialKey(key.Key)) == nil || code == events.NotFound && known && !a.unsure {
			a.w.violate("a key of %s was answered with %q, which is not so", tenant, code)
		}
	})
	if code == "" {
		a.keys = append(a.keys, secret{tenant: tenant, id: key.ID, text: key.Key})
	}
	return code
}

// withdrawKey withdraws the i-th key. A second try may find that the first one did.
func (a *admin) withdrawKey(i int) events.Code {
	k := &a.keys[i]
	code := a.do("withdraw "+k.id, func(ctx context.Context, s *operate.Service) error {
		return s.DeleteKey(ctx, operatorKey, k.tenant, k.id)
	}, func(code events.Code, _ int) {
		if _, valid := taskop.DecodeCredential(a.w.table.Peek(taskop.CredentialKey(k.text))); valid && (code == "" || code == events.NotFound) {
			a.w.violate("key %s was answered as withdrawn and is valid", k.id)
		}
	})
	switch {
	case indefinite(code):
		k.maybe = true
	case k.gone.IsZero():
		k.gone = a.w.now()
	}
	return code
}

// useKey shows a key as its owner would. It works as long as it was not
// withdrawn, and not any more a minute after that; where reads may be old nobody can say.
func (a *admin) useKey(i int) {
	k := &a.keys[i]
	var who intake.Principal
	var err error
	a.call("use "+k.id, func(ctx context.Context, s *intake.Service) { who, err = s.Authenticate(ctx, k.text) }, func(ok bool) {
		code := codeOf(ok, err)
		a.w.note("operator: use %s → %s", k.id, code)
		since := a.w.now().Sub(k.gone)
		switch {
		case code == "" && who.Tenant != k.tenant:
			a.w.violate("key %s stands for %+v, not for tenant %s", k.id, who, k.tenant)
		case a.w.opts.Faults.Stale > 0 || indefinite(code):
		case code == "" && !k.gone.IsZero() && since > 60*time.Second+admissionTimeout+2*a.w.opts.Faults.Skew:
			a.w.violate("key %s works %v after it was withdrawn", k.id, since)
		case code != "" && k.gone.IsZero() && !k.maybe:
			a.w.violate("key %s is valid and was refused: %s", k.id, code)
		}
	})
}

// operatorStep is one act of an operator in a random history.
func (a *admin) operatorStep() {
	a.pause(0, 12*time.Second)
	lanes := a.w.cfg.LaneNames()
	lane := lanes[a.rng.IntN(len(lanes))]
	switch u := a.rng.Float64(); {
	case u < 0.2:
		a.setPaused(lane, true)
		a.pause(0, 15*time.Second)
		a.setPaused(lane, false)
	case u < 0.55:
		req := intake.ReplayRequest{Rate: []float64{0.5, 2, 50}[a.rng.IntN(3)], Limit: []int64{1, 3, 100}[a.rng.IntN(3)], DryRun: a.rng.Float64() < 0.15}
		switch a.rng.IntN(4) {
		case 0:
			req.Filter.Tenant = "beta"
		case 1:
			req.Filter.Class = classes[a.rng.IntN(len(classes))]
		case 2:
			req.Filter.Lane = lane
		default:
			req.Filter.MinAge = events.Seconds(a.rng.Int64N(5000))
		}
		a.startReplay(req)
	case u < 0.65 && len(a.replays) > 0:
		a.stopReplay(a.replays[a.rng.IntN(len(a.replays))])
	case u < 0.72 && len(a.replays) > 0:
		a.watchReplay(a.replays[a.rng.IntN(len(a.replays))])
	case u < 0.82:
		a.putTenant("gamma", []string{"small", "large"}[a.rng.IntN(2)])
	case u < 0.9:
		a.makeKey([]string{"beta", "gamma"}[a.rng.IntN(2)])
	case u < 0.95 && len(a.keys) > 0:
		a.withdrawKey(a.rng.IntN(len(a.keys)))
	case len(a.keys) > 0:
		a.useKey(a.rng.IntN(len(a.keys)))
	}
}

// operate lets an operator work, and gives quarantine something to hold.
func (w *World) operate(acts int) {
	w.client("failing", "beta", func(c *Client) {
		for range 1 + acts/2 {
			c.submit(c.submission([]string{"plain", "quick"}[c.rng.IntN(2)], work{Do: "fail", N: c.rng.IntN(4), MS: 20}, ""))
			c.pause(0, 2*time.Second)
		}
	})
	w.operator("operator", func(a *admin) {
		for range acts {
			a.operatorStep()
		}
		a.goHome()
	})
}

// goHome leaves things as an operator should: lanes go on, replays have ended.
func (a *admin) goHome() {
	if a.unsure { // what had no answer may still arrive
		a.pause(90*time.Second, 90*time.Second)
	}
	for _, lane := range a.w.cfg.LaneNames() {
		if a.isPaused(lane) {
			a.until(func() events.Code { return a.setPaused(lane, false) })
		}
	}
	for range 6 {
		if len(a.running()) == 0 {
			break
		}
		a.pause(20*time.Second, 20*time.Second)
	}
	for _, id := range a.running() {
		a.until(func() events.Code { return a.stopReplay(id) })
	}
	for i := range a.keys {
		a.useKey(i)
	}
}

// look asks the model something on the scheduler.
func (a *admin) look(ask func(o *operations)) {
	done := make(chan struct{})
	a.w.post("look of "+a.name, func() {
		ask(a.w.model.ops)
		close(done)
	})
	a.pause(time.Millisecond, time.Millisecond)
	select { // what was seen is seen here too
	case <-done:
	default: // the world has ended
	}
}

func (a *admin) isPaused(lane string) (is bool) {
	a.look(func(o *operations) { _, is = o.paused[lane] })
	return is
}

// running are the replays that run, also those whose start had no answer.
func (a *admin) running() (ids []string) {
	a.look(func(o *operations) {
		for id, job := range o.replays {
			if job.running {
				ids = append(ids, id)
			}
		}
	})
	return sorted(ids)
}

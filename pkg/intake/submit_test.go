package intake_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

func openTable(t testing.TB) op.Table {
	t.Helper()
	db, err := embed.Open(filepath.Join(t.TempDir(), "table.db"), embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db.Table()
}

// setup is a rig over the embedded table with a clock that stands.
func setup(t testing.TB, replacements ...string) (*rig.Rig, *rig.Manual) {
	t.Helper()
	now := rig.NewManual()
	return rig.New(rig.Config(t, replacements...), openTable(t), now.Now), now
}

func submission(t testing.TB, r *rig.Rig, key, body string) intake.Submission {
	t.Helper()
	s, refusal := intake.Decode([]byte(body), intake.Header{IdempotencyKey: key, HasIdempotencyKey: key != ""}, r.Config)
	if refusal != nil {
		t.Fatal(refusal)
	}
	return s
}

func refusalOf(t testing.TB, err error) *intake.Refusal {
	t.Helper()
	var r *intake.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("%v is no refusal", err)
	}
	return r
}

// hour is a task whose deadline is far away.
const hour = `{"class":"short","deadline_seconds":3600}`

func TestEveryRefusalHasItsCodeAndLeavesNothing(t *testing.T) {
	const tiers = "basic: {max_queued_work: 1000h, max_active: 100, max_priority: high}"
	pause := func(t *testing.T, r *rig.Rig) {
		if _, err := r.Raw.Write(t.Context(), taskop.CreateLane("standard", 2)); err != nil {
			t.Fatal(err)
		}
		l := r.Lane(t, "standard")
		if _, err := r.Raw.Write(t.Context(), taskop.PauseLane(&l, true)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		config  []string
		prepare func(*testing.T, *rig.Rig)
		before  int // tasks accepted before, of an hour
		who     string
		key     string
		body    string
		code    events.Code
		binding string
		pointer string
		retry   bool
	}{
		"unknown class":      {body: `{"class":"nope"}`, code: events.UnknownClass},
		"key required":       {body: `{"class":"sized"}`, code: events.InvalidRequest, pointer: "header:Idempotency-Key"},
		"hint too large":     {key: "k", body: `{"class":"sized","hints":{"rows":101}}`, code: events.InvalidRequest, pointer: "/hints/rows"},
		"priority too high":  {body: `{"class":"short","priority":"critical"}`, code: events.ForbiddenPriority},
		"an operator":        {who: "operator", body: hour, code: events.Forbidden},
		"infeasible":         {body: `{"class":"short","deadline_seconds":1}`, code: events.DeadlineInfeasible, binding: "service_time"},
		"paused":             {prepare: pause, body: hour, code: events.RejectLanePaused, binding: "lane_paused", retry: true},
		"rate":               {config: []string{tiers, "basic: {max_queued_work: 1h, max_active: 9, rate: 1, burst: 2}"}, before: 2, body: hour, code: events.RejectRateLimit, binding: "tenant_rate", retry: true},
		"tenant work":        {config: []string{tiers, "basic: {max_queued_work: 3s, max_active: 9}"}, before: 3, body: hour, code: events.RejectTenantLimit, binding: "tenant_queued_work", retry: true},
		"daily work":         {config: []string{tiers, "basic: {max_queued_work: 1h, daily_work: 3s, max_active: 9}"}, before: 3, body: hour, code: events.RejectTenantLimit, binding: "tenant_daily_work", retry: true},
		"tenant max_wait":    {config: []string{tiers, "basic: {max_queued_work: 1h, max_active: 1}", "normal: {max_wait: 336h", "normal: {max_wait: 2s"}, before: 3, body: hour, code: events.RejectTenantLimit, binding: "tenant_max_wait", retry: true},
		"tenant deadline":    {config: []string{tiers, "basic: {max_queued_work: 1h, max_active: 1}"}, before: 3, body: `{"class":"short","deadline_seconds":4}`, code: events.RejectDeadline, binding: "tenant_deadline", retry: true},
		"lane backlog":       {config: []string{"backlog: {max_work: 8000h}", "backlog: {max_work: 3s}"}, before: 3, body: hour, code: events.RejectLaneBacklog, binding: "lane_max_work", retry: true},
		"lane max_wait":      {config: []string{"normal: {max_wait: 336h", "normal: {max_wait: 1s"}, before: 3, body: hour, code: events.RejectLaneBacklog, binding: "lane_max_wait", retry: true},
		"lane deadline":      {before: 4, body: `{"class":"short","deadline_seconds":3}`, code: events.RejectDeadline, binding: "lane_deadline", retry: true},
		"margin of the lane": {config: []string{"safety_margin: 0s", "safety_margin: 2s"}, body: `{"class":"short","deadline_seconds":3}`, code: events.DeadlineInfeasible, binding: "service_time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := setup(t, c.config...)
			svc, who := r.Intake(), r.Who("alpha")
			if c.who == "operator" {
				who = intake.Principal{Operator: true}
			}
			if c.prepare != nil {
				c.prepare(t, r)
			}
			for range c.before {
				if _, err := svc.Submit(t.Context(), who, submission(t, r, "", hour)); err != nil {
					t.Fatalf("before: %v", err)
				}
			}
			state := func() string {
				l := r.Lane(t, "standard")
				return fmt.Sprint(r.Ledger(t, "alpha"), l.Counts())
			}
			before := state()
			_, err := svc.Submit(t.Context(), who, submission(t, r, c.key, c.body))
			got := refusalOf(t, err)
			if got.Code != c.code || got.Detail == "" || (got.RetryAfterSeconds > 0) != c.retry {
				t.Errorf("%+v", got)
			}
			if c.binding != "" && (got.Decision == nil || string(got.Decision.BindingLimit) != c.binding || got.Decision.Code != c.code) {
				t.Errorf("decision %+v, want the limit %s", got.Decision, c.binding)
			}
			if c.pointer != "" && (len(got.Faults) != 1 || got.Faults[0].Pointer != c.pointer) {
				t.Errorf("faults %v", got.Faults)
			}
			if after := state(); after != before {
				t.Errorf("ledger and lane were %s, are %s", before, after)
			}
			if n := len(r.Tasks(t)); n != c.before {
				t.Errorf("%d rows, accepted were %d", n, c.before)
			}
			r.CheckHoldings(t)
			r.CheckLanes(t, true)
		})
	}
}

// TestObeyingTheGuidanceWorks: what a rate or a deadline refuses is accepted
// when the client comes back as it was told.
func TestObeyingTheGuidanceWorks(t *testing.T) {
	r, now := setup(t, "basic: {max_queued_work: 1000h, max_active: 100", "basic: {max_queued_work: 1h, max_active: 9, rate: 0.5, burst: 2")
	svc, who := r.Intake(), r.Who("alpha")
	for range 2 {
		if _, err := svc.Submit(t.Context(), who, submission(t, r, "", hour)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := svc.Submit(t.Context(), who, submission(t, r, "", hour))
	wait := refusalOf(t, err).RetryAfterSeconds
	if wait < 2 || wait > 3 { // one token takes 2 s; up to a fifth more
		t.Errorf("come back in %d s", wait)
	}
	now.Advance(time.Second)
	if _, err := svc.Submit(t.Context(), who, submission(t, r, "", hour)); refusalOf(t, err).Code != events.RejectRateLimit {
		t.Errorf("too early: %v", err)
	}
	now.Advance(time.Duration(wait-1) * time.Second)
	if _, err := svc.Submit(t.Context(), who, submission(t, r, "", hour)); err != nil {
		t.Errorf("obeyed the guidance, still refused: %v", err)
	}
}

// TestTheSameKeyIsTheSameTask, whatever the limits say by then.
func TestTheSameKeyIsTheSameTask(t *testing.T) {
	r, now := setup(t, "basic: {max_queued_work: 1000h, max_active: 100", "basic: {max_queued_work: 1s, max_active: 9, rate: 1, burst: 1")
	who := r.Who("alpha")
	first, err := r.Intake().Submit(t.Context(), who, submission(t, r, "k", `{"class":"short","payload":{"a":1,"b":2}}`))
	if err != nil || first.Replayed {
		t.Fatal(first, err)
	}
	l := r.Lane(t, "standard")
	if _, err := r.Raw.Write(t.Context(), taskop.PauseLane(&l, true)); err != nil {
		t.Fatal(err)
	}
	for _, svc := range []*intake.Service{r.Intake(), r.Intake()} { // no instance remembers it
		again, err := svc.Submit(t.Context(), who, submission(t, r, "k", `{"payload":{"b":2.0,"a":1},"class":"short"}`))
		if err != nil || !again.Replayed || again.Task.ID != first.Task.ID {
			t.Fatalf("%+v, %v", again, err)
		}
		_, err = svc.Submit(t.Context(), who, submission(t, r, "k", `{"class":"short","payload":{"a":1,"b":3}}`))
		if got := refusalOf(t, err); got.Code != events.IdempotencyConflict {
			t.Fatalf("another body: %v", got)
		}
		now.Advance(100 * time.Hour)
	}
	other, err := r.Intake().Submit(t.Context(), r.Who("beta"), submission(t, r, "k", hour))
	if refusalOf(t, err).Code != events.RejectLanePaused {
		t.Errorf("another tenant's key of the same name met %+v, %v", other, err)
	}
	if n := len(r.Tasks(t)); n != 1 {
		t.Errorf("%d rows", n)
	}
	r.CheckHoldings(t)
	r.CheckLanes(t, true)
}

func TestARejectedRequestMayUseItsKeyAgain(t *testing.T) {
	r, _ := setup(t)
	svc, who := r.Intake(), r.Who("alpha")
	_, err := svc.Submit(t.Context(), who, submission(t, r, "k", `{"class":"short","deadline_seconds":0.5}`))
	if refusalOf(t, err).Code != events.DeadlineInfeasible {
		t.Fatal(err)
	}
	got, err := svc.Submit(t.Context(), who, submission(t, r, "k", hour))
	if err != nil || got.Replayed {
		t.Fatal(got, err)
	}
}

// TestTwinsUnderOneKeyAreOneTask: a hundred at once, on several instances.
func TestTwinsUnderOneKeyAreOneTask(t *testing.T) {
	for name, before := range map[string]int{"a slot is free": 0, "all wait": 3} {
		t.Run(name, func(t *testing.T) {
			r, _ := setup(t)
			who := r.Who("alpha")
			for range before {
				if _, err := r.Intake().Submit(t.Context(), who, submission(t, r, "", hour)); err != nil {
					t.Fatal(err)
				}
			}
			instances := []*intake.Service{r.Intake(), r.Intake(), r.Intake()}
			sub := submission(t, r, "twin", hour)
			var mu sync.Mutex
			ids, created := map[string]int{}, 0
			var wg sync.WaitGroup
			for i := range 100 {
				wg.Go(func() {
					got, err := instances[i%len(instances)].Submit(t.Context(), who, sub)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						t.Errorf("a twin was refused: %v", err)
						return
					}
					ids[got.Task.ID]++
					if !got.Replayed {
						created++
					}
				})
			}
			wg.Wait()
			if len(ids) != 1 || created != 1 {
				t.Errorf("%d ids, %d of them new", len(ids), created)
			}
			if n := len(r.Tasks(t)); n != before+1 {
				t.Errorf("%d rows", n)
			}
			r.CheckHoldings(t)
			r.CheckLanes(t, true)
		})
	}
}

// TestQuotesReserveNothing: and say what a submission is told next.
func TestQuotesReserveNothing(t *testing.T) {
	r, _ := setup(t, "basic: {max_queued_work: 1000h", "basic: {max_queued_work: 2s")
	svc, who := r.Intake(), r.Who("alpha")
	for i, want := range []events.Code{"accept", "accept", events.RejectTenantLimit} {
		for range 3 {
			q, err := r.Intake().Quote(t.Context(), who, submission(t, r, "", hour))
			if err != nil || q.Outcome != want || (q.RetryAfterSeconds > 0) != (want != "accept") {
				t.Fatalf("%d: %+v, %v", i, q, err)
			}
		}
		if l := r.Ledger(t, "alpha"); l.WorkMS != int64(i)*1000 || r.Lane(t, "standard").Open != int64(i) || len(r.Tasks(t)) != i || r.Queue.Len("standard") != i {
			t.Fatalf("after the quotes: %+v, %d open, %d rows, %d messages", l, r.Lane(t, "standard").Open, len(r.Tasks(t)), r.Queue.Len("standard"))
		}
		if _, err := svc.Submit(t.Context(), who, submission(t, r, "", hour)); (err == nil) != (want == "accept") {
			t.Fatalf("%d: %v", i, err)
		}
	}
}

// TestTenOfAHundred: with room for ten amounts, a hundred at once are ten.
func TestTenOfAHundred(t *testing.T) {
	r, _ := setup(t, "basic: {max_queued_work: 1000h", "basic: {max_queued_work: 10s")
	for range 2 { // all slots are another tenant's
		if _, err := r.Intake().Submit(t.Context(), r.Who("beta"), submission(t, r, "", hour)); err != nil {
			t.Fatal(err)
		}
	}
	instances := []*intake.Service{r.Intake(), r.Intake(), r.Intake(), r.Intake()}
	var mu sync.Mutex
	accepted := 0
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			got, err := instances[i%len(instances)].Submit(t.Context(), r.Who("alpha"), submission(t, r, "", hour))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				accepted++
				if got.Task.State != task.Waiting {
					t.Errorf("accepted as %s, with no slot free", got.Task.State)
				}
			} else if c := refusalOf(t, err).Code; c != events.RejectTenantLimit {
				t.Errorf("refused with %s", c)
			}
		})
	}
	wg.Wait()
	if accepted != 10 {
		t.Errorf("%d accepted", accepted)
	}
	r.CheckLimits(t, "alpha", 0)
	r.CheckHoldings(t)
	r.CheckLanes(t, true)
}

// TestACanceledCallerLeavesNothingHalfDone: the caller's context ends between
// two calls.
func TestACanceledCallerLeavesNothingHalfDone(t *testing.T) {
	for n := 1; ; n++ {
		r, _ := setup(t)
		ctx, cancel := context.WithCancel(t.Context())
		r.Table.Before(func(c rig.Call) {
			if c.N == n {
				cancel()
			}
		})
		_, err := r.Intake().Submit(ctx, r.Who("alpha"), submission(t, r, "k", hour))
		cancel()
		r.CheckHoldings(t)
		r.CheckLanes(t, false)
		if err != nil && refusalOf(t, err).Code != events.Unavailable {
			t.Errorf("call %d: %v", n, err)
		}
		if _, again := r.Intake().Submit(t.Context(), r.Who("alpha"), submission(t, r, "k", hour)); again != nil {
			t.Errorf("call %d: the same submission again: %v", n, again)
		}
		if r.CheckHoldings(t); len(r.Tasks(t)) != 1 {
			t.Errorf("call %d: %d rows", n, len(r.Tasks(t)))
		}
		if r.Table.Calls() < n {
			return
		}
	}
}

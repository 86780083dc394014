package intake

import (
	"context"
	"errors"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/admission"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
)

// Accepted is a task that was admitted, now or (Replayed) under the same
// idempotency key before.
type Accepted struct {
	Task     *task.Task
	Replayed bool
}

// Submit admits a task or refuses it. The error is a *Refusal.
func (s *Service) Submit(ctx context.Context, who Principal, sub Submission) (Accepted, error) {
	now := s.Clock()
	row, span := s.Trace.Begin(sub.Traceparent, now.UnixMilli())
	sub.Traceparent = row
	p, refusal := s.prepare(who, sub, now)
	if refusal != nil {
		span.Refused(ctx, "", string(refusal.Code), s.Clock().UnixMilli())
		return Accepted{}, refusal
	}
	a := &attempt{Service: s, p: p, nonce: s.NewID()}
	out, err := a.run(ctx, now)
	if err == nil {
		outcome := trace.Replayed
		if !out.Replayed {
			outcome = trace.Accepted
			s.Tally.Decision(now, string(admission.Accept), p.Class, who.Tier)
		}
		span.Admitted(ctx, out.Task, outcome, s.Clock().UnixMilli())
		return out, nil
	}
	r := Unavailable(ctx, "submitting a task", err)
	s.Tally.Decision(now, string(r.Code), p.Class, who.Tier)
	span.Refused(ctx, p.Class, string(r.Code), s.Clock().UnixMilli())
	return Accepted{}, r
}

// Quote says what a submission would be told now. It reserves nothing. The
// error is a *Refusal.
func (s *Service) Quote(ctx context.Context, who Principal, sub Submission) (events.Quote, error) {
	now := s.Clock()
	p, refusal := s.prepare(who, sub, now)
	if refusal != nil {
		return events.Quote{}, refusal
	}
	if err := s.readChain(ctx, p); err != nil {
		return events.Quote{}, Unavailable(ctx, "quoting", err)
	}
	v, err := s.lookFor(ctx, p, now, true)
	if err != nil {
		return events.Quote{}, Unavailable(ctx, "quoting", err)
	}
	d := s.decide(p, &v, now)
	return events.Quote{Outcome: events.Code(d.Code), Decision: *figures(&d), RetryAfterSeconds: s.retryAfter(&d)}, nil
}

// retryAfter is the guidance of a decision in seconds, 0 where coming back does
// not help.
func (s *Service) retryAfter(d *admission.Decision) int64 {
	if d.Accepted() || d.Code == admission.DeadlineInfeasible {
		return 0
	}
	return admission.RetryAfterSeconds(d.RetryAfterMS, s.Float())
}

// attempt is one submission on its way through the store.
type attempt struct {
	*Service
	p     *prepared
	nonce string     // recognises our own row after an uncertain outcome
	again *task.Task // the quarantined task that is admitted again, nil for a new one

	replay string    // the replay that admits it again, "" for nobody's
	take   *op.Write // and its count
}

// Bounds on how often a submission decides again. One failed guard is
// ordinary: the copy was old. After a second the lane or ledger is at its
// limit, and the refusal carries the figures just met.
const (
	maxGuardFailures = 2
	maxRounds        = 8 // slot or order changed hands in between, the rate's form changed
)

func (a *attempt) run(ctx context.Context, now time.Time) (out Accepted, err error) {
	defer func() { a.settleProbe(ctx, out, err) }()
	for range maxRounds {
		if err := a.readChain(ctx, a.p); err != nil {
			return Accepted{}, err
		}
		if out, err := a.once(ctx, now); !errors.Is(err, errChainMoved) {
			return out, err
		}
	}
	return Accepted{}, &op.Unavailable{Name: "accept", Reason: op.Conflict, Err: errChainMoved}
}

// once decides and accepts on the chain of the ordering key as it was read.
func (a *attempt) once(ctx context.Context, now time.Time) (Accepted, error) {
	v, err := a.lookFor(ctx, a.p, now, false)
	if err != nil {
		return Accepted{}, err
	}
	d := a.decide(a.p, &v, now)
	if !d.Accepted() && (v.lane.at.Before(now) || v.ledger.at.Before(now)) {
		// Nothing is refused on old news, not even on an empty copy.
		if v, err = a.lookFor(ctx, a.p, now, true); err != nil {
			return Accepted{}, err
		}
		d = a.decide(a.p, &v, now)
	}
	a.probe(ctx, &v, &d, now)
	wasEmpty := v.lane.Empty()
	hold, refused, err := a.takeLane(ctx, &v, &d)
	if err != nil {
		return Accepted{}, err
	}
	if refused {
		return a.refused(ctx, &d)
	}
	out, err := a.accept(ctx, hold, &v, &d)
	if err == nil && !out.Replayed && wasEmpty {
		a.wake(ctx, now)
	}
	return out, err
}

// hold is what was taken from the lane.
type hold struct {
	entry   taskop.Open
	entered int64 // of the lane, with ours
	queued  bool
	held    bool // behind others of its ordering key
	shared  bool // the slot's entry was there already: a twin's, or of an earlier try of ours
}

// takeLane takes a slot, or a place in the ready order, under the decision's
// guard. When the guard fails it decides again on the item it met.
func (a *attempt) takeLane(ctx context.Context, v *view, d *admission.Decision) (hold, bool, error) {
	h := hold{entry: taskop.Open{ID: a.p.id, Class: a.p.Class, Bucket: a.p.bucket, Tenant: a.p.who.Tenant, Low: a.low(a.p)}}
	guardFailures := 0
	for range maxRounds {
		if !d.Accepted() {
			return h, true, nil
		}
		now := a.Clock()
		h.entry.AmountMS, h.entry.SinceMS = d.EstimateMS, now.UnixMilli()
		halted := v.lane.Halts(a.p.Class)
		h.held = a.p.chain.Head != 0
		h.queued = v.lane.Open < v.lane.Slots && v.lane.Ready <= 0 && !halted && !h.held
		guard := &taskop.Guard{EnteredMaxMS: d.Guard.LaneEnteredMaxMS, Cut: v.lane.Cut}
		w := taskop.EnterReady(a.p.lane.Name, h.entry.AmountMS, guard)
		if halted {
			w = taskop.EnterHalted(a.p.lane.Name, h.entry.AmountMS, guard)
		}
		if h.held {
			w = taskop.EnterHeld(a.p.lane.Name, h.entry.AmountMS, guard)
		}
		if h.queued {
			w = taskop.Advance(taskop.EnterSlot(a.p.lane.Name, h.entry, guard), v.lane.Virtual, start(a.p, v))
		}
		item, err := a.Table.Write(ctx, w)
		if err == nil {
			h.entered = taskop.Entered(item)
			return h, false, a.keepLane(a.p.lane.Name, item, now)
		}
		ce := op.FailedCond(err)
		if ce == nil {
			return h, false, err
		}
		met, _ := ce.On(0)
		if h.queued && met.Has(taskop.QueuedEntry(a.p.id)) && taskop.Cut(met) == guard.Cut {
			// Our own entry: an earlier try of ours, or of a twin under the same key,
			// was applied. Whose it is the row will tell, so it is not ours to give back.
			// Where the lane was paused or cut since our copy, it is decided again first.
			// Where it was taken by another estimate, the lane would count another work than
			// the row has: the check gives it back within seconds, unless a row is there.
			if taskop.QueuedAmount(met, a.p.id) != h.entry.AmountMS {
				a.crowdedOut(d, admission.RejectLaneBacklog, admission.BindingLaneMaxWork)
				return h, true, nil
			}
			h.shared = true
			return h, false, nil
		}
		if err := a.keepLane(a.p.lane.Name, met, now); err != nil {
			return h, false, err
		}
		if met == nil { // deleted under our hands: begin afresh
			if *v, err = a.look(ctx, a.p.lane.Name, a.p.who.Tenant, now, true); err != nil {
				return h, false, err
			}
		} else if v.lane.Lane, err = taskop.DecodeLane(a.p.lane.Name, met); err != nil {
			return h, false, err
		}
		v.lane.at = now
		entered := v.lane.EnteredMS > d.Guard.LaneEnteredMaxMS
		*d = a.decide(a.p, v, now)
		if entered || v.lane.Cut != guard.Cut {
			if guardFailures++; guardFailures >= maxGuardFailures {
				a.crowdedOut(d, admission.RejectLaneBacklog, admission.BindingLaneMaxWork)
				return h, true, nil
			}
		}
	}
	a.crowdedOut(d, admission.RejectLaneBacklog, admission.BindingLaneMaxWork)
	return h, true, nil
}

// crowdedOut turns a decision that would accept, but kept losing against
// others, into a refusal with its figures.
func (a *attempt) crowdedOut(d *admission.Decision, code admission.Code, binding admission.Binding) {
	if d.Accepted() {
		d.Code, d.Binding, d.RetryAfterMS = code, binding, max(d.PredictedWaitMS, 1000)
	}
}

// refused answers with the decision, unless the idempotency key has a task
// already: then that task is the answer, whatever the limits say by now.
func (a *attempt) refused(ctx context.Context, d *admission.Decision) (Accepted, error) {
	if a.p.IdempotencyKey != "" {
		item, err := a.Table.Get(ctx, taskop.RowKey(a.p.who.Tenant, a.p.id), true)
		if err != nil {
			return Accepted{}, err
		}
		if item != nil {
			return a.existing(ctx, item)
		}
	}
	return Accepted{}, &Refusal{Code: events.Code(d.Code), Detail: explain(d), RetryAfterSeconds: a.retryAfter(d), Decision: figures(d)}
}

// existing answers with the row met under our id.
func (a *attempt) existing(ctx context.Context, item op.Item) (Accepted, error) {
	t, err := taskop.DecodeRow(taskop.RowKey(a.p.who.Tenant, a.p.id), item)
	if err != nil {
		return Accepted{}, err
	}
	if t.Nonce == a.nonce {
		return Accepted{Task: t}, nil
	}
	if a.again != nil {
		return Accepted{Task: t, Replayed: true}, nil // somebody else took it out of quarantine
	}
	if t.RequestHash != a.p.RequestHash {
		return Accepted{}, refuse(events.IdempotencyConflict, "the idempotency key was used with another request body")
	}
	if t, err = a.keep(ctx, t); err != nil {
		return Accepted{}, err
	}
	return Accepted{Task: t, Replayed: true}, nil
}

// unsent is how long after its submission a queued task may still be withdrawn,
// because its message cannot be sent: longer than any call of the API takes.
const unsent = time.Minute

// keep makes sure that a task of which a second client is about to be told is
// not withdrawn by the first, whose message may still fail to be sent.
func (a *attempt) keep(ctx context.Context, t *task.Task) (*task.Task, error) {
	if t.State != task.Queued || t.Gen != 0 || a.Clock().UnixMilli()-t.SubmittedMS > unsent.Milliseconds() {
		return t, nil
	}
	_, err := a.Table.Write(ctx, taskop.KeepRow(t))
	ce := op.FailedCond(err)
	if ce == nil {
		return t, err
	}
	met, _ := ce.On(0)
	if met == nil {
		return nil, &op.Unavailable{Name: "accept", Reason: op.Conflict, Err: errWithdrawn}
	}
	return taskop.DecodeRow(taskop.RowKey(t.Tenant, t.ID), met)
}

var errWithdrawn = errors.New("intake: the submission under the same key was just withdrawn")

// readChain reads whose turn it is in the chain of the submission's ordering key.
func (s *Service) readChain(ctx context.Context, p *prepared) error {
	if p.OrderingKey == "" {
		return nil
	}
	item, err := s.Table.Get(ctx, taskop.ChainKey(p.who.Tenant, p.OrderingKey), true)
	p.chain = taskop.DecodeChain(item)
	return err
}

var errChainMoved = errors.New("intake: the ordering key's chain kept changing")

var errCrowded = errors.New("intake: the ledger kept changing")

package intake

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/admission"
	"github.com/lanekeeper/lanekeeper/pkg/fair"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
)

// accept writes the row and takes the reservation for a lane that is held, and
// sends the message of a queued task. Whatever is refused gives the lane back.
func (a *attempt) accept(ctx context.Context, h hold, v *view, d *admission.Decision) (Accepted, error) {
	for round := 0; ; round++ {
		now := a.Clock()
		t, use := a.row(h, v, d, now), a.use(v, d, now)
		// A waiting task's place rests on its tag, so the tag has to be right; when the tenant's
		// own submissions keep moving it, a tag that is a little too early does.
		use.Fair.Exact = !h.queued && round < exactRounds
		tx := a.tx(t, use)
		err := a.Table.Transact(ctx, tx)
		if op.IsUnavailable(err) {
			// The outcome is unknown. Once more: our own row is recognised by its nonce.
			err = a.Table.Transact(ctx, tx)
		}
		if err == nil {
			a.advance(t.Tenant, use)
			if !h.queued {
				a.enter(t.AtLane, ownEntry{key: t.Tag + t.ShiftMS, amountMS: t.AmountMS, entered: h.entered})
			}
			return a.send(ctx, t, h)
		}
		ce := op.FailedCond(err)
		if ce == nil {
			// Still unknown: the row may be there. The lane stays taken (too full is
			// safe) until the aggregator has looked.
			return Accepted{}, err
		}
		if item, failed := ce.On(taskop.OnRow); failed && item != nil {
			out, err := a.existing(ctx, item)
			if err == nil && !out.Replayed {
				return a.send(ctx, out.Task, h)
			}
			if !h.queued || !a.occupies(item) {
				a.giveBack(ctx, h)
			}
			return out, err
		}
		if err := a.lost(ce, len(tx.Writes)); err != nil {
			a.giveBack(ctx, h)
			return Accepted{}, err
		}
		item, failed := ce.On(taskop.OnLedger)
		if !failed {
			a.giveBack(ctx, h)
			return Accepted{}, err
		}
		a.keepLedger(a.p.who.Tenant, item, now)
		v.ledger = ledgerCopy{taskop.DecodeLedger(item), now}
		held := *d
		*d = a.decide(a.p, v, now)
		ledgerSays := d.Code == admission.RejectTenantLimit || d.Code == admission.RejectRateLimit || d.Binding == admission.BindingTenantDeadline
		if !d.Accepted() && ledgerSays || round >= maxRounds {
			a.giveBack(ctx, h)
			if d.Accepted() {
				return Accepted{}, &op.Unavailable{Name: "accept", Reason: op.Conflict, Err: errCrowded}
			}
			return a.refused(ctx, d)
		}
		// The lane was taken under the earlier decision's guard and counts us now;
		// what the lane says is settled, only the ledger's part is decided again.
		fresh := d.Guard
		*d = held
		if fresh.TenantWorkMaxMS >= 0 {
			d.Guard.TenantEnteredMaxMS, d.Guard.TenantWorkMaxMS, d.Guard.DayWorkMaxMS = fresh.TenantEnteredMaxMS, fresh.TenantWorkMaxMS, fresh.DayWorkMaxMS
		}
	}
}

// occupies says whether the row met under our id is open in our lane: the
// slot's entry, which goes by the id, is then that row's.
func (a *attempt) occupies(item op.Item) bool {
	t, err := taskop.DecodeRow(taskop.RowKey(a.p.who.Tenant, a.p.id), item)
	return err == nil && t.AtLane == a.p.lane.Name && (t.State == task.Queued || t.State == task.Running)
}

// use is what the accept takes from the ledger, and under which conditions.
func (a *attempt) use(v *view, d *admission.Decision, now time.Time) taskop.LedgerUse {
	u := taskop.LedgerUse{AmountMS: d.EstimateMS, MaxActive: int64(a.p.tier.MaxActive), WorkMaxMS: d.Guard.TenantWorkMaxMS, EnteredMaxMS: d.Guard.TenantEnteredMaxMS}
	if g := gcra(a.p.tier); !g.Unlimited() {
		nowMicros := now.UnixMicro()
		u.Rate = &taskop.RateUse{NowMicros: nowMicros, IntervalMicros: g.IntervalUS, ToleranceMicros: g.MaxTAT(nowMicros) - nowMicros,
			Idle: v.ledger.TATMicros <= nowMicros}
	}
	if a.p.tier.DailyWork > 0 {
		u.Day, u.DayMaxMS = taskop.Day(now.UnixMilli()), d.Guard.DayWorkMaxMS
		u.NewDay = v.ledger.Day < u.Day
	}
	u.Fair = &taskop.FairUse{Lane: a.p.lane.Name, Virtual: v.lane.Virtual, Finish: v.ledger.Finish[a.p.lane.Name], Cost: fair.Cost(d.EstimateMS, a.p.tier.Weight)}
	return u
}

// low says whether the task is one that its lane keeps slots for.
func (s *Service) low(p *prepared) bool {
	lane := p.lane.Name
	return p.priorityName == "low" && s.Config.LowSlots(lane, s.Config.Slots(lane)) > 0
}

// exactRounds is how often an accept insists on the exact start tag.
const exactRounds = 3

func (a *attempt) row(h hold, v *view, d *admission.Decision, now time.Time) *task.Task {
	p := a.p
	deadline := p.receivedMS + p.deadlineMS
	t := &task.Task{
		Tenant: p.who.Tenant, ID: p.id, State: task.Waiting, Class: p.Class, Bucket: p.bucket, Lane: p.lane.Name, AtLane: p.lane.Name,
		Priority: p.priorityName, AmountMS: h.entry.AmountMS, SubmittedMS: p.receivedMS, DeadlineMS: deadline,
		StartByMS: deadline - d.ServiceP95MS, RunLate: p.class.RunsLate(),
		Prediction: task.Prediction{WaitMS: d.PredictedWaitMS, RatioMS: d.RatioWaitMS, P50MS: v.book.Get(p.Class, p.bucket).P50MS, P95MS: d.ServiceP95MS, MargMS: d.MarginMS, Probe: d.Probe,
			Figures: task.Figures{Samples: d.Samples, QueuedMS: d.QueuedWorkMS, Slots: int64(d.Slots), TenantQueuedMS: d.TenantQueuedWorkMS, TenantLimitMS: d.TenantLimitMS, CopyAgeMS: d.CopyAgeMS}},
		Keyed: p.IdempotencyKey != "", RequestHash: p.RequestHash, Nonce: a.nonce, OrderingKey: p.OrderingKey,
		Traceparent: p.Traceparent, Payload: p.Payload, Low: a.low(p),
		Tag: start(p, v), ShiftMS: fair.Shift(policy.PriorityRank(p.priorityName)), TagCost: fair.Cost(h.entry.AmountMS, p.tier.Weight),
	}
	if d.Probe {
		t.StartByMS = deadline // what it takes is what is to be learned
	}
	resend := a.Config.Tasks.ResendAfter.MS()
	if p.OrderingKey != "" {
		t.Seq, t.Held, t.Parked = p.chain.Last+1, h.held, h.held
	}
	if h.queued {
		t.State = task.Queued
		t.DueMS = now.UnixMilli() + resend
	} else {
		// By then it should have been claimed, with a lease that ends later: the due
		// time then needs no second write. An early visit finds nothing to do.
		t.DueMS = now.UnixMilli() + d.PredictedWaitMS + resend
	}
	if !t.RunLate {
		t.DueMS = min(t.DueMS, t.StartByMS)
	}
	if a.again != nil {
		return a.readmitted(t)
	}
	return t
}

// send wakes a worker for a queued task. When the queue fails, the acceptance
// is withdrawn: a task that nobody is told about would miss its prediction.
func (a *attempt) send(ctx context.Context, t *task.Task, h hold) (Accepted, error) {
	if t.State != task.Queued || !h.queued {
		return Accepted{Task: t}, nil
	}
	m := queue.Wakeup(t)
	err := a.Queue.Send(ctx, t.AtLane, m)
	if err != nil {
		err = a.Queue.Send(ctx, t.AtLane, m)
	}
	if err == nil {
		return Accepted{Task: t}, nil
	}
	if a.again != nil { // it was there before: it is not withdrawn, the aggregator sends again
		slog.WarnContext(ctx, "a task admitted again was not sent yet", trace.Task(t), "error", err)
		return Accepted{Task: t}, nil
	}
	ctx, cancel := cleanup(ctx)
	defer cancel()
	if werr := a.Table.Transact(ctx, taskop.Withdraw(t)); werr != nil {
		if op.FailedCond(werr) != nil {
			return Accepted{Task: t}, nil // it was sent after all and has been claimed
		}
		slog.WarnContext(ctx, "a submission could not be withdrawn; the aggregator will send it", trace.Task(t), "error", werr)
		return Accepted{}, fmt.Errorf("intake: send: %w", err)
	}
	a.giveBack(ctx, h)
	passOn(ctx, a.Table, t)
	return Accepted{}, fmt.Errorf("intake: send: %w", err)
}

// giveBack gives the lane back after a refusal. If that fails the lane stays
// too full until the aggregator repairs it.
func (a *attempt) giveBack(ctx context.Context, h hold) {
	if h.shared {
		return
	}
	ctx, cancel := cleanup(ctx)
	defer cancel()
	w := taskop.LeaveReady(a.p.lane.Name, h.entry.AmountMS, h.held)
	if h.queued {
		w = taskop.LeaveSlot(a.p.lane.Name, h.entry)
	}
	now := a.Clock()
	item, err := a.Table.Write(ctx, w)
	if err != nil {
		slog.WarnContext(ctx, "a lane was not given back; the aggregator will repair it", "lane", a.p.lane.Name, "error", err)
		return
	}
	if err := a.keepLane(a.p.lane.Name, item, now); err != nil {
		slog.ErrorContext(ctx, "bad lane item", "error", err)
	}
}

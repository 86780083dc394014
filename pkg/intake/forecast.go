package intake

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
	"github.com/lanekeeper/lanekeeper/pkg/wait"
)

// Forecast is where a waiting task stands now.
type Forecast struct {
	AheadMS int64 // work that stands before it
	WaitMS  int64 // predicted, wait.Infinite without slots
}

// Forecast predicts afresh for a task that waits; known is false for others, and when the
// store does not say.
func (s *Service) Forecast(ctx context.Context, who Principal, t *task.Task) (f Forecast, known bool) {
	if t.State != task.Waiting {
		return f, false
	}
	f, _, err := s.forecast(ctx, who, t)
	if err != nil {
		slog.WarnContext(ctx, "no forecast", trace.Task(t), "error", err)
	}
	return f, err == nil && f.WaitMS < wait.Infinite
}

func (s *Service) forecast(ctx context.Context, who Principal, t *task.Task) (Forecast, *view, error) {
	now := s.Clock()
	v, err := s.look(ctx, t.AtLane, t.Tenant, now, false)
	if err != nil {
		return Forecast{}, nil, err
	}
	lane := s.laneView(&v.lane, v.book, now)
	s.place(t.Tag+t.ShiftMS, t.Low, &v, &lane, now.UnixMilli())
	lane.BehindMS += t.AmountMS // it stands before its own key too
	f := Forecast{AheadMS: max(lane.WorkMS-lane.BehindMS, 0), WaitMS: lane.WaitMS()}
	if tier, ok := s.Config.Tier(who.Tier); ok && t.Parked && !t.Held {
		own := v.ledger.WorkMS - t.AmountMS
		if v.snap.Snapshot != nil {
			for _, g := range v.snap.Parked {
				if g.Tenant == t.Tenant {
					own = min(own, g.Points.Before(t.Tag+t.ShiftMS)-t.AmountMS)
				}
			}
		}
		f.WaitMS = max(f.WaitMS, wait.Level(s.tenantFree(tier, t.Tenant, &v, now.UnixMilli()), max(own, 0)))
	}
	if t.Held {
		entries, err := s.chainAhead(ctx, t)
		if err != nil {
			return Forecast{}, nil, err
		}
		var own int64
		for _, e := range entries {
			own += e.AmountMS
		}
		f.AheadMS, f.WaitMS = max(f.AheadMS, own), max(f.WaitMS, own)
	}
	return f, &v, nil
}

// maxChainRead bounds what is read of a chain; of a longer one the front counts.
const maxChainRead = 1000

// chainAhead are the tasks of its ordering key that a held task comes after.
func (s *Service) chainAhead(ctx context.Context, t *task.Task) (entries []taskop.ChainEntry, err error) {
	err = taskop.ChainEntries(t.Tenant, t.OrderingKey, 0).All(ctx, s.Table, func(r op.Row) bool {
		e, derr := taskop.DecodeChainEntry(r.Key, r.Item)
		if derr != nil || e.N >= t.Seq {
			return false
		}
		entries = append(entries, e)
		return len(entries) < maxChainRead
	})
	return entries, err
}

// Explain says what a task of the caller's own waits for, and what it was admitted
// on. The error is a *Refusal.
func (s *Service) Explain(ctx context.Context, who Principal, id string) (events.Explanation, error) {
	t, err := s.Get(ctx, who, id, 0)
	if err != nil {
		return events.Explanation{}, err
	}
	e := events.Explanation{ID: t.ID, State: events.State(t.State), AtLane: t.AtLane, WaitsFor: events.WaitsNothing, Decision: admitted(t)}
	nowMS := s.Clock().UnixMilli()
	_, known := s.Config.Lane(t.AtLane)
	switch t.State {
	case task.Waiting, task.Queued:
		if !known {
			e.WaitsFor, e.PredictedWait = events.WaitsOperator, events.Unbounded
			e.Detail = "its lane is not in the configuration any more; it goes on when an operator puts the lane back"
			break
		}
		if t.State == task.Queued {
			e.Detail = "it has a slot, whose worker is being woken"
			break
		}
		err = s.explainWaiting(ctx, who, t, &e)
	case task.Running:
		e.Detail = "an attempt is running"
	case task.RetryWait:
		e.WaitsFor, e.Until, e.PredictedWait = events.WaitsNotBefore, events.Time(t.NotBeforeMS), events.Seconds(max(t.NotBeforeMS-nowMS, 0))
		e.Detail = "its last attempt failed; the next begins in the retry lane, not before the time given"
	case task.Quarantined:
		e.WaitsFor, e.Detail = events.WaitsOperator, "it does not succeed by repeating it; a retry, a replay or a cancel takes it out of quarantine"
	default:
		e.Detail = "it is over: " + string(t.State)
	}
	if err != nil {
		return events.Explanation{}, Unavailable(ctx, "explaining a task", err)
	}
	return e, nil
}

func (s *Service) explainWaiting(ctx context.Context, who Principal, t *task.Task, e *events.Explanation) error {
	f, v, err := s.forecast(ctx, who, t)
	if err != nil {
		return err
	}
	e.WorkAhead, e.PredictedWait = events.Seconds(f.AheadMS), events.Seconds(f.WaitMS)
	if f.WaitMS >= wait.Infinite {
		e.PredictedWait = events.Unbounded
	}
	switch {
	case v.lane.Paused:
		e.WaitsFor, e.Detail = events.WaitsLanePaused, "its lane is paused by its operator"
	case v.lane.Halts(t.Class):
		e.WaitsFor, e.Name, e.Detail = events.WaitsBrake, t.Class, "tasks of its class fail all alike; only a few are let through until they succeed again"
	case t.Held:
		entries, err := s.chainAhead(ctx, t)
		if err != nil {
			return err
		}
		e.WaitsFor = events.WaitsOrderingKey
		if len(entries) > 0 {
			e.Name = entries[0].ID
		}
		e.Detail = "one task with its ordering key comes before it"
		if len(entries) > 1 {
			e.Detail = fmt.Sprintf("%d tasks with its ordering key come before it", len(entries))
		}
	case t.Parked:
		e.WaitsFor, e.Detail = events.WaitsTenantActive, "its tenant runs as many tasks as its tier allows"
	default:
		e.WaitsFor, e.Detail = events.WaitsSlot, fmt.Sprintf("all %d slots of its lane are taken; it begins when the work before it has begun", v.lane.Slots)
	}
	return nil
}

// admitted is the decision that accepted a task, as its row keeps it.
func admitted(t *task.Task) events.Decision {
	p, f := &t.Prediction, &t.Prediction.Figures
	d := events.Decision{Code: events.Accept, Lane: t.Lane, Estimate: events.Seconds(t.AmountMS), Samples: f.Samples,
		PredictedWait: events.Seconds(p.WaitMS), ServiceP95: events.Seconds(p.P95MS), Margin: events.Seconds(p.MargMS),
		Deadline: events.Seconds(t.DeadlineMS - t.Since()), QueuedWork: events.Seconds(f.QueuedMS), Slots: int(f.Slots),
		TenantQueuedWork: events.Seconds(f.TenantQueuedMS), TenantLimit: events.Seconds(f.TenantLimitMS),
		CopyAge: events.Seconds(f.CopyAgeMS), Probe: p.Probe}
	if p.WaitMS >= wait.Infinite {
		d.PredictedWait = events.Unbounded
	}
	return d
}

package intake

import (
	"context"
	"log/slog"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/chain"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
)

// maxCancelRounds bounds how often a cancel looks again after it lost a race;
// a task changes state a handful of times in its life.
const maxCancelRounds = 10

// Cancel cancels a task of the caller's own: at once when it is not running,
// else by asking its attempt to stop. done says that it was cancelled before.
// The error is a *Refusal.
func (s *Service) Cancel(ctx context.Context, who Principal, id string) (t *task.Task, done bool, err error) {
	if who.Operator {
		return nil, false, errForbidden
	}
	if !ValidID(id) {
		return nil, false, errNotFound
	}
	for range maxCancelRounds {
		t, err := s.read(ctx, who.Tenant, id)
		if err != nil {
			return nil, false, Unavailable(ctx, "reading a task to cancel", err)
		}
		switch {
		case t == nil:
			return nil, false, errNotFound
		case t.State == task.Cancelled:
			return t, true, nil
		case t.State.Terminal():
			return nil, false, refuse(events.AlreadyFinished, "the task is already over: "+string(t.State))
		case t.State == task.Running:
			if !t.CancelRequested {
				_, err = s.Table.Write(ctx, taskop.RequestCancel(t))
			}
			t.CancelRequested = true
		default:
			now := s.Clock()
			if err = s.Table.Transact(ctx, taskop.Close(t, task.Cancel, now.UnixMilli(), s.Config.Tasks.Retention.MS())); err == nil {
				Leave(ctx, s.Table, t)
				passOn(ctx, s.Table, t)
				s.forget(t.Tenant, t.AtLane)
				t.State, t.FinishedMS, t.CancelRequested = task.Cancelled, now.UnixMilli(), true
			}
		}
		if err == nil {
			return t, false, nil
		}
		if ce := op.FailedCond(err); ce == nil {
			return nil, false, Unavailable(ctx, "cancelling a task", err)
		}
	}
	return nil, false, Unavailable(ctx, "cancelling a task", &op.Unavailable{Name: "cancel", Reason: op.Conflict, Err: errCrowded})
}

// passOn lets the next task of a closed one's ordering key come up. If that fails, a
// visit to the next one finds it out.
func passOn(ctx context.Context, table op.Table, t *task.Task) {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	if err := chain.Ended(ctx, table, t); err != nil {
		slog.WarnContext(ctx, "the next task of an ordering key waits until it is visited", trace.Task(t), "error", err)
	}
}

// Leave takes a task that was waiting or queued out of its lane's counts, after
// its row was closed. A failure leaves the lane too full, to be repaired.
func Leave(ctx context.Context, table op.Table, t *task.Task) {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	var w op.Write
	switch t.State {
	case task.Queued:
		w = taskop.LeaveSlot(t.AtLane, taskop.Open{ID: t.ID, AmountMS: t.AmountMS})
	case task.Waiting:
		w = taskop.LeaveWaiting(t.AtLane, t.ID, t.AmountMS, t.Parked)
	default:
		return // retry_wait is in no lane's counts
	}
	if _, err := table.Write(ctx, w); err != nil {
		slog.WarnContext(ctx, "a lane's counts are too high until repaired", trace.Task(t), "error", err)
	}
}

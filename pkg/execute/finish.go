package execute

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/pkg/chain"
	"github.com/lanekeeper/lanekeeper/pkg/failure"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/retry"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// MaxErrorMessage is the longest error message kept, in bytes.
const MaxErrorMessage = 512

// historyMessage is how much of it each attempt of the history keeps.
const historyMessage = 96

// verdict is an attempt's end, and what to count of it.
type verdict struct {
	end     taskop.End
	outcome string
}

// conclude decides what an attempt's outcome means for its task.
func (s *Service) conclude(ctx context.Context, t *task.Task, out outcome) verdict {
	now := s.Clock().UnixMilli()
	after := *t
	after.Error, after.Same, after.Progress = nil, 0, out.progress
	record := task.Attempt{N: t.Attempt, Lane: t.AtLane, StartMS: t.AttemptMS, EndMS: now, Calls: out.calls}
	v := verdict{}
	checkpoint, goesOn := worker.CheckpointOf(out.err)
	handBack := errors.Is(out.cause, worker.ErrHandBack) || errors.Is(out.cause, context.Canceled)
	switch {
	case out.err == nil:
		v.end.Event, v.outcome = task.Succeed, task.OutcomeSucceeded
		after.Result = out.result
	case out.cancel:
		v.end.Event, v.outcome = task.AbortCancel, task.OutcomeCancelled
	case goesOn || handBack:
		v.end.Event, v.outcome = task.Continue, task.OutcomeHandBack
		if goesOn {
			after.Checkpoint = string(checkpoint)
		}
		after.DueMS = now + s.Config.Tasks.ResendAfter.MS()
	default:
		v = s.failed(ctx, t, &after, &record, out, now)
	}
	record.Outcome = v.outcome
	after.Attempts = append([]task.Attempt(nil), t.Attempts...)
	after.Record(record)
	if next, ok := task.Next(task.Running, v.end.Event); ok && next.To.Terminal() {
		after.FinishedMS = now
	} else if ok && next.To == task.Quarantined {
		after.QuarantinedMS = now
	}
	v.end.After, v.end.TagDelta, v.end.KeepMS = &after, taskop.TagDelta(t, now), s.Config.Tasks.Retention.MS()
	return v
}

// failed applies the retry policy of the task's lane and class.
func (s *Service) failed(ctx context.Context, t, after *task.Task, record *task.Attempt, out outcome, now int64) verdict {
	v := verdict{outcome: task.OutcomeFailed}
	code, message := worker.Code(out.err), out.err.Error()
	if errors.Is(out.cause, worker.ErrTimeLimit) {
		v.outcome, code = task.OutcomeTimedOut, "timeout"
	}
	f := failure.Failure{Retryable: !worker.IsPermanent(out.err), NotBegun: code == failure.CodeNoHandler || code == failure.CodeNoPayload,
		AfterMS: worker.AfterOf(out.err).Milliseconds()}
	after.Same = t.Same
	failure.Count(after, t.Error, &task.Error{Code: code, Signature: retry.Signature(code, message), Message: clip(message, MaxErrorMessage), Retryable: f.Retryable})
	f.SamePayload = s.samePayload(ctx, after, out.payload, f, now)
	record.Signature, record.Code, record.Message = after.Error.Signature, code, clip(message, historyMessage)
	v.end.Event, after.NotBeforeMS = failure.Next(s.Config, after, f, now, s.Float())
	after.DueMS = after.NotBeforeMS
	if !t.RunLate {
		after.DueMS = min(after.DueMS, t.StartByMS+1) // it may expire before
	}
	return v
}

// samePayload counts the task among those of its tenant and class that failed with
// its payload and signature, and returns how many those are; 0 when they are
// not counted. A task without a payload has none to blame.
func (s *Service) samePayload(ctx context.Context, t *task.Task, payload string, f failure.Failure, now int64) int64 {
	most, counts := failure.Counts(s.Config, t)
	if !counts || payload == "" || !f.Retryable || f.NotBegun {
		return 0
	}
	ctx, cancel := settling(ctx, endPause*10)
	defer cancel()
	return CountPoison(ctx, s.Table, t, payload, most, now)
}

// CountPoison counts a task that failed under its payload and signature. A store
// that does not answer costs nothing but the count.
func CountPoison(ctx context.Context, table op.Table, t *task.Task, payload string, most, nowMS int64) int64 {
	item, err := table.Write(ctx, taskop.CountPoison(taskop.PoisonKey(t.Tenant, t.Class, payload, t.Error.Signature, nowMS), t.ID, most, nowMS))
	if ce := op.FailedCond(err); ce != nil {
		item, _ = ce.On(0)
	} else if err != nil {
		slog.WarnContext(ctx, "a failure was not counted under its payload", trace.Task(t), "error", err)
		return 0
	}
	return taskop.Poisoned(item)
}

func clip(s string, most int) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}

// finish writes an attempt's end and returns the next task for its slot.
func (s *Service) finish(ctx context.Context, t *task.Task, out outcome) *task.Task {
	v := s.conclude(ctx, t, out)
	if v.end.Event == task.Continue {
		// Counted before the row's write, and rather twice than not at all: too full is
		// safe, a task that waits uncounted is passed over.
		var lane op.Item
		for counted, try := false, 0; !counted && try < laneTries; try++ {
			lane, counted = s.writeLane(ctx, taskop.GoOn(t.AtLane, t.AmountMS), t.AtLane)
		}
		v.end.Again = s.place(ctx, t, lane)
	}
	done, cancelled := s.writeEnd(ctx, t, v.end)
	if v.end.Event == task.Continue && (!done || cancelled) {
		s.writeLane(ctx, taskop.LeaveReady(t.AtLane, t.AmountMS, false), t.AtLane)
	}
	if cancelled {
		v.end.Event, v.outcome = task.AbortCancel, task.OutcomeCancelled
	}
	if !done {
		s.Trace.Ended(ctx, t, trace.LeaseLost, s.Clock().UnixMilli())
		return nil
	}
	s.Trace.Ended(ctx, t, v.outcome, s.Clock().UnixMilli())
	s.ended(t, v)
	s.passOn(ctx, t, task.Must(task.Running, v.end.Event).To)
	return s.handOver(ctx, t)
}

// passOn lets the next task of an ended one's ordering key come up. If that fails, a visit
// to the next one finds it out.
func (s *Service) passOn(ctx context.Context, t *task.Task, to task.State) {
	if t.OrderingKey == "" || to.Live() {
		return
	}
	ctx, cancel := settling(ctx, 3*time.Second)
	defer cancel()
	if err := chain.Ended(ctx, s.Table, t); err != nil {
		slog.WarnContext(ctx, "the next task of an ordering key waits until it is visited", trace.Task(t), "error", err)
	}
}

// laneTries is how often a lane is told of a task that it would otherwise count
// too little for, while the store fails.
const laneTries = 4

// Bounds of writing an end while the store fails. After that the lease runs
// out and the attempt counts as lost.
const (
	endTries = 6
	endPause = 100 * time.Millisecond
)

// writeEnd writes the end. It returns done false when the lease is lost or the
// store would not take it, cancelled when a cancel came first.
func (s *Service) writeEnd(ctx context.Context, t *task.Task, e taskop.End) (done, cancelled bool) {
	ctx, cancel := settling(ctx, leaseSlack)
	defer cancel()
	want := task.Must(task.Running, e.Event).To
	for try := range endTries {
		err := s.Table.Transact(ctx, taskop.Finish(t, e))
		if err == nil {
			return true, cancelled
		}
		if ce := op.FailedCond(err); ce != nil {
			item, onRow := ce.On(taskop.OnRow)
			if !onRow && e.Again != nil { // the finish tag has moved on
				met, _ := ce.On(taskop.OnLedger)
				e.Again = s.placeBy(t, e.Again.Virtual, met, try)
				continue
			}
			if !onRow {
				slog.ErrorContext(ctx, "a ledger does not hold what a running attempt reserved", trace.Task(t), "tenant", t.Tenant)
				return false, cancelled
			}
			now, derr := taskop.DecodeRow(taskop.RowKey(t.Tenant, t.ID), item)
			if derr != nil || item == nil || now.LeaseToken != t.LeaseToken || now.Gen != t.Gen {
				return false, cancelled
			}
			if now.State == want {
				return true, cancelled // written by an earlier try whose answer was lost
			}
			if now.State != task.Running || !now.CancelRequested || cancelled {
				return false, cancelled
			}
			cancelled = true
			after := *e.After
			after.FinishedMS = s.Clock().UnixMilli()
			if n := len(after.Attempts); n > 0 {
				after.Attempts[n-1].Outcome = task.OutcomeCancelled
			}
			e = taskop.End{Event: task.AbortCancel, After: &after, TagDelta: e.TagDelta, KeepMS: e.KeepMS}
			want = task.Cancelled
			continue
		}
		slog.WarnContext(ctx, "an end could not be written", trace.Task(t), "try", try+1, "error", err)
		select {
		case <-ctx.Done():
			return false, cancelled
		case <-time.After(endPause << try):
		}
	}
	return false, cancelled
}

// place reads what the new place of a task that goes on rests on. nil: the task
// keeps its place, since the store does not say, or it is in no fair order.
func (s *Service) place(ctx context.Context, t *task.Task, lane op.Item) *taskop.Place {
	l, err := taskop.DecodeLane(t.AtLane, lane)
	if lane == nil || err != nil || !t.Charged() {
		return nil
	}
	ctx, cancel := settling(ctx, 3*time.Second)
	defer cancel()
	ledger, err := s.Table.Get(ctx, taskop.LedgerKey(t.Tenant), true)
	if err != nil {
		return nil
	}
	return s.placeBy(t, l.Virtual, ledger, 0)
}

// placeBy is the place by a ledger that was met; after some tries none: a tag a little
// too early does no harm, an end that is not written does.
func (s *Service) placeBy(t *task.Task, virtual int64, ledger op.Item, tries int) *taskop.Place {
	if tries >= endTries/2 {
		return nil
	}
	return &taskop.Place{Virtual: virtual, Finish: taskop.DecodeLedger(ledger).Finish[t.Lane]}
}

func (s *Service) started(t *task.Task) {
	now := s.Clock()
	s.Tally.Started(now, tally.Start{Class: t.Class, Bucket: t.Bucket, Lane: t.Lane, DelayMS: t.AttemptMS - t.Since(),
		WaitMS: t.Prediction.WaitMS, RatioMS: t.Prediction.RatioMS, AfterStartBy: t.AttemptMS > t.StartByMS, Probe: t.Prediction.Probe})
}

// firstSignature is the signature of a task that failed, if it did not fail with
// the same before: one task counts once.
func firstSignature(after *task.Task) string {
	if after.Error == nil || after.Same != 1 {
		return ""
	}
	return after.Error.Signature
}

func (s *Service) ended(t *task.Task, v verdict) {
	now := s.Clock()
	s.Tally.Ended(now, tally.End{Class: t.Class, Bucket: t.Bucket, Lane: t.AtLane, Outcome: v.outcome,
		ServiceMS: now.UnixMilli() - t.AttemptMS, Success: v.end.Event == task.Succeed,
		Probe:   t.Prediction.Probe,
		Missed:  v.end.Event == task.Succeed && now.UnixMilli() > t.DeadlineMS,
		Retried: v.end.Event == task.Retry, Quarantined: v.end.Event == task.Poison, Signature: firstSignature(v.end.After)})
}

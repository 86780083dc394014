package aggregate

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/lanekeeper/lanekeeper/pkg/chain"
	"github.com/lanekeeper/lanekeeper/pkg/execute"
	"github.com/lanekeeper/lanekeeper/pkg/failure"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
	"github.com/lanekeeper/lanekeeper/pkg/retry"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
)

// Bounds of one tick's visits: per shard, and at once.
const (
	visitsPerShard = 100
	shardsAtOnce   = 4
)

// visitDue visits the tasks whose due time has passed. live says whether any
// task has a due time at all, which every live task has.
func (r *run) visitDue(ctx context.Context, lanes map[string]*taskop.Lane) (live bool, err error) {
	nowMS := r.Clock().UnixMilli()
	clear(r.looked)
	var mu sync.Mutex
	var errs []error
	var due []op.Key
	var wg sync.WaitGroup
	gate := make(chan struct{}, shardsAtOnce)
	for shard := range taskop.DueShards {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			page, err := op.Query{Index: op.IndexDue, PK: taskop.DuePartition(shard), Limit: visitsPerShard}.First(ctx, r.Table)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			}
			live = live || len(page.Rows) > 0 || page.Cursor != ""
			for _, row := range page.Rows {
				if taskop.ParseDueSort(row.Item.Str("ds")) <= nowMS {
					due = append(due, row.Key)
				}
			}
		})
	}
	wg.Wait()
	// In one order, whichever shard answered first, so that a run can be replayed.
	slices.SortFunc(due, func(a, b op.Key) int { return cmp.Or(strings.Compare(a.PK, b.PK), strings.Compare(a.SK, b.SK)) })
	var retries []*task.Task
	for len(due) > 0 {
		n := min(len(due), op.MaxBatchGet)
		rows, err := r.Table.BatchGet(ctx, due[:n], true)
		if err != nil {
			return true, errors.Join(append(errs, err)...)
		}
		for i, row := range rows {
			if row == nil {
				continue
			}
			t, err := taskop.DecodeRow(due[i], row)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if t.State == task.RetryWait {
				retries = append(retries, t)
				continue
			}
			if err := r.visit(ctx, t, lanes); err != nil && !moved(err) {
				errs = append(errs, err)
			}
		}
		due = due[n:]
	}
	// Slots of the retry lane go by priority, whatever shard a task was found in.
	slices.SortStableFunc(retries, func(a, b *task.Task) int { return cmp.Compare(retryTag(a), retryTag(b)) })
	for _, t := range retries {
		if err := r.visit(ctx, t, lanes); err != nil && !moved(err) {
			errs = append(errs, err)
		}
	}
	return live, errors.Join(errs...)
}

// visit does for one task what its due time was set for.
func (r *run) visit(ctx context.Context, t *task.Task, lanes map[string]*taskop.Lane) error {
	nowMS := r.Clock().UnixMilli()
	if !t.State.Live() || t.DueMS > nowMS {
		return nil // an old index entry
	}
	if t.State != task.Running && t.TooLate(nowMS) {
		return r.expire(ctx, t, lanes)
	}
	if r.stranded(t, lanes) {
		return r.visitStranded(ctx, t)
	}
	switch t.State {
	case task.Queued:
		return r.resend(ctx, t, lanes)
	case task.Running:
		if t.LeaseUntilMS >= nowMS {
			return r.moveDue(ctx, t, t.LeaseUntilMS+1)
		}
		return r.lost(ctx, t, lanes)
	case task.RetryWait:
		if t.NotBeforeMS > nowMS {
			return r.moveDue(ctx, t, r.notAfterStartBy(t, t.NotBeforeMS))
		}
		if l := lanes[r.Config.RetryLane()]; l != nil && l.Halts(t.Class) {
			return r.moveDue(ctx, t, r.notAfterStartBy(t, nowMS+haltedRetryMS))
		}
		return r.retryDue(ctx, t, lanes)
	case task.Waiting:
		if t.Held {
			return r.visitHeld(ctx, t)
		}
		fallthrough
	default: // waiting, in the order or parked: it is the lane's turn, not ours
		r.doubt[t.AtLane] = true // which has passed it over for long: does it count it?
		pause := max(r.Config.Tasks.ResendAfter.MS(), nowMS-t.Since())
		return r.moveDue(ctx, t, r.notAfterStartBy(t, nowMS+pause))
	}
}

// visitHeld looks whether it is the turn of a task that waits for others of its
// ordering key, and nobody has said so.
func (r *run) visitHeld(ctx context.Context, t *task.Task) error {
	r.doubt[t.AtLane] = true
	nowMS := r.Clock().UnixMilli()
	pause := max(r.Config.Tasks.ResendAfter.MS(), nowMS-t.Since())
	if err := r.moveDue(ctx, t, r.notAfterStartBy(t, nowMS+pause)); err != nil {
		return err
	}
	key := taskop.ChainKey(t.Tenant, t.OrderingKey)
	if r.looked[key] {
		return nil // once a tick is enough for all of a key
	}
	r.looked[key] = true
	return chain.Ended(ctx, r.Table, t)
}

// notAfterStartBy is a due time that does not miss the moment at which the task
// can no longer start.
func (r *run) notAfterStartBy(t *task.Task, dueMS int64) int64 {
	if t.RunLate || t.HandedBack() {
		return dueMS
	}
	return min(dueMS, t.StartByMS+1)
}

func (r *run) moveDue(ctx context.Context, t *task.Task, dueMS int64) error {
	_, err := r.Table.Write(ctx, taskop.MoveDue(t, dueMS))
	return err
}

// expire ends a task that can no longer start in time.
func (r *run) expire(ctx context.Context, t *task.Task, lanes map[string]*taskop.Lane) error {
	now := r.Clock()
	if err := r.Table.Transact(ctx, taskop.Close(t, task.Expire, now.UnixMilli(), r.Config.Tasks.Retention.MS())); err != nil {
		return err
	}
	r.Tally.Expired(now, t)
	return errors.Join(r.leave(ctx, t, lanes), chain.Ended(ctx, r.Table, t))
}

// leave takes a closed task out of its lane's counts.
func (r *run) leave(ctx context.Context, t *task.Task, lanes map[string]*taskop.Lane) error {
	l := lanes[t.AtLane]
	if l == nil {
		return nil // its lane was removed from the configuration
	}
	switch t.State {
	case task.Queued:
		return r.writeLane(ctx, taskop.LeaveSlot(l.Name, taskop.Open{ID: t.ID, AmountMS: t.AmountMS}), l)
	case task.Waiting:
		return r.writeLane(ctx, taskop.LeaveWaiting(l.Name, t.ID, t.AmountMS, t.Parked), l)
	}
	return nil
}

// resend sends a queued task's message again: it was never sent, or lost, or
// waits still. A second message does no harm.
func (r *run) resend(ctx context.Context, t *task.Task, lanes map[string]*taskop.Lane) error {
	nowMS := r.Clock().UnixMilli()
	if err := r.moveDue(ctx, t, r.notAfterStartBy(t, nowMS+r.Config.Tasks.ResendAfter.MS())); err != nil {
		return err
	}
	r.adopt(ctx, t, lanes)
	r.Tally.Count(r.Clock(), t.AtLane, "resent", 1)
	return r.Queue.Send(ctx, t.AtLane, queue.Wakeup(t))
}

// adopt makes the lane item know of an open task, if it does not.
func (r *run) adopt(ctx context.Context, t *task.Task, lanes map[string]*taskop.Lane) {
	l := lanes[t.AtLane]
	if l == nil {
		return
	}
	for _, o := range l.Tasks {
		if o.ID == t.ID {
			return
		}
	}
	o := taskop.OpenOf(t, r.Clock().UnixMilli())
	if t.State == task.Running {
		o.Running, o.SinceMS = true, t.AttemptMS
	}
	if err := r.writeLane(ctx, taskop.AdoptOpen(l.Name, o), l); err != nil && !moved(err) {
		slog.WarnContext(ctx, "an open task is still missing from its lane", trace.Task(t), "error", err)
	}
}

// lost ends an attempt whose worker has let its lease run out.
func (r *run) lost(ctx context.Context, t *task.Task, lanes map[string]*taskop.Lane) error {
	now := r.Clock()
	nowMS := now.UnixMilli()
	after := *t
	const message = "the worker disappeared: its lease ran out"
	lost := &task.Error{Code: task.OutcomeLost, Signature: retry.Signature(task.OutcomeLost, message), Message: message, Retryable: true}
	after.Error = lost
	record := task.Attempt{N: t.Attempt, Lane: t.AtLane, StartMS: t.AttemptMS, EndMS: nowMS, Outcome: task.OutcomeLost, Signature: after.Error.Signature, Code: task.OutcomeLost, Message: message}
	end := taskop.End{After: &after, LostAtMS: nowMS, KeepMS: r.Config.Tasks.Retention.MS(), TagDelta: taskop.TagDelta(t, nowMS)}
	if t.CancelRequested {
		end.Event, after.Error, after.FinishedMS = task.AbortCancel, nil, nowMS
	} else {
		failure.Count(&after, t.Error, lost)
		f := failure.Failure{Retryable: true, Lost: true, SamePayload: r.samePayload(ctx, &after, nowMS)}
		end.Event, after.NotBeforeMS = failure.Next(r.Config, &after, f, nowMS, r.Float())
		after.DueMS = r.notAfterStartBy(t, after.NotBeforeMS)
		if end.Event == task.Fail {
			after.FinishedMS = nowMS
		}
		if end.Event == task.Poison {
			after.QuarantinedMS = nowMS
		}
	}
	after.Attempts = append([]task.Attempt(nil), t.Attempts...)
	after.Record(record)
	if err := r.Table.Transact(ctx, taskop.Finish(t, end)); err != nil {
		return err
	}
	slog.WarnContext(ctx, "a worker was lost", trace.Task(t))
	r.Trace.Ended(ctx, t, task.OutcomeLost, nowMS)
	r.Tally.Ended(now, tally.End{Class: t.Class, Bucket: t.Bucket, Lane: t.AtLane, Outcome: task.OutcomeLost, ServiceMS: nowMS - t.AttemptMS,
		Retried: end.Event == task.Retry, Quarantined: end.Event == task.Poison, Signature: lostSignature(&after)})
	var laneErr error
	if l := lanes[t.AtLane]; l != nil {
		laneErr = r.writeLane(ctx, taskop.EndRun(l.Name, t.ID, false), l)
	}
	return errors.Join(laneErr, chain.Ended(ctx, r.Table, t))
}

// retryTag is a retry's place in the retry lane: by priority, then by time.
func retryTag(t *task.Task) int64 {
	return taskop.RetryTag(policy.PriorityRank(t.Priority), t.NotBeforeMS)
}

// lostSignature is what a lost worker counts under in its class, once per task.
func lostSignature(after *task.Task) string {
	if after.Error == nil || after.Same != 1 {
		return ""
	}
	return after.Error.Signature
}

// samePayload is how many tasks of the tenant and class with the payload of a
// lost attempt have failed as it did; 0 when they are not counted.
func (r *run) samePayload(ctx context.Context, t *task.Task, nowMS int64) int64 {
	most, counts := failure.Counts(r.Config, t)
	payload := t.Payload
	if counts && t.PayloadBeside {
		item, err := r.Table.Get(ctx, taskop.PayloadKey(t.Tenant, t.ID), true)
		if err != nil {
			return 0
		}
		payload = taskop.Body(item)
	}
	if !counts || payload == "" {
		return 0
	}
	return execute.CountPoison(ctx, r.Table, t, payload, most, nowMS)
}

// retryDue brings a retry back, into the retry lane.
func (r *run) retryDue(ctx context.Context, t *task.Task, lanes map[string]*taskop.Lane) error {
	nowMS := r.Clock().UnixMilli()
	l := lanes[r.Config.RetryLane()]
	back := *t
	back.AtLane, back.Tag = l.Name, retryTag(t)
	t = &back
	o := taskop.OpenOf(t, nowMS)
	event := task.DueWaiting
	if l.Open < l.Slots && l.Ready <= 0 && !l.Paused && !l.OriginFull(o.Origin) {
		event = task.DueQueued
	}
	enter, undo := taskop.EnterDue(l.Name, t.AmountMS), taskop.LeaveReady(l.Name, t.AmountMS, false)
	if event == task.DueQueued {
		enter, undo = taskop.EnterDueSlot(l, o), taskop.LeaveSlot(l.Name, o)
	}
	if err := r.writeLane(ctx, enter, l); err != nil {
		return err
	}
	due := r.notAfterStartBy(t, nowMS+r.Config.Tasks.ResendAfter.MS())
	if _, err := r.Table.Write(ctx, taskop.DueRow(t, event, l.Name, due)); err != nil {
		if op.FailedCond(err) != nil {
			_ = r.writeLane(ctx, undo, l) // too full until repaired, at worst
		}
		return err
	}
	if event == task.DueQueued {
		sent := *t
		sent.State, sent.AtLane = task.Queued, l.Name
		return r.Queue.Send(ctx, l.Name, queue.Wakeup(&sent))
	}
	return nil
}

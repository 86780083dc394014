package aggregate

import (
	"context"
	"errors"
	"log/slog"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// settleMS is how old an entry must be before it is held against its row: the
// calls in between take far less.
const settleMS = 5000

// counted is what a count found, to be confirmed by the next one.
type counted struct {
	item  taskop.Count
	found taskop.Count
	at    int64 // entered, which moves with everything that comes in
}

// check holds a lane item against the rows.
func (r *run) check(ctx context.Context, l *taskop.Lane) error {
	return errors.Join(r.checkOpen(ctx, l), r.recount(ctx, l))
}

// checkOpen holds every open task that the item names against its row.
func (r *run) checkOpen(ctx context.Context, l *taskop.Lane) error {
	nowMS := r.Clock().UnixMilli()
	var open []taskop.Open
	for _, o := range l.Tasks {
		if nowMS-o.SinceMS >= settleMS {
			open = append(open, o)
		}
	}
	for len(open) > 0 {
		n := min(len(open), op.MaxBatchGet)
		keys := make([]op.Key, n)
		for i, o := range open[:n] {
			keys[i] = taskop.RowKey(o.Tenant, o.ID)
		}
		rows, err := r.Table.BatchGet(ctx, keys, true)
		if err != nil {
			return err
		}
		for i, row := range rows {
			if err := r.checkEntry(ctx, l, open[i], keys[i], row); err != nil && !moved(err) {
				return err
			}
		}
		open = open[n:]
	}
	return nil
}

// checkEntry corrects one entry that its row does not bear out: a call between
// the item and the row was lost.
func (r *run) checkEntry(ctx context.Context, l *taskop.Lane, o taskop.Open, key op.Key, row op.Item) error {
	var t *task.Task
	if row != nil {
		var err error
		if t, err = taskop.DecodeRow(key, row); err != nil {
			return err
		}
	}
	here := t != nil && t.AtLane == l.Name
	var w op.Write
	switch {
	case here && t.State == task.Running && o.Running, here && t.State == task.Queued && !o.Running:
		return nil
	case here && t.State == task.Running: // claimed, but the lane was not told
		o.Running, o.SinceMS = true, t.AttemptMS
		w = taskop.BeginRun(l.Name, o)
	case o.Running && ended(t, r.Clock().UnixMilli()) < settleMS:
		return nil // its worker is about to give the slot on
	case o.Running:
		w = taskop.EndRun(l.Name, o.ID, false)
	case here && t.State == task.Waiting: // its release stopped half-way
		w = taskop.UnreleaseSlot(l.Name, o, t.Parked)
	default: // never accepted after all, or closed
		w = taskop.LeaveSlot(l.Name, o)
	}
	slog.WarnContext(ctx, "a lane's entry was repaired", "lane", l.Name, "task", o.ID, "write", w.Name)
	r.Tally.Count(r.Clock(), l.Name, "repaired", 1)
	return r.writeLane(ctx, w, l)
}

// ended is how long ago the task's last attempt ended, in ms; long, if unknown.
func ended(t *task.Task, nowMS int64) int64 {
	if t == nil || len(t.Attempts) == 0 {
		return settleMS
	}
	return nowMS - t.Attempts[len(t.Attempts)-1].EndMS
}

// recount counts what waits in a lane. A difference to the item is corrected
// when two counts in a row, with the item unchanged around both, agree on it:
// the index may lag, and what is being entered is counted before it is there.
func (r *run) recount(ctx context.Context, l *taskop.Lane) error {
	var queued int64
	for _, o := range l.Tasks {
		if !o.Running {
			queued += o.AmountMS
		}
	}
	item := l.Counts()
	if item == (taskop.Count{Open: int64(len(l.Tasks)), WorkMS: queued}) && !r.doubt[l.Name] {
		delete(r.counts, l.Name)
		return nil // nothing waits, by what the item says and by what was visited
	}
	found := taskop.Count{Open: int64(len(l.Tasks)), WorkMS: queued}
	for _, parked := range []bool{false, true} {
		n, work, err := r.countWaiting(ctx, l.Name, parked)
		if err != nil {
			return err
		}
		if parked {
			found.Parked = n
		} else {
			found.Ready = n
		}
		found.WorkMS += work
	}
	now := counted{item: item, found: found, at: l.EnteredMS}
	before, seen := r.counts[l.Name]
	r.counts[l.Name] = now
	if found == item {
		delete(r.doubt, l.Name)
	}
	if found == item || !seen || before != now {
		return nil
	}
	slog.WarnContext(ctx, "a lane's counts were repaired", "lane", l.Name, "item", item, "counted", found)
	r.Tally.Count(r.Clock(), l.Name, "repaired", 1)
	err := r.writeLane(ctx, taskop.Recount(l, found, r.lease.Epoch), l)
	if moved(err) {
		return nil
	}
	return err
}

func (r *run) countWaiting(ctx context.Context, lane string, parked bool) (n, workMS int64, err error) {
	partitions := []string{taskop.ReadyPartition(lane), taskop.LowPartition(lane)}
	if parked {
		partitions = []string{taskop.ParkedPartition(lane)}
	}
	var bad error
	for _, pk := range partitions {
		err = op.Query{Index: op.IndexReady, PK: pk}.All(ctx, r.Table, func(row op.Row) bool {
			e, perr := taskop.ParseReadySort(row.Item.Str("rs"))
			if perr != nil {
				bad = perr
				return false
			}
			n++
			workMS += e.AmountMS
			return true
		})
		if err := errors.Join(err, bad); err != nil {
			return 0, 0, err
		}
	}
	return n, workMS, nil
}

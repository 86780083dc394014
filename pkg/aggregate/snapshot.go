package aggregate

import (
	"context"
	"errors"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/fair"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// snapshotPer is how many waiting tasks are summed up a second: a longer
// backlog's snapshot is made less often. What entered since counts whole in
// every prediction, so an old one only refuses too much.
const snapshotPer = 2000

// snapshot tells admission how much of a lane's waiting work stands before
// which key, while anything waits.
func (r *run) snapshot(ctx context.Context, l *taskop.Lane) error {
	now := r.Clock()
	n := max(l.Ready, 0) + max(l.Parked, 0)
	every := time.Duration(n/snapshotPer) * time.Second
	if n == 0 || l.Name == r.Config.RetryLane() || now.Sub(r.snapped[l.Name]) < every {
		return nil
	}
	// The index may lag behind the item: what the item counted before the index was
	// read and the index does not show is in the snapshot without a place; what
	// entered later counts whole in every prediction.
	waiting, entered, virtual := l.WorkMS, l.EnteredMS, l.Virtual
	for _, o := range l.Tasks {
		if !o.Running {
			waiting -= o.AmountMS
		}
	}
	entries := make([]fair.Entry, 0, n)
	var bad error
	var low int64
	for _, pk := range taskop.WaitingPartitions(l.Name) {
		kept := pk == taskop.LowPartition(l.Name)
		if pk == taskop.ParkedPartition(l.Name) && l.Parked <= 0 || kept && r.Config.LowSlots(l.Name, int(l.Slots)) == 0 {
			continue
		}
		q := op.Query{Index: op.IndexReady, PK: pk}
		scanErr := q.All(ctx, r.Table, func(row op.Row) bool {
			e, err := taskop.ParseReadySort(row.Item.Str("rs"))
			bad = errors.Join(bad, err)
			entries = append(entries, fair.Entry{Key: e.Tag, AmountMS: e.AmountMS, Parked: e.Tenant})
			if kept {
				low += e.AmountMS
			}
			return true
		})
		if err := errors.Join(scanErr, bad); err != nil {
			return err
		}
	}
	s := fair.Summarise(entries, waiting, entered, virtual, now.UnixMilli())
	s.LowMS = low
	var err error
	if s.Stretch, err = r.stretch(ctx, l, entries, now); err != nil {
		return err
	}
	if _, err := r.Table.Write(ctx, taskop.PutSnapshot(l.Name, s.Encode())); err != nil {
		return err
	}
	r.snapped[l.Name] = now
	return nil
}

// stretch is how much longer than its slots say a lane takes to get through its
// backlog. A run begins with what the run before it had found out.
func (r *run) stretch(ctx context.Context, l *taskop.Lane, entries []fair.Entry, now time.Time) (int64, error) {
	workers := min(r.Config.Workers(l.Name), int(l.Slots))
	d := r.drains[l.Name]
	if d == nil {
		item, err := r.Table.Get(ctx, taskop.SnapshotKey(l.Name), false)
		if err != nil {
			return 0, err
		}
		d = new(fair.Drain)
		if body := taskop.SnapshotBody(item); body != nil {
			if before, err := fair.Decode(body); err == nil && now.UnixMilli()-before.AtMS < time.Minute.Milliseconds() {
				*d = fair.DrainOf(before.Stretch, workers)
			}
		}
		r.drains[l.Name] = d
	}
	return d.Observe(entries, l.EnteredMS-l.WorkMS, workers, l.Open >= l.Slots, now.UnixMilli()), nil
}

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
	every := time.Duration(l.Ready/snapshotPer) * time.Second
	if l.Ready <= 0 || l.Name == r.Config.RetryLane() || now.Sub(r.snapped[l.Name]) < every {
		return nil
	}
	// What entered since the tick before counts as not in the snapshot, even if it
	// is: the index may lag, and nothing must be missed by both.
	entered, known := r.entered[l.Name]
	r.entered[l.Name] = l.EnteredMS
	if !known {
		return nil
	}
	entries := make([]fair.Entry, 0, l.Ready)
	var bad error
	q := op.Query{Index: op.IndexReady, PK: taskop.ReadyPartition(l.Name)}
	err := q.All(ctx, r.Table, func(row op.Row) bool {
		e, err := taskop.ParseReadySort(row.Item.Str("rs"))
		bad = errors.Join(bad, err)
		entries = append(entries, fair.Entry{Key: e.Tag, AmountMS: e.AmountMS})
		return true
	})
	if err = errors.Join(err, bad); err != nil {
		return err
	}
	s := fair.Summarise(entries, entered, now.UnixMilli())
	if _, err := r.Table.Write(ctx, taskop.PutSnapshot(l.Name, s.Encode())); err != nil {
		return err
	}
	r.snapped[l.Name] = now
	return nil
}

// Package recovery takes up at once what a killed process left, where one process
// at a time holds the store and so knows that the other is gone.
//
// It guarantees that only leases of attempts are ended that were there when it
// looked, and that it can be repeated: what stopped half-way is done by the next one.
package recovery

import (
	"context"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// Store is a table that can be gone through, which no table on AWS should be.
type Store interface {
	op.Table
	// Scan yields the items whose partition keys begin with a prefix until yield says no.
	Scan(ctx context.Context, prefix string, yield func(op.Row) bool) error
}

// Run makes due at nowMS (unix ms) the attempts that were running and the tasks that
// were queued, and gives up the aggregator's lease. No worker and no aggregator may be at
// work on the store. Without it leases and visibility have to run out first, as they do
// where nobody can know that a worker is gone.
func Run(ctx context.Context, store Store, nowMS int64) error {
	var writes []op.Write
	var bad error
	err := store.Scan(ctx, "T#", func(row op.Row) bool {
		t, err := taskop.DecodeRow(row.Key, row.Item)
		if err != nil {
			bad = err
			return false
		}
		switch t.State {
		case task.Running:
			writes = append(writes, taskop.VoidLease(t, nowMS))
		case task.Queued:
			writes = append(writes, taskop.MoveDue(t, nowMS))
		}
		return true
	})
	if err != nil || bad != nil {
		return fmt.Errorf("looking for interrupted tasks: %w", errors.Join(err, bad))
	}
	item, err := store.Get(ctx, taskop.AggregatorKey(), true)
	if err != nil {
		return fmt.Errorf("recovering interrupted tasks: %w", err)
	}
	if item != nil {
		writes = append(writes, taskop.EndRunLease(taskop.DecodeRun(item)))
	}
	for _, w := range writes {
		if _, err := store.Write(ctx, w); err != nil && op.FailedCond(err) == nil {
			return fmt.Errorf("recovering interrupted tasks: %w", err)
		}
	}
	return nil
}

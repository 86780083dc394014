// Package chain keeps the tasks of one ordering key in order: it makes the next
// one eligible when the head has ended.
//
// It guarantees that no task becomes eligible while one that entered its chain
// before it is live, and that calling it again, by anybody at any time, repairs what
// stopped half-way: whose turn it is, is decided on the chain's item alone.
package chain

import (
	"context"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// ahead is how many entries are read at once, most passes bounds a call: what is left
// is for the next visit.
const (
	ahead  = 10
	passes = 200
)

// Ended passes the turn on if t, or whoever is the head of its chain, is over. A task
// without an ordering key is no matter of it.
func Ended(ctx context.Context, table op.Table, t *task.Task) error {
	if t.OrderingKey == "" {
		return nil
	}
	for range passes {
		again, err := step(ctx, table, t.Tenant, t.OrderingKey)
		if err != nil || !again {
			return err
		}
	}
	return nil
}

// step looks at the head, and passes the turn on by one if it is over.
func step(ctx context.Context, table op.Table, tenant, key string) (again bool, err error) {
	item, err := table.Get(ctx, taskop.ChainKey(tenant, key), true)
	if err != nil {
		return false, err
	}
	c := taskop.DecodeChain(item)
	if c.Head == 0 {
		return false, nil
	}
	entries, err := read(ctx, table, tenant, key, c.Head)
	if err != nil {
		return false, err
	}
	ended := taskop.ChainEntry{N: c.Head}
	if len(entries) > 0 && entries[0].N == c.Head {
		ended, entries = entries[0], entries[1:]
		head, err := row(ctx, table, tenant, ended.ID)
		if err != nil {
			return false, err
		}
		if head != nil && head.State.Live() && head.Seq == c.Head {
			return false, unhold(ctx, table, head)
		}
	}
	var next int64
	if len(entries) > 0 {
		next = entries[0].N
	}
	err = table.Transact(ctx, taskop.PassOn(tenant, key, c, ended, next))
	if op.FailedCond(err) != nil {
		return true, nil // somebody else passed it on, or entered
	}
	return err == nil && next != 0, err
}

func read(ctx context.Context, table op.Table, tenant, key string, from int64) (entries []taskop.ChainEntry, err error) {
	q := taskop.ChainEntries(tenant, key, from)
	q.Limit = ahead
	for len(entries) < 2 {
		page, err := table.Query(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Rows {
			e, err := taskop.DecodeChainEntry(r.Key, r.Item)
			if err != nil {
				return nil, err
			}
			entries = append(entries, e)
		}
		if page.Cursor == "" {
			break
		}
		q.Cursor = page.Cursor
	}
	return entries, nil
}

func row(ctx context.Context, table op.Table, tenant, id string) (*task.Task, error) {
	key := taskop.RowKey(tenant, id)
	item, err := table.Get(ctx, key, true)
	if err != nil || item == nil {
		return nil, err
	}
	return taskop.DecodeRow(key, item)
}

// unhold puts a held head into the ready order. The lane is told before: too many ready
// are found out by whoever looks for them.
func unhold(ctx context.Context, table op.Table, head *task.Task) error {
	if !head.Held || head.State != task.Waiting {
		return nil
	}
	_, err := table.Write(ctx, taskop.Unpark(head.AtLane))
	told := err == nil
	if err != nil && op.FailedCond(err) == nil {
		return err
	}
	if _, err = table.Write(ctx, taskop.UnholdRow(head)); err == nil || op.FailedCond(err) == nil {
		return err
	}
	if told { // somebody else did
		_, err = table.Write(ctx, taskop.ParkReady(head.AtLane))
		if op.FailedCond(err) != nil {
			return nil
		}
		return err
	}
	return nil
}

package rig

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// GivesUp is about when DynamoDB's adapter gives a call up that nobody answers:
// four attempts of two seconds, and the waits between them.
const GivesUp = 9200 * time.Millisecond

// Stalled is a table whose calls are not answered from one on: each ends with
// its context, or when an adapter would give it up.
type Stalled struct {
	op.Table
	From int64 // the first such call, counting from 1
	n    atomic.Int64
}

// Calls is how many calls there were.
func (s *Stalled) Calls() int64 { return s.n.Load() }

func (s *Stalled) stall(ctx context.Context, name string) error {
	if s.n.Add(1) < s.From {
		return nil
	}
	select {
	case <-ctx.Done():
	case <-time.After(GivesUp):
	}
	return &op.Unavailable{Name: name, Reason: op.Timeout, Err: errors.New("injected: no answer")}
}

// Get reads one item.
func (s *Stalled) Get(ctx context.Context, key op.Key, consistent bool) (op.Item, error) {
	if err := s.stall(ctx, "get"); err != nil {
		return nil, err
	}
	return s.Table.Get(ctx, key, consistent)
}

// BatchGet reads several items.
func (s *Stalled) BatchGet(ctx context.Context, keys []op.Key, consistent bool) ([]op.Item, error) {
	if err := s.stall(ctx, "batch_get"); err != nil {
		return nil, err
	}
	return s.Table.BatchGet(ctx, keys, consistent)
}

// Query reads a page.
func (s *Stalled) Query(ctx context.Context, q op.Query) (op.Page, error) {
	if err := s.stall(ctx, "query"); err != nil {
		return op.Page{}, err
	}
	return s.Table.Query(ctx, q)
}

// Write performs one conditional write.
func (s *Stalled) Write(ctx context.Context, w op.Write) (op.Item, error) {
	if err := s.stall(ctx, w.Name); err != nil {
		return nil, err
	}
	return s.Table.Write(ctx, w)
}

// Transact performs all writes or none.
func (s *Stalled) Transact(ctx context.Context, tx op.Tx) error {
	if err := s.stall(ctx, tx.Name); err != nil {
		return err
	}
	return s.Table.Transact(ctx, tx)
}

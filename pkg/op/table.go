package op

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Table is the store. Every engine guarantees:
//
//   - Write and Transact are atomic and isolated; a failed condition changes
//     nothing and is a [*CondError] that carries the current items.
//   - Get, BatchGet and Query on the table with Consistent see every write that
//     was acknowledged before they began. Without it, and on an index always,
//     they may see an older state of each item.
//   - Any other error is [*Unavailable] (the outcome of a write is then
//     unknown: it may have been applied) or a fault of the caller.
type Table interface {
	// Get reads one item, nil when there is none.
	Get(ctx context.Context, key Key, consistent bool) (Item, error)
	// BatchGet reads at most MaxBatchGet different items, in the order of keys, nil
	// for missing ones. It is no snapshot: each item is read for itself.
	BatchGet(ctx context.Context, keys []Key, consistent bool) ([]Item, error)
	// Write performs one conditional write and returns the item after it (nil
	// after a delete).
	Write(ctx context.Context, w Write) (Item, error)
	// Transact performs all writes or none.
	Transact(ctx context.Context, tx Tx) error
	// Query reads a page of a partition.
	Query(ctx context.Context, q Query) (Page, error)
}

// TTL names the attribute that holds, in seconds since 1970, when an item has had its time. An engine deletes the item at
// some time after that, in no order, or not at all: it tidies, and nothing may depend on it.
const TTL = "ttl"

// CondError says which conditions of a call did not hold.
type CondError struct {
	Name string
	// Failed has, for each write that failed, its place in the transaction (0
	// for a single write) and the item it met (nil: none).
	Failed []CondFailure
}

// CondFailure is one failed condition.
type CondFailure struct {
	Write int
	Item  Item
}

// Error names the writes that failed.
func (e *CondError) Error() string {
	places := make([]string, len(e.Failed))
	for i, f := range e.Failed {
		places[i] = fmt.Sprint(f.Write)
	}
	return fmt.Sprintf("op: %s: condition failed for write %s", e.Name, strings.Join(places, ", "))
}

// On returns the item that write i met and whether its condition failed.
func (e *CondError) On(i int) (Item, bool) {
	for _, f := range e.Failed {
		if f.Write == i {
			return f.Item, true
		}
	}
	return nil, false
}

// FailedCond returns the *CondError in err, or nil.
func FailedCond(err error) *CondError {
	var ce *CondError
	if errors.As(err, &ce) {
		return ce
	}
	return nil
}

// Reason is why a store could not answer.
type Reason string

// The reasons of [Unavailable].
const (
	Throttled Reason = "throttled"
	Conflict  Reason = "conflict" // transactions kept colliding, retries used up
	Timeout   Reason = "timeout"
	Internal  Reason = "internal" // the store answered with a fault of its own
)

// Unavailable says that the store did not answer as it should. A write may or
// may not have been applied.
type Unavailable struct {
	Name   string
	Reason Reason
	Err    error
}

// Error names the call and the reason.
func (e *Unavailable) Error() string {
	return fmt.Sprintf("op: %s: store unavailable (%s): %v", e.Name, e.Reason, e.Err)
}

// Unwrap returns the engine's own error.
func (e *Unavailable) Unwrap() error { return e.Err }

// IsUnavailable says whether err is an [Unavailable].
func IsUnavailable(err error) bool {
	var u *Unavailable
	return errors.As(err, &u)
}

// maxEmpty is how many empty pages in a row are read over.
const maxEmpty = 100

// First reads the first page that has a row in it: a store may answer with empty
// pages and a cursor. Who wants the head of a list wants this.
func (q Query) First(ctx context.Context, t Table) (Page, error) {
	for range maxEmpty {
		page, err := t.Query(ctx, q)
		if err != nil || len(page.Rows) > 0 || page.Cursor == "" {
			return page, err
		}
		q.Cursor = page.Cursor
	}
	return Page{Cursor: q.Cursor}, nil
}

// All reads every page of a query, calling each row until yield returns false.
func (q Query) All(ctx context.Context, t Table, yield func(Row) bool) error {
	for {
		page, err := t.Query(ctx, q)
		if err != nil {
			return err
		}
		for _, r := range page.Rows {
			if !yield(r) {
				return nil
			}
		}
		if page.Cursor == "" {
			return nil
		}
		q.Cursor = page.Cursor
	}
}

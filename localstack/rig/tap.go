package rig

import (
	"context"
	"errors"
	"sync"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// Fault is what goes wrong with a call.
type Fault int

// The faults. Applied does the call and then answers with an error.
const (
	None Fault = iota
	Throttled
	TimedOut
	Broken // the store answers with an error of its own
	Applied
)

// Faults lists those that are one.
func Faults() []Fault { return []Fault{Throttled, TimedOut, Broken, Applied} }

// String names the fault.
func (f Fault) String() string {
	return [...]string{"none", "throttled", "timed out", "broken", "applied but errored"}[f]
}

func (f Fault) err(name string) error {
	reason := map[Fault]op.Reason{Throttled: op.Throttled, TimedOut: op.Timeout, Broken: op.Internal, Applied: op.Timeout}[f]
	return &op.Unavailable{Name: name, Reason: reason, Err: errors.New("injected: " + f.String())}
}

// Call is one call to the table.
type Call struct {
	N    int    // counting from 1 since the last Reset
	Kind string // get, batch_get, write, transact, query
	Name string // of the write or transaction
}

// Tap is a table whose calls are seen, and made to fail, by hooks. Set the
// hooks before the calls they are for; they may be called in parallel.
type Tap struct {
	op.Table
	mu     sync.Mutex
	n      int
	fault  func(Call) Fault
	before func(Call)
}

// Fail sets what decides about each call; nil: all go well. It starts the count
// of calls anew.
func (t *Tap) Fail(decide func(Call) Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n, t.fault = 0, decide
}

// Before sets a hook that is called before each call, in the caller's
// goroutine; it may call the table itself, through Raw.
func (t *Tap) Before(hook func(Call)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n, t.before = 0, hook
}

// Calls is how many calls were made since Fail or Before.
func (t *Tap) Calls() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

func (t *Tap) arrive(kind, name string) Fault {
	t.mu.Lock()
	t.n++
	c, before, fault := Call{t.n, kind, name}, t.before, t.fault
	t.mu.Unlock()
	if before != nil {
		before(c)
	}
	if fault != nil {
		return fault(c)
	}
	return None
}

// Get reads one item.
func (t *Tap) Get(ctx context.Context, key op.Key, consistent bool) (op.Item, error) {
	if f := t.arrive("get", key.PK); f != None {
		return nil, f.err("get")
	}
	return t.Table.Get(ctx, key, consistent)
}

// BatchGet reads several items.
func (t *Tap) BatchGet(ctx context.Context, keys []op.Key, consistent bool) ([]op.Item, error) {
	if f := t.arrive("batch_get", ""); f != None {
		return nil, f.err("batch_get")
	}
	return t.Table.BatchGet(ctx, keys, consistent)
}

// Write performs one conditional write.
func (t *Tap) Write(ctx context.Context, w op.Write) (op.Item, error) {
	f := t.arrive("write", w.Name)
	if f == None {
		return t.Table.Write(ctx, w)
	}
	if f == Applied {
		if _, err := t.Table.Write(ctx, w); err != nil {
			return nil, err
		}
	}
	return nil, f.err(w.Name)
}

// Transact performs all writes or none.
func (t *Tap) Transact(ctx context.Context, tx op.Tx) error {
	f := t.arrive("transact", tx.Name)
	if f == None {
		return t.Table.Transact(ctx, tx)
	}
	if f == Applied {
		if err := t.Table.Transact(ctx, tx); err != nil {
			return err
		}
	}
	return f.err(tx.Name)
}

// Query reads a page.
func (t *Tap) Query(ctx context.Context, q op.Query) (op.Page, error) {
	if f := t.arrive("query", q.PK); f != None {
		return op.Page{}, f.err("query")
	}
	return t.Table.Query(ctx, q)
}

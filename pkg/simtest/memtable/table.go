package memtable

import (
	"context"
	"fmt"
	"sync"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// Options say how unhelpful the table is. Every function may be nil: never.
type Options struct {
	// Now is the time in nanoseconds, for index lag; nil: indexes never lag.
	Now func() int64
	// LagNS is how long after a write (in ns) the indexes show it. Called once per
	// write that changes an item's index keys.
	LagNS func() int64
	// ShortPage says that this page ends after one row, EmptyPage that it has none
	// but a cursor, Stale that this eventual read sees the item before its last write.
	ShortPage, EmptyPage, Stale func() bool
	// Wrote is told of every write that was applied, while the table is locked.
	Wrote func(Applied)
}

// Applied is one atomic call that was applied.
type Applied struct {
	Name    string // of the write, or of the transaction
	Effects []Effect
}

// Effect is what one write did to its item. The items must not be changed.
type Effect struct {
	Write         *op.Write
	Before, After op.Item
}

type record struct{ now, before op.Item }

// Table is the table. It is safe for concurrent use.
type Table struct {
	opts Options

	mu      sync.Mutex
	items   map[op.Key]*record
	parts   map[string]*partition // of the table, by partition key
	indexes map[op.Index]*index
}

var _ op.Table = (*Table)(nil)

// New makes an empty table.
func New(o Options) *Table {
	t := &Table{opts: o, items: map[op.Key]*record{}, parts: map[string]*partition{}, indexes: map[op.Index]*index{}}
	for _, ix := range op.Indexes() {
		t.indexes[ix] = newIndex()
	}
	return t
}

// Peek reads an item as it is, for checks: no fault touches it. The item must
// not be changed.
func (t *Table) Peek(key op.Key) op.Item {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current(key)
}

// Each calls yield with every item as it is, in no order. The items must not be
// changed, and yield must not call the table.
func (t *Table) Each(yield func(op.Key, op.Item)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, r := range t.items {
		if r.now != nil {
			yield(key, r.now)
		}
	}
}

func (t *Table) current(key op.Key) op.Item {
	if r := t.items[key]; r != nil {
		return r.now
	}
	return nil
}

func (t *Table) read(key op.Key, consistent bool) op.Item {
	r := t.items[key]
	switch {
	case r == nil:
		return nil
	case !consistent && draw(t.opts.Stale):
		return r.before.Clone()
	}
	return r.now.Clone()
}

func draw(f func() bool) bool { return f != nil && f() }

// Get reads one item.
func (t *Table) Get(_ context.Context, key op.Key, consistent bool) (op.Item, error) {
	if key.PK == "" || key.SK == "" {
		return nil, fmt.Errorf("memtable: empty key %q/%q", key.PK, key.SK)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.read(key, consistent), nil
}

// BatchGet reads several items.
func (t *Table) BatchGet(_ context.Context, keys []op.Key, consistent bool) ([]op.Item, error) {
	if len(keys) > op.MaxBatchGet {
		return nil, fmt.Errorf("memtable: batch of %d keys, allowed are %d", len(keys), op.MaxBatchGet)
	}
	seen := make(map[op.Key]bool, len(keys))
	for _, key := range keys {
		if key.PK == "" || key.SK == "" || seen[key] {
			return nil, fmt.Errorf("memtable: batch with an empty or repeated key %q/%q", key.PK, key.SK)
		}
		seen[key] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]op.Item, len(keys))
	for i, key := range keys {
		out[i] = t.read(key, consistent)
	}
	return out, nil
}

// Write performs one conditional write.
func (t *Table) Write(_ context.Context, w op.Write) (op.Item, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	if w.Action == op.Check {
		return nil, fmt.Errorf("memtable: write %q: a check outside of a transaction", w.Name)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	effects, err := t.apply(w.Name, []op.Write{w})
	if err != nil {
		return nil, err
	}
	return effects[0].After.Clone(), nil
}

// Transact performs all writes or none.
func (t *Table) Transact(_ context.Context, tx op.Tx) error {
	if err := tx.Validate(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := t.apply(tx.Name, tx.Writes)
	return err
}

// apply evaluates all writes, and performs them if all may be.
func (t *Table) apply(name string, writes []op.Write) ([]Effect, error) {
	effects := make([]Effect, len(writes))
	failed := &op.CondError{Name: name}
	var refused error
	total := 0
	for i := range writes {
		w := &writes[i]
		before := t.current(w.Key)
		effects[i] = Effect{Write: w, Before: before, After: before}
		if !op.Eval(w.Cond, w.Key, before) {
			failed.Failed = append(failed.Failed, op.CondFailure{Write: i, Item: before.Clone()})
			continue
		}
		after, err := after(w, before)
		if err != nil && refused == nil {
			refused = fmt.Errorf("memtable: write %q: %w", w.Name, err)
		}
		effects[i].After = after
		size := sizeOver(w.Key, after, op.MaxItemBytes)
		if size > op.MaxItemBytes && w.Action != op.Check && refused == nil {
			refused = fmt.Errorf("memtable: write %q: %d bytes: %w", w.Name, size, op.ErrTooLarge)
		}
		total += size
	}
	switch {
	case len(failed.Failed) > 0:
		return nil, failed
	case refused != nil:
		return nil, refused
	case len(writes) > 1 && total > op.MaxTxBytes:
		return nil, fmt.Errorf("memtable: transaction %q: %d bytes: %w", name, total, op.ErrTooLarge)
	}
	for i := range effects {
		t.perform(&effects[i])
	}
	if t.opts.Wrote != nil {
		t.opts.Wrote(Applied{Name: name, Effects: effects})
	}
	return effects, nil
}

func after(w *op.Write, before op.Item) (op.Item, error) {
	switch w.Action {
	case op.Put:
		if w.Item == nil {
			return op.Item{}, nil
		}
		return w.Item.Clone(), nil
	case op.Delete:
		return nil, nil
	case op.Update:
		return op.Apply(before, w.Changes)
	default:
		return before, nil
	}
}

// sizeOver is the item's size, or a lower estimate where it is clearly below the limit.
func sizeOver(key op.Key, item op.Item, limit int) int {
	most := len(key.PK) + len(key.SK) + 4
	for attr, v := range item {
		most += len(attr) + v.Len() + 24
	}
	if most <= limit/2 {
		return most / 2
	}
	return op.Size(key, item)
}

func (t *Table) perform(e *Effect) {
	if e.Write.Action == op.Check {
		return
	}
	key := e.Write.Key
	r := t.items[key]
	if r == nil {
		r = &record{}
		t.items[key] = r
	}
	if (r.now == nil) != (e.After == nil) {
		p := t.parts[key.PK]
		if p == nil {
			p = &partition{}
			t.parts[key.PK] = p
		}
		if e.After == nil {
			p.remove(place{sort: key.SK, sk: key.SK})
		} else {
			p.insert(place{sort: key.SK, sk: key.SK})
		}
	}
	for _, ix := range op.Indexes() {
		t.reindex(ix, key, e.Before, e.After)
	}
	r.before, r.now = r.now, e.After
}

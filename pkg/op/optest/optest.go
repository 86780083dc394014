package optest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// Options adapt the suite to an engine.
type Options struct {
	// Skip switches cases off by their name; the value says why, and is shown.
	// A name that no case has is a failure.
	Skip map[string]string
	// Prefix begins every key, so that a table that outlives a run can be used
	// again.
	Prefix string
	// Tries is how often a read that may be stale is repeated until it shows
	// what it should; 0 is 1. Pause, if set, is called in between.
	Tries int
	Pause func()
	// Clients and Rounds size the concurrent cases; 0 is 8 and 25.
	Clients, Rounds int
}

// Case is one guarantee.
type Case struct {
	Name string
	run  func(c *check)
}

// Cases lists what Exercise runs, in order.
func Cases() []Case {
	return slices.Concat(conditionCases(), writeCases(), transactCases(), indexCases(), queryCases(), batchCases(), concurrentCases())
}

// Exercise runs the suite. open is called for every case and may return the same
// table each time.
func Exercise(t *testing.T, open func(t *testing.T) op.Table, opts Options) {
	opts.Tries = max(opts.Tries, 1)
	if opts.Clients == 0 {
		opts.Clients = 8
	}
	if opts.Rounds == 0 {
		opts.Rounds = 25
	}
	known := map[string]bool{}
	for _, tc := range Cases() {
		known[tc.Name] = true
		t.Run(tc.Name, func(t *testing.T) {
			if why, off := opts.Skip[tc.Name]; off {
				t.Skipf("switched off for this engine: %s", why)
			}
			tc.run(&check{T: t, table: open(t), opts: opts, prefix: opts.Prefix + "optest#" + tc.Name + "#"})
		})
	}
	for name := range opts.Skip {
		if !known[name] {
			t.Errorf("Options.Skip names %q, which is no case", name)
		}
	}
}

// check is what a case works with. Its methods fail the test at once.
type check struct {
	*testing.T
	table  op.Table
	opts   Options
	prefix string
}

func (c *check) ctx() context.Context { return c.Context() }

func (c *check) key(name string) op.Key { return op.Key{PK: c.prefix + name, SK: "row"} }

func (c *check) in(name, sk string) op.Key { return op.Key{PK: c.prefix + name, SK: sk} }

func (c *check) put(key op.Key, item op.Item) {
	c.Helper()
	c.write(op.Write{Name: "put", Key: key, Action: op.Put, Item: item})
}

func (c *check) write(w op.Write) op.Item {
	c.Helper()
	item, err := c.table.Write(c.ctx(), w)
	if err != nil {
		c.Fatalf("write %s of %v: %v", w.Name, w.Key, err)
	}
	return item
}

func (c *check) update(key op.Key, cond op.Cond, changes ...op.Change) op.Item {
	c.Helper()
	return c.write(op.Write{Name: "update", Key: key, Action: op.Update, Cond: cond, Changes: changes})
}

func (c *check) transact(writes ...op.Write) {
	c.Helper()
	if err := c.table.Transact(c.ctx(), op.Tx{Name: "transact", Writes: writes}); err != nil {
		c.Fatalf("transaction: %v", err)
	}
}

// refused performs a write whose condition must fail and returns what it met.
func (c *check) refused(w op.Write) op.Item {
	c.Helper()
	_, err := c.table.Write(c.ctx(), w)
	ce := op.FailedCond(err)
	if ce == nil {
		c.Fatalf("write %s: got %v, want a failed condition", w.Name, err)
	}
	item, ok := ce.On(0)
	if !ok || len(ce.Failed) != 1 {
		c.Fatalf("write %s: failed writes %v, want the only one", w.Name, ce.Failed)
	}
	return item
}

// fault wants a fault of the caller: neither a failed condition nor the store's.
func (c *check) fault(what string, err error) {
	c.Helper()
	if err == nil || op.FailedCond(err) != nil || op.IsUnavailable(err) {
		c.Fatalf("%s: got %v, want a fault of the caller", what, err)
	}
}

func (c *check) get(key op.Key) op.Item {
	c.Helper()
	item, err := c.table.Get(c.ctx(), key, true)
	if err != nil {
		c.Fatalf("get %v: %v", key, err)
	}
	return item
}

func (c *check) holds(key op.Key, want op.Item) {
	c.Helper()
	c.same(fmt.Sprint(key), c.get(key), want)
}

func (c *check) same(what string, got, want op.Item) {
	c.Helper()
	if !equal(got, want) {
		c.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// equal compares items; a missing item differs from one without attributes.
func equal(a, b op.Item) bool {
	if (a == nil) != (b == nil) || len(a) != len(b) {
		return false
	}
	for attr, v := range a {
		if b[attr] != v {
			return false
		}
	}
	return true
}

// rows reads all pages of a query.
func (c *check) rows(q op.Query) []op.Row {
	c.Helper()
	var rows []op.Row
	if err := q.All(c.ctx(), c.table, func(r op.Row) bool { rows = append(rows, r); return true }); err != nil {
		c.Fatalf("query %+v: %v", q, err)
	}
	return rows
}

// sees repeats a query that may be stale until it gives these keys in order.
func (c *check) sees(q op.Query, want ...op.Key) []op.Row {
	c.Helper()
	var got []op.Key
	for try := range c.opts.Tries {
		if try > 0 && c.opts.Pause != nil {
			c.opts.Pause()
		}
		rows := c.rows(q)
		got = keysOf(rows)
		if slices.Equal(got, want) {
			return rows
		}
	}
	c.Fatalf("query %+v: got %v, want %v", q, got, want)
	return nil
}

func keysOf(rows []op.Row) []op.Key {
	keys := make([]op.Key, len(rows))
	for i, r := range rows {
		keys[i] = r.Key
	}
	return keys
}

func wantIs(c *check, what string, err, target error) {
	c.Helper()
	if !errors.Is(err, target) {
		c.Fatalf("%s: got %v, want %v", what, err, target)
	}
}

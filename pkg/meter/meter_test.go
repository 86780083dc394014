package meter_test

import (
	"context"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/localstack/differential/emulator"

	"github.com/lanekeeper/lanekeeper/pkg/dynamo"
	"github.com/lanekeeper/lanekeeper/pkg/meter"
	"github.com/lanekeeper/lanekeeper/pkg/op"
)

var bg = context.Background()

// setup returns a metered table on an emulator.
func setup(t *testing.T) (*dynamo.Table, *meter.Meter) {
	t.Helper()
	fake, err := emulator.New("tasks")
	if err != nil {
		t.Fatal(err)
	}
	m := meter.New(fake, dynamo.DescribeCall)
	return dynamo.New(m, "tasks", dynamo.Options{}), m
}

// key has 4+6 bytes of names and values: pk 2+3, sk 2+1, so 8.
var key = op.Key{PK: "T#a", SK: "1"}

// sized is an item of n bytes in all: key 8, attribute name 1.
func sized(n int) op.Item { return op.Item{"b": op.B(make([]byte, n-9))} }

func put(item op.Item) op.Write { return op.Write{Name: "put", Key: key, Item: item} }

func update(cs ...op.Change) op.Write {
	return op.Write{Name: "update", Key: key, Action: op.Update, Changes: cs}
}

func with(item op.Item, more op.Item) op.Item {
	out := item.Clone()
	for k, v := range more {
		out[k] = v
	}
	return out
}

var due = op.Item{"dk": op.S("d"), "ds": op.S("1")}

func TestUnitsByHand(t *testing.T) {
	type step func(*testing.T, *dynamo.Table) error
	write := func(w op.Write) step {
		return func(_ *testing.T, tb *dynamo.Table) error { _, err := tb.Write(bg, w); return err }
	}
	tx := func(ws ...op.Write) step {
		return func(_ *testing.T, tb *dynamo.Table) error {
			return tb.Transact(bg, op.Tx{Name: "tx", Writes: ws})
		}
	}
	get := func(consistent bool) step {
		return func(_ *testing.T, tb *dynamo.Table) error { _, err := tb.Get(bg, key, consistent); return err }
	}
	no := func(w op.Write) op.Write { w.Cond = op.Is("x", op.N(1)); return w }
	at := func(w op.Write, sk string) op.Write { w.Key.SK = sk; return w }
	for _, tc := range []struct {
		name   string
		before op.Item // nil: no item
		do     step
		failed bool
		want   meter.Usage
	}{
		{"put of 1024 bytes", nil, write(put(sized(1024))), false, meter.Usage{TableWrite: 1}},
		{"put of 1025 bytes", nil, write(put(sized(1025))), false, meter.Usage{TableWrite: 2}},
		{"smaller over larger", sized(3000), write(put(sized(100))), false, meter.Usage{TableWrite: 3}},
		{"update bills the whole item", sized(2500), write(update(op.SetN("n", 1))), false, meter.Usage{TableWrite: 3}},
		{"update over a KB's edge", sized(1022), write(update(op.SetN("n", 1))), false, meter.Usage{TableWrite: 2}},
		{"delete bills what it deletes", sized(2049), write(op.Write{Name: "delete", Key: key, Action: op.Delete}), false, meter.Usage{TableWrite: 3}},
		{"delete of nothing", nil, write(op.Write{Name: "delete", Key: key, Action: op.Delete}), false, meter.Usage{TableWrite: 1}},

		{"enters one index", nil, write(put(due)), false, meter.Usage{TableWrite: 1, IndexWrite: 1}},
		{"enters two indexes", nil, write(put(with(due, op.Item{"rk": op.S("r"), "rs": op.S("1")}))), false, meter.Usage{TableWrite: 1, IndexWrite: 2}},
		{"half a key is no entry", nil, write(put(op.Item{"dk": op.S("d")})), false, meter.Usage{TableWrite: 1}},
		{"large item, small entry", nil, write(put(with(sized(2500), due))), false, meter.Usage{TableWrite: 3, IndexWrite: 1}},
		{"entry over 1 KB", nil, write(put(op.Item{"dk": op.S("d"), "ds": op.S(strings.Repeat("x", 1020))})), false, meter.Usage{TableWrite: 2, IndexWrite: 2}},
		{"index key unchanged", due, write(update(op.SetN("n", 1))), false, meter.Usage{TableWrite: 1}},
		{"put of the same index key", due, write(put(with(due, op.Item{"n": op.N(1)}))), false, meter.Usage{TableWrite: 1}},
		{"index key moves", due, write(update(op.SetS("ds", "2"))), false, meter.Usage{TableWrite: 1, IndexWrite: 2}},
		{"leaves the index", due, write(update(op.Remove("ds"))), false, meter.Usage{TableWrite: 1, IndexWrite: 1}},
		{"deleted out of the index", due, write(op.Write{Name: "delete", Key: key, Action: op.Delete}), false, meter.Usage{TableWrite: 1, IndexWrite: 1}},

		{"failed condition on an item", sized(2500), write(no(update(op.SetN("n", 1)))), true, meter.Usage{TableWrite: 3}},
		{"failed put that would have been larger", sized(100), write(no(put(with(sized(2500), due)))), true, meter.Usage{TableWrite: 3}},
		{"failed update that would have been larger", op.Item{"b": op.B(make([]byte, 100))}, write(no(update(op.Set("c", op.B(make([]byte, 1000)))))), true, meter.Usage{TableWrite: 2}},
		{"failed update that would have replaced", sized(1000), write(no(update(op.Set("b", op.B(make([]byte, 1015)))))), true, meter.Usage{TableWrite: 1}},
		{"failed condition on nothing", nil, write(no(update(op.SetN("n", 1)))), true, meter.Usage{TableWrite: 1}},

		{"transaction of put, update, check", sized(1500), tx(
			at(put(with(sized(1025), due)), "2"), update(op.SetN("n", 1)), op.Write{Name: "check", Key: op.Key{PK: "T#a", SK: "3"}, Action: op.Check, Cond: op.ItemMissing}),
			false, meter.Usage{TableWrite: 2 * (2 + 2 + 1), IndexWrite: 1}},
		{"index moves in a transaction are not doubled", due, tx(update(op.SetS("ds", "2"))), false, meter.Usage{TableWrite: 2, IndexWrite: 2}},
		{"cancelled transaction", due, tx(update(op.SetS("ds", "2")), at(no(put(sized(1025))), "2")), true, meter.Usage{TableWrite: 2 * (1 + 2)}},

		{"get of 4096 bytes", sized(4096), get(true), false, meter.Usage{Read: 1}},
		{"get of 4097 bytes", sized(4097), get(true), false, meter.Usage{Read: 2}},
		{"eventual get", sized(4097), get(false), false, meter.Usage{Read: 1}},
		{"get of nothing", nil, get(true), false, meter.Usage{Read: 1}},
		{"eventual get of nothing", nil, get(false), false, meter.Usage{Read: 0.5}},
		{"batch rounds each item", sized(4097), func(_ *testing.T, tb *dynamo.Table) error {
			_, err := tb.BatchGet(bg, []op.Key{key, {PK: "T#a", SK: "none"}}, true)
			return err
		}, false, meter.Usage{Read: 3}},
		{"empty query", nil, func(_ *testing.T, tb *dynamo.Table) error {
			_, err := tb.Query(bg, op.Query{PK: "T#a"})
			return err
		}, false, meter.Usage{Read: 0.5}},
		{"consistent query", sized(4097), func(_ *testing.T, tb *dynamo.Table) error {
			_, err := tb.Query(bg, op.Query{PK: "T#a", Consistent: true})
			return err
		}, false, meter.Usage{Read: 2}},
		{"index query pays for entries", with(sized(9000), due), func(_ *testing.T, tb *dynamo.Table) error {
			p, err := tb.Query(bg, op.Query{Index: op.IndexDue, PK: "d"})
			if len(p.Rows) != 1 {
				t.Error("the item is not in the index")
			}
			return err
		}, false, meter.Usage{Read: 0.5}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			table, m := setup(t)
			if tc.before != nil {
				if _, err := table.Write(bg, put(tc.before)); err != nil {
					t.Fatal(err)
				}
			}
			m.Reset()
			err := tc.do(t, table)
			if (op.FailedCond(err) != nil) != tc.failed || (err != nil) != tc.failed {
				t.Fatal(err)
			}
			tc.want.Requests = 1
			if got := m.Report().Total; got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestQueriesSumTheirPage(t *testing.T) {
	table, m := setup(t)
	for _, sk := range []string{"1", "2", "3"} {
		w := put(sized(3000))
		w.Key.SK = sk
		if _, err := table.Write(bg, w); err != nil {
			t.Fatal(err)
		}
	}
	m.Reset()
	if _, err := table.Query(bg, op.Query{PK: "T#a", Consistent: true}); err != nil {
		t.Fatal(err)
	}
	if got := m.Report().Total.Read; got != 3 { // 9000 bytes, not three times one
		t.Errorf("got %v", got)
	}
}

func TestReportByName(t *testing.T) {
	table, m := setup(t)
	for range 2 {
		if _, err := table.Write(bg, put(due)); err != nil {
			t.Fatal(err)
		}
	}
	before := m.Report().Total
	if _, err := table.Get(bg, key, true); err != nil {
		t.Fatal(err)
	}
	r := m.Report()
	if got := r.ByName["put"]; got != (meter.Usage{Requests: 2, TableWrite: 2, IndexWrite: 1}) {
		t.Errorf("put: %+v", got)
	}
	if got := r.Total.Minus(before); got != (meter.Usage{Requests: 1, Read: 1}) || r.Total.Write() != 3 {
		t.Errorf("since: %+v", got)
	}
	lines := strings.Split(strings.TrimSpace(r.String()), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[1], "get T") || !strings.HasPrefix(lines[3], "total") {
		t.Errorf("table:\n%s", r)
	}
	m.Reset()
	if r := m.Report(); r.Total != (meter.Usage{}) || len(r.ByName) != 0 {
		t.Errorf("after the reset: %+v", r)
	}
}

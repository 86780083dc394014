package embed_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/pkg/op"
)

func put(t *testing.T, table op.Table, sk string, item op.Item) {
	t.Helper()
	if _, err := table.Write(t.Context(), op.Write{Name: "put", Key: op.Key{PK: "p", SK: sk}, Action: op.Put, Item: item}); err != nil {
		t.Fatal(err)
	}
}

func due(ds string) op.Item { return op.Item{"dk": op.S("d"), "ds": op.S(ds)} }

// sorts reads a query's sort keys in order.
func sorts(t *testing.T, table op.Table, q op.Query, attr string) (out []string) {
	t.Helper()
	if err := q.All(t.Context(), table, func(r op.Row) bool {
		if attr == "" {
			out = append(out, r.Key.SK)
		} else {
			out = append(out, r.Item.Str(attr))
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestIndexLagsBehindByWrites(t *testing.T) {
	lag := 0
	db := open(t, embed.Options{Faults: embed.Faults{IndexLag: func() int { return lag }}})
	table, q := db.Table(), op.Query{Index: op.IndexDue, PK: "d"}
	put(t, table, "a", due("3"))
	put(t, table, "b", due("1"))
	put(t, table, "a", due("0")) // moves
	if _, err := table.Write(t.Context(), op.Write{Name: "delete", Key: op.Key{PK: "p", SK: "b"}, Action: op.Delete}); err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]string{{"0"}, {"0", "1"}, {"1", "3"}, {"3"}, nil, nil} {
		if got := sorts(t, table, q, "ds"); !reflect.DeepEqual(got, want) {
			t.Errorf("%d writes ago: got %v, want %v", lag, got, want)
		}
		lag++
	}
	// The table itself does not lag.
	if got := sorts(t, table, op.Query{PK: "p"}, ""); !reflect.DeepEqual(got, []string{"a"}) {
		t.Errorf("table: %v", got)
	}
}

func TestIndexLagsBehindByTime(t *testing.T) {
	db, c := openClock(t, embed.Options{Faults: embed.Faults{IndexLagMS: func() int64 { return 500 }}})
	table, q := db.Table(), op.Query{Index: op.IndexDue, PK: "d", Descending: true}
	put(t, table, "a", due("1"))
	c.advance(db, 300*time.Millisecond)
	put(t, table, "b", due("2"))
	if got := sorts(t, table, q, "ds"); got != nil {
		t.Errorf("after 300 ms: %v", got)
	}
	c.advance(db, 200*time.Millisecond)
	if got := sorts(t, table, q, "ds"); !reflect.DeepEqual(got, []string{"1"}) {
		t.Errorf("after 500 ms: %v", got)
	}
	c.advance(db, 300*time.Millisecond)
	if got := sorts(t, table, q, "ds"); !reflect.DeepEqual(got, []string{"2", "1"}) {
		t.Errorf("after 800 ms: %v", got)
	}
}

func TestStaleReads(t *testing.T) {
	lag := 1
	db := open(t, embed.Options{Faults: embed.Faults{ReadLag: func() int { return lag }}})
	table := db.Table()
	put(t, table, "a", op.Item{"n": op.N(1)})
	put(t, table, "b", op.Item{"n": op.N(1)})
	keys := []op.Key{{PK: "p", SK: "a"}, {PK: "p", SK: "b"}}
	for _, consistent := range []bool{false, true} {
		items, err := table.BatchGet(t.Context(), keys, consistent)
		if err != nil || items[0] == nil || (items[1] != nil) != consistent {
			t.Errorf("batch get, consistent %v: %v, %v", consistent, items, err)
		}
		item, err := table.Get(t.Context(), keys[1], consistent)
		if err != nil || (item != nil) != consistent {
			t.Errorf("get, consistent %v: %v, %v", consistent, item, err)
		}
		if got := sorts(t, table, op.Query{PK: "p", Consistent: consistent}, ""); (len(got) == 2) != consistent {
			t.Errorf("query, consistent %v: %v", consistent, got)
		}
	}
	// Conditions are always judged on the latest state.
	_, err := table.Write(t.Context(), op.Write{Name: "put", Key: keys[1], Action: op.Put, Cond: op.ItemMissing})
	if op.FailedCond(err) == nil {
		t.Errorf("got %v", err)
	}
}

func TestShortAndEmptyPages(t *testing.T) {
	shapes := func(seed uint64) (shapes string) {
		db := open(t, embed.Options{Faults: embed.Faults{Seed: seed, ShortPages: 0.3, EmptyPages: 0.3}})
		for i := range 40 {
			put(t, db.Table(), fmt.Sprintf("%02d", i), op.Item{})
		}
		q, seen := op.Query{PK: "p", Limit: 4, Consistent: true}, 0
		for {
			page, err := db.Table().Query(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Rows {
				if r.Key.SK != fmt.Sprintf("%02d", seen) {
					t.Fatalf("row %d is %v", seen, r.Key)
				}
				seen++
			}
			shapes += fmt.Sprint(len(page.Rows))
			if q.Cursor = page.Cursor; q.Cursor == "" {
				break
			}
		}
		if seen != 40 {
			t.Fatalf("saw %d rows", seen)
		}
		return shapes
	}
	one, again, other := shapes(1), shapes(1), shapes(2)
	if one != again || one == other {
		t.Errorf("seed 1: %s and %s, seed 2: %s", one, again, other)
	}
	for _, size := range "014" {
		if n := len(one) - len(removeRune(one, size)); n < 2 {
			t.Errorf("%d pages of %c rows in %s", n, size, one)
		}
	}
}

func removeRune(s string, r rune) (out string) {
	for _, c := range s {
		if c != r {
			out += string(c)
		}
	}
	return out
}

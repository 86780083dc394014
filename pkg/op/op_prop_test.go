package op_test

import (
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

var attrs = []string{"a", "b", "c", "d"}

func genValue() *rapid.Generator[op.Value] {
	return rapid.OneOf(
		rapid.Map(rapid.Int64Range(-3, 3), op.N),
		rapid.Map(rapid.Int64(), op.N),
		rapid.Map(rapid.SampledFrom([]string{"", "a", "b", "ab"}), op.S),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 2), op.B),
	)
}

func genItem() *rapid.Generator[op.Item] {
	return rapid.Map(rapid.MapOfN(rapid.SampledFrom(attrs), genValue(), 0, 4), func(m map[string]op.Value) op.Item { return m })
}

func genCond(depth int) *rapid.Generator[op.Cond] {
	attr, cmp := rapid.SampledFrom(attrs), rapid.SampledFrom([]op.Op{op.Eq, op.Lt, op.Le, op.Gt, op.Ge})
	return rapid.Custom(func(t *rapid.T) op.Cond {
		kinds := 4
		if depth > 0 {
			kinds = 6
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "form") {
		case 0:
			return op.Exists{Attr: attr.Draw(t, "attr")}
		case 1:
			return op.Missing{Attr: attr.Draw(t, "attr")}
		case 2:
			return op.Cmp{Attr: attr.Draw(t, "attr"), Op: cmp.Draw(t, "op"), Value: genValue().Draw(t, "value")}
		case 3:
			return op.CmpAttr{Attr: attr.Draw(t, "attr"), Op: cmp.Draw(t, "op"), Other: attr.Draw(t, "other")}
		case 4:
			return op.All(rapid.SliceOfN(genCond(depth-1), 1, 3).Draw(t, "all"))
		default:
			return op.Any(rapid.SliceOfN(genCond(depth-1), 1, 3).Draw(t, "any"))
		}
	})
}

// Of values of one kind exactly one of <, =, > holds, and <= and >= follow from
// them; of others none does.
func TestComparisonsAreAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		item := op.Item{"a": genValue().Draw(t, "a"), "b": genValue().Draw(t, "b")}
		holds := func(x, y string, o op.Op) bool {
			byAttr := op.Eval(op.CmpAttr{Attr: x, Op: o, Other: y}, key, item)
			byValue := op.Eval(op.Cmp{Attr: x, Op: o, Value: item[y]}, key, item)
			if byAttr != byValue {
				t.Fatalf("%s %s %s: %v as attributes, %v as a value", x, o, y, byAttr, byValue)
			}
			return byAttr
		}
		n := 0
		for _, o := range []op.Op{op.Lt, op.Eq, op.Gt} {
			if holds("a", "b", o) {
				n++
			}
		}
		want := 0
		if item["a"].Kind() == item["b"].Kind() {
			want = 1
		}
		if n != want ||
			holds("a", "b", op.Le) != (holds("a", "b", op.Lt) || holds("a", "b", op.Eq)) ||
			holds("a", "b", op.Ge) != (holds("a", "b", op.Gt) || holds("a", "b", op.Eq)) ||
			holds("a", "b", op.Lt) != holds("b", "a", op.Gt) ||
			holds("a", "b", op.Eq) != (item["a"] == item["b"]) {
			t.Fatalf("%v", item)
		}
	})
}

// All and Any are the logic's, whatever their terms.
func TestAllAndAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		item := genItem().Draw(t, "item")
		terms := rapid.SliceOfN(genCond(2), 1, 4).Draw(t, "terms")
		all, some := true, false
		for _, c := range terms {
			held := op.Eval(c, key, item)
			all, some = all && held, some || held
		}
		if op.Eval(op.All(terms), key, item) != all || op.Eval(op.Any(terms), key, item) != some {
			t.Fatalf("%v on %v", terms, item)
		}
		w := op.Write{Name: "w", Key: key, Action: op.Put, Cond: op.All(terms)}
		if err := w.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestShorthandsCountMissingAsZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, limit := rapid.Int64().Draw(t, "n"), rapid.Int64().Draw(t, "limit")
		small := rapid.Int64Range(-2, 2).Draw(t, "small")
		for _, item := range []op.Item{nil, {}, {"n": op.N(n)}, {"n": op.N(small)}, {"n": op.N(limit)}} {
			for _, l := range []int64{limit, small, 0} {
				if op.Eval(op.AtMost("n", l), key, item) != (item.Int("n") <= l) {
					t.Fatalf("at most %d of %v", l, item)
				}
				if op.Eval(op.Equals("n", l), key, item) != (item.Int("n") == l) {
					t.Fatalf("equals %d of %v", l, item)
				}
			}
		}
	})
}

// An update touches the attributes it names and no others, and undoing adds
// returns to the start.
func TestApplyIsLocal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		item := genItem().Draw(t, "item")
		var changes, undo []op.Change
		touched := map[string]bool{}
		for _, attr := range rapid.SliceOfNDistinct(rapid.SampledFrom(attrs), 1, 4, rapid.ID[string]).Draw(t, "touched") {
			touched[attr] = true
			n := rapid.Int64Range(-1000, 1000).Draw(t, "n")
			switch rapid.IntRange(0, 2).Draw(t, "verb") {
			case 0:
				changes = append(changes, op.Set(attr, genValue().Draw(t, "value")))
			case 1:
				changes = append(changes, op.Remove(attr))
			case 2:
				changes = append(changes, op.Add(attr, n))
				undo = append(undo, op.Add(attr, -n))
			}
		}
		before := item.Clone()
		after, err := op.Apply(item, changes)
		if fmt.Sprint(item) != fmt.Sprint(before) {
			t.Fatalf("the argument changed from %v to %v", before, item)
		}
		if err != nil {
			return // an add to text or beyond int64
		}
		for _, attr := range attrs {
			if !touched[attr] && after[attr] != before[attr] {
				t.Fatalf("%q changed from %v to %v", attr, before[attr], after[attr])
			}
		}
		for _, c := range changes {
			switch {
			case c.Verb == op.VerbSet && after[c.Attr] != c.Value,
				c.Verb == op.VerbRemove && after.Has(c.Attr),
				c.Verb == op.VerbAdd && after.Int(c.Attr) != before.Int(c.Attr)+c.Value.Int():
				t.Fatalf("%v made %v of %v", c, after, before)
			}
		}
		back, err := op.Apply(after, undo)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range undo {
			if back.Int(c.Attr) != before.Int(c.Attr) {
				t.Fatalf("%q came back as %v from %v", c.Attr, back[c.Attr], before[c.Attr])
			}
		}
	})
}

// fixed answers a query with given pages.
type fixed struct {
	op.Table
	pages []op.Page
	asked []string
}

func (f *fixed) Query(_ context.Context, q op.Query) (op.Page, error) {
	f.asked = append(f.asked, q.Cursor)
	page := f.pages[0]
	f.pages = f.pages[1:]
	return page, nil
}

func TestQueryAll(t *testing.T) {
	row := func(sk string) op.Row { return op.Row{Key: op.Key{PK: "p", SK: sk}} }
	pages := func() *fixed {
		return &fixed{pages: []op.Page{{Rows: []op.Row{row("1"), row("2")}, Cursor: "x"}, {Cursor: "y"}, {Rows: []op.Row{row("3")}}}}
	}
	for stop, want := range map[string]string{"": "[1 2 3] after [ x y]", "2": "[1 2] after []", "3": "[1 2 3] after [ x y]"} {
		table, seen := pages(), []string{}
		err := op.Query{PK: "p"}.All(context.Background(), table, func(r op.Row) bool {
			seen = append(seen, r.Key.SK)
			return r.Key.SK != stop
		})
		if got := fmt.Sprint(seen, " after ", table.asked); err != nil || got != want {
			t.Errorf("stopped at %q: %s, %v; want %s", stop, got, err, want)
		}
	}
}

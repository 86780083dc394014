package op_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

var key = op.Key{PK: "p", SK: "s"}

func TestEval(t *testing.T) {
	item := op.Item{"n": op.N(5), "m": op.N(7), "s": op.S("b"), "b": op.B([]byte{1}), "empty": op.S("")}
	yes, no := op.Is("n", op.N(5)), op.Is("n", op.N(6))
	for _, tc := range []struct {
		name string
		cond op.Cond
		item op.Item
		want bool
	}{
		{"nil holds", nil, item, true},
		{"nil holds without item", nil, nil, true},
		{"exists", op.Exists{Attr: "empty"}, item, true},
		{"exists absent", op.Exists{Attr: "x"}, item, false},
		{"missing", op.Missing{Attr: "x"}, item, true},
		{"missing present", op.Missing{Attr: "n"}, item, false},
		{"item exists", op.ItemExists, item, true},
		{"item exists, no attributes", op.ItemExists, op.Item{}, true},
		{"item exists, none", op.ItemExists, nil, false},
		{"item missing, none", op.ItemMissing, nil, true},
		{"item missing", op.ItemMissing, item, false},
		{"key", op.Is(op.AttrPK, op.S("p")), item, true},
		{"sort key", op.Cmp{Attr: op.AttrSK, Op: op.Gt, Value: op.S("a")}, item, true},
		{"key of none", op.Is(op.AttrPK, op.S("p")), nil, false},
		{"lt", op.Cmp{Attr: "n", Op: op.Lt, Value: op.N(6)}, item, true},
		{"lt equal", op.Cmp{Attr: "n", Op: op.Lt, Value: op.N(5)}, item, false},
		{"le equal", op.Cmp{Attr: "n", Op: op.Le, Value: op.N(5)}, item, true},
		{"gt", op.Cmp{Attr: "n", Op: op.Gt, Value: op.N(math.MinInt64)}, item, true},
		{"ge", op.Cmp{Attr: "n", Op: op.Ge, Value: op.N(6)}, item, false},
		{"string", op.Cmp{Attr: "s", Op: op.Lt, Value: op.S("ba")}, item, true},
		{"bytes", op.Cmp{Attr: "b", Op: op.Lt, Value: op.B([]byte{1, 0})}, item, true},
		{"other kind", op.Is("n", op.S("5")), item, false},
		{"absent", op.Cmp{Attr: "x", Op: op.Ge, Value: op.N(math.MinInt64)}, item, false},
		{"attributes", op.CmpAttr{Attr: "n", Op: op.Lt, Other: "m"}, item, true},
		{"attributes, other kind", op.CmpAttr{Attr: "n", Op: op.Lt, Other: "s"}, item, false},
		{"attributes, both absent", op.CmpAttr{Attr: "x", Op: op.Eq, Other: "y"}, item, false},
		{"all", op.All{yes, yes}, item, true},
		{"all, one not", op.All{yes, no}, item, false},
		{"any", op.Any{no, yes}, item, true},
		{"any, none", op.Any{no, no}, item, false},
		{"nested", op.All{op.Any{no, yes}, op.Any{yes, no}}, item, true},
	} {
		if got := op.Eval(tc.cond, key, tc.item); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

func TestApply(t *testing.T) {
	before := op.Item{"n": op.N(5), "s": op.S("x"), "drop": op.N(1)}
	got, err := op.Apply(before, []op.Change{op.Add("n", -7), op.Add("new", 3), op.SetS("s", "y"), op.SetN("k", 0), op.Remove("drop"), op.Remove("never")})
	if want := (op.Item{"n": op.N(-2), "new": op.N(3), "s": op.S("y"), "k": op.N(0)}); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if fmt.Sprint(before) != fmt.Sprint(op.Item{"n": op.N(5), "s": op.S("x"), "drop": op.N(1)}) {
		t.Errorf("Apply changed its argument: %v", before)
	}
	if got, err := op.Apply(nil, []op.Change{op.Remove("n")}); got != nil || err != nil {
		t.Errorf("removing from no item made %v, %v", got, err)
	}
	if got, err := op.Apply(nil, []op.Change{op.Remove("n"), op.Add("m", 0)}); len(got) != 1 || err != nil {
		t.Errorf("adding to no item made %v, %v", got, err)
	}
	for name, change := range map[string]op.Change{
		"a string": op.Add("s", 1), "over the top": op.Add("n", math.MaxInt64), "under the bottom": op.Add("low", -1),
	} {
		item := op.Item{"n": op.N(5), "s": op.S("x"), "low": op.N(math.MinInt64)}
		if got, err := op.Apply(item, []op.Change{change}); err == nil {
			t.Errorf("add to %s: %v", name, got)
		}
	}
}

func TestValidate(t *testing.T) {
	put := func(item op.Item) op.Write { return op.Write{Name: "w", Key: key, Action: op.Put, Item: item} }
	update := func(changes ...op.Change) op.Write {
		return op.Write{Name: "w", Key: key, Action: op.Update, Changes: changes}
	}
	cond := func(c op.Cond) op.Write { return op.Write{Name: "w", Key: key, Action: op.Put, Cond: c} }
	for name, w := range map[string]op.Write{
		"put": put(op.Item{"n": op.N(1), "empty": op.S(""), "none": op.B(nil)}), "put nothing": put(nil),
		"index keys": put(op.Item{"dk": op.S("d"), "ds": op.S("1")}), "half an index key": put(op.Item{"dk": op.S("d")}),
		"update": update(op.Set("dk", op.S("x")), op.Remove("rk"), op.Add("n", 0)), "delete": {Key: key, Action: op.Delete},
		"check": {Key: key, Action: op.Check, Cond: op.ItemExists}, "long keys": {Key: op.Key{PK: strings.Repeat("k", 2048), SK: strings.Repeat("k", 1024)}},
		"condition": cond(op.All{op.ItemExists, op.Any{op.Is("n", op.S("")), op.CmpAttr{Attr: "a", Other: "b"}}}),
	} {
		if err := w.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, tc := range map[string]struct {
		write op.Write
		fault string
	}{
		"no partition key":         {op.Write{Key: op.Key{SK: "s"}}, "empty key"},
		"no sort key":              {op.Write{Key: op.Key{PK: "p"}}, "empty key"},
		"long partition key":       {op.Write{Key: op.Key{PK: strings.Repeat("k", 2049), SK: "s"}}, "2049"},
		"long sort key":            {op.Write{Key: op.Key{PK: "p", SK: strings.Repeat("k", 1025)}}, "1025"},
		"check nothing":            {op.Write{Key: key, Action: op.Check}, "without a condition"},
		"update with item":         {op.Write{Key: key, Action: op.Update, Item: op.Item{}, Changes: []op.Change{op.Add("n", 1)}}, "other than put"},
		"put with changes":         {op.Write{Key: key, Action: op.Put, Changes: []op.Change{op.Add("n", 1)}}, "other than update"},
		"update nothing":           {update(), "without changes"},
		"change twice":             {update(op.Add("n", 1), op.Remove("n")), "changed twice"},
		"change the key":           {update(op.SetS(op.AttrSK, "x")), "cannot change"},
		"change no name":           {update(op.SetN("", 1)), "cannot change"},
		"set no value":             {update(op.Set("n", op.Value{})), "to no value"},
		"add text":                 {update(op.Change{Verb: op.VerbAdd, Attr: "n", Value: op.S("1")}), "no number"},
		"add to an index key":      {update(op.Add("ds", 1)), "index key"},
		"set an empty index key":   {update(op.SetS("rk", "")), "index key"},
		"put an empty index key":   {put(op.Item{"rs": op.S("")}), "index key"},
		"put a number as key":      {put(op.Item{"dk": op.N(1)}), "index key"},
		"put a long index key":     {put(op.Item{"ds": op.S(strings.Repeat("k", 1025))}), "index key"},
		"put no value":             {put(op.Item{"n": {}}), "has no value"},
		"put no name":              {put(op.Item{"": op.N(1)}), "without a name"},
		"put the key":              {put(op.Item{"pk": op.S("x")}), "belongs to the key"},
		"empty all":                {cond(op.All{}), "empty All"},
		"empty any inside":         {cond(op.All{op.ItemExists, op.Any{}}), "empty Any"},
		"empty term":               {cond(op.Any{nil}), "empty term"},
		"compare with nothing":     {cond(op.Is("n", op.Value{})), "no value"},
		"condition without name":   {cond(op.Exists{}), "without a name"},
		"compare with nameless":    {cond(op.CmpAttr{Attr: "a"}), "without a name"},
		"all faults, not only one": {op.Write{Action: op.Update, Item: op.Item{}}, "without changes"},
	} {
		if err := tc.write.Validate(); err == nil || !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%s: got %v, want a fault about %q", name, err, tc.fault)
		}
	}
	tx := func(n int) (tx op.Tx) {
		for i := range n {
			w := put(nil)
			w.Key.SK = fmt.Sprint(i)
			tx.Writes = append(tx.Writes, w)
		}
		return tx
	}
	for n, ok := range map[int]bool{0: false, 1: true, 100: true, 101: false} {
		if err := tx(n).Validate(); (err == nil) != ok {
			t.Errorf("%d writes: %v", n, err)
		}
	}
	twice := tx(3)
	twice.Writes[2].Key = twice.Writes[0].Key
	if twice.Validate() == nil {
		t.Error("an item twice in a transaction")
	}
	bad := tx(3)
	bad.Writes[1].Key.PK = ""
	if bad.Validate() == nil {
		t.Error("an invalid write in a transaction")
	}
}

// The numbers are from the rules in Amazon's guide, counted by hand.
func TestSize(t *testing.T) {
	base := len("pk") + 1 + len("sk") + 1
	for _, tc := range []struct {
		item op.Item
		want int
	}{
		{nil, base},
		{op.Item{"abc": op.S("xy")}, base + 5},
		{op.Item{"a": op.S("é")}, base + 3},
		{op.Item{"a": op.S("")}, base + 1},
		{op.Item{"a": op.B([]byte{1, 2, 3})}, base + 4},
		{op.Item{"a": op.N(0)}, base + 1 + 1},
		{op.Item{"a": op.N(7)}, base + 1 + 2},
		{op.Item{"a": op.N(-7)}, base + 1 + 3},
		{op.Item{"a": op.N(12)}, base + 1 + 2},
		{op.Item{"a": op.N(123)}, base + 1 + 3},
		{op.Item{"a": op.N(12_000_000)}, base + 1 + 2},
		{op.Item{"a": op.N(1_700_000_000_123)}, base + 1 + 8},
		{op.Item{"a": op.N(math.MinInt64)}, base + 1 + 12},
	} {
		if got := op.Size(key, tc.item); got != tc.want {
			t.Errorf("%v: %d bytes, want %d", tc.item, got, tc.want)
		}
	}
}

func TestValues(t *testing.T) {
	s, n, b := op.S("x"), op.N(-5), op.B([]byte("x"))
	if s.Str() != "x" || s.Int() != 0 || s.Bytes() != nil || n.Int() != -5 || n.Str() != "" || string(b.Bytes()) != "x" || b.Str() != "" {
		t.Error("a value read as another kind")
	}
	if s == b || s == op.S("y") || n != op.N(-5) || (op.Value{}) == op.S("") || op.S("") == op.B(nil) {
		t.Error("values compare wrongly")
	}
	mine := []byte{1}
	v := op.B(mine)
	mine[0] = 2
	v.Bytes()[0] = 3
	if v.Bytes()[0] != 1 {
		t.Error("a binary value shares its bytes")
	}
	if got := fmt.Sprint(s, n, b, op.Value{}); got != `"x" -5 b"x" none` {
		t.Errorf("printed %s", got)
	}
	item := op.Item{"b": op.N(1), "a": op.S("")}
	if fmt.Sprint(item.Attrs()) != "[a b]" || !item.Has("a") || item.Has("x") || op.Item(nil).Clone() != nil || op.Item(nil).Int("x") != 0 {
		t.Error("item helpers")
	}
}

func TestErrors(t *testing.T) {
	ce := &op.CondError{Name: "accept", Failed: []op.CondFailure{{Write: 1, Item: op.Item{"n": op.N(1)}}, {Write: 3}}}
	err := fmt.Errorf("wrapped: %w", ce)
	if op.FailedCond(err) != ce || op.FailedCond(errors.New("x")) != nil || op.FailedCond(nil) != nil {
		t.Error("FailedCond")
	}
	if item, ok := ce.On(1); !ok || item.Int("n") != 1 {
		t.Error("On(1)")
	}
	if item, ok := ce.On(3); !ok || item != nil {
		t.Error("On(3)")
	}
	if _, ok := ce.On(0); ok {
		t.Error("On(0)")
	}
	if got := ce.Error(); !strings.Contains(got, "accept") || !strings.Contains(got, "1, 3") {
		t.Error(got)
	}
	cause := errors.New("cause")
	u := fmt.Errorf("wrapped: %w", &op.Unavailable{Name: "get", Reason: op.Throttled, Err: cause})
	if !op.IsUnavailable(u) || op.IsUnavailable(err) || !errors.Is(u, cause) || !strings.Contains(u.Error(), "throttled") {
		t.Error(u)
	}
}

package dynamo

import (
	"fmt"
	"math"
	"regexp"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// show writes a rendered request in one line, placeholders in order.
func show(cond, update *string, names map[string]string, values attrs) string {
	var parts []string
	if update != nil {
		parts = append(parts, *update)
	}
	if cond != nil {
		parts = append(parts, "IF "+*cond)
	}
	var ps []string
	for p, n := range names {
		ps = append(ps, p+"="+n)
	}
	for p, v := range values {
		dec, err := decodeValue(v)
		ps = append(ps, fmt.Sprintf("%s=%s", p, dec))
		if err != nil {
			ps = append(ps, err.Error())
		}
	}
	sort.Strings(ps)
	return strings.Join(append(parts, ps...), " | ")
}

func TestRenderGolden(t *testing.T) {
	key := op.Key{PK: "T#a", SK: "1"}
	for _, tc := range []struct {
		name string
		w    op.Write
		want string
	}{
		{"put if missing", op.Write{Action: op.Put, Key: key, Cond: op.ItemMissing, Item: op.Item{"state": op.S("queued")}},
			`IF attribute_not_exists(#n000) | #n000=pk`},
		{"no condition", op.Write{Action: op.Delete, Key: key}, ``},
		{"update of every verb", op.Write{Action: op.Update, Key: key, Changes: []op.Change{
			op.SetS("state", "running"), op.Add("work", -5), op.Remove("rk"), op.SetN("gen", 2), op.Remove("rs"), op.Add("active", 1)}},
			`SET #n000 = :v000, #n003 = :v002 ADD #n001 :v001, #n005 :v003 REMOVE #n002, #n004 | ` +
				`#n000=state | #n001=work | #n002=rk | #n003=gen | #n004=rs | #n005=active | :v000="running" | :v001=-5 | :v002=2 | :v003=1`},
		{"update and condition share placeholders", op.Write{Action: op.Update, Key: key, Changes: []op.Change{op.SetN("gen", 2)},
			Cond: op.All{op.Is("gen", op.N(1)), op.Cmp{Attr: "n", Op: op.Lt, Value: op.N(2)}}},
			`SET #n000 = :v000 | IF #n000 = :v001 AND #n001 < :v000 | #n000=gen | #n001=n | :v000=2 | :v001=1`},
		{"number and string alike in text are two values", op.Write{Action: op.Delete, Key: key,
			Cond: op.Any{op.Is("a", op.N(1)), op.Is("a", op.S("1")), op.Is("a", op.B([]byte("1")))}},
			`IF #n000 = :v000 OR #n000 = :v001 OR #n000 = :v002 | #n000=a | :v000=1 | :v001="1" | :v002=b"1"`},
		{"at most counts missing as zero", op.Write{Action: op.Check, Key: key, Cond: op.All{op.ItemExists, op.AtMost("work", 10)}},
			`IF attribute_exists(#n000) AND (attribute_not_exists(#n001) OR #n001 <= :v000) | #n000=pk | #n001=work | :v000=10`},
		{"nesting has single brackets only", op.Write{Action: op.Check, Key: key,
			Cond: op.All{op.All{op.Any{op.All{op.Exists{Attr: "a"}}}}, op.Any{op.Exists{Attr: "b"}, op.All{op.Exists{Attr: "c"}, op.Any{op.CmpAttr{Attr: "d", Op: op.Ge, Other: "e"}}}}}},
			`IF attribute_exists(#n000) AND (attribute_exists(#n001) OR (attribute_exists(#n002) AND #n003 >= #n004)) | ` +
				`#n000=a | #n001=b | #n002=c | #n003=d | #n004=e`},
		{"an attribute with itself", op.Write{Action: op.Check, Key: key, Cond: op.Any{op.CmpAttr{Attr: "a", Op: op.Le, Other: "a"}, op.CmpAttr{Attr: "a", Op: op.Gt, Other: "a"}}},
			`IF attribute_exists(#n000) OR (attribute_exists(#n000) AND attribute_not_exists(#n000)) | #n000=a`},
		{"reserved words and dots are only names", op.Write{Action: op.Update, Key: key, Changes: []op.Change{op.SetN("status", 1), op.SetN("a.b", 1)}},
			`SET #n000 = :v000, #n001 = :v000 | #n000=status | #n001=a.b | :v000=1`},
		{"extremes", op.Write{Action: op.Update, Key: key, Changes: []op.Change{op.SetN("a", math.MinInt64), op.SetN("b", math.MaxInt64), op.SetS("c", "")}},
			`SET #n000 = :v000, #n001 = :v001, #n002 = :v002 | #n000=a | #n001=b | #n002=c | :v000=-9223372036854775808 | :v001=9223372036854775807 | :v002=""`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p, err := renderWrite(tc.w)
			if err != nil {
				t.Fatal(err)
			}
			if got := show(p.cond, p.update, p.names, p.values); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestRenderKeyCondition(t *testing.T) {
	for _, tc := range []struct {
		q    op.Query
		want string
	}{
		{op.Query{PK: "p"}, `IF #n000 = :v000 | #n000=pk | :v000="p"`},
		{op.Query{PK: "p", From: "a"}, `IF #n000 = :v000 AND #n001 >= :v001 | #n000=pk | #n001=sk | :v000="p" | :v001="a"`},
		{op.Query{Index: op.IndexDue, PK: "p", To: "z"}, `IF #n000 = :v000 AND #n001 <= :v001 | #n000=dk | #n001=ds | :v000="p" | :v001="z"`},
		{op.Query{Index: op.IndexReady, PK: "p", From: "a", To: "z"},
			`IF #n000 = :v000 AND #n001 BETWEEN :v001 AND :v002 | #n000=rk | #n001=rs | :v000="p" | :v001="a" | :v002="z"`},
		{op.Query{PK: "p", From: "p", To: "p"}, `IF #n000 = :v000 AND #n001 BETWEEN :v000 AND :v000 | #n000=pk | #n001=sk | :v000="p"`},
	} {
		var r renderer
		cond, err := r.keyCond(tc.q)
		if err != nil {
			t.Fatal(err)
		}
		if got := show(&cond, nil, r.names, r.values); got != tc.want {
			t.Errorf("%+v\ngot  %s\nwant %s", tc.q, got, tc.want)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	key := op.Key{PK: "p", SK: "s"}
	for name, c := range map[string]op.Cond{
		"no terms":         op.All{},
		"no terms inside":  op.All{op.ItemExists, op.Any{}},
		"nil term":         op.All{op.ItemExists, nil},
		"no value":         op.Cmp{Attr: "a"},
		"no name":          op.Exists{},
		"unknown operator": op.Cmp{Attr: "a", Op: 9, Value: op.N(1)},
	} {
		if p, err := renderWrite(op.Write{Key: key, Action: op.Delete, Cond: c}); err == nil {
			t.Errorf("%s: rendered as %q", name, *p.cond)
		}
	}
	if _, err := transactItem(nil, op.Write{Key: key, Action: op.Update}); err == nil {
		t.Error("an update of nothing was rendered for a transaction")
	}
	if _, err := transactItem(nil, op.Write{Key: key, Action: 9}); err == nil {
		t.Error("an unknown action was rendered")
	}
}

var placeholder = regexp.MustCompile(`[#:][nv][0-9]+`)

func genValue() *rapid.Generator[op.Value] {
	return rapid.OneOf(
		rapid.Just(op.Value{}),
		rapid.Map(rapid.Int64(), op.N),
		rapid.Map(rapid.String(), op.S),
		rapid.Map(rapid.SliceOf(rapid.Byte()), op.B))
}

func genCond(depth int) *rapid.Generator[op.Cond] {
	return rapid.Custom(func(t *rapid.T) op.Cond {
		attr := rapid.SampledFrom([]string{"", "a", "b", "c", op.AttrPK})
		cmp := rapid.Custom(func(t *rapid.T) op.Op { return op.Op(rapid.IntRange(0, 5).Draw(t, "op")) })
		n := 4
		if depth > 0 {
			n = 6
		}
		switch rapid.IntRange(0, n).Draw(t, "form") {
		case 0:
			return nil
		case 1:
			return op.Exists{Attr: attr.Draw(t, "attr")}
		case 2:
			return op.Missing{Attr: attr.Draw(t, "attr")}
		case 3:
			return op.Cmp{Attr: attr.Draw(t, "attr"), Op: cmp.Draw(t, "op"), Value: genValue().Draw(t, "value")}
		case 4:
			return op.CmpAttr{Attr: attr.Draw(t, "attr"), Op: cmp.Draw(t, "op"), Other: attr.Draw(t, "other")}
		case 5:
			return op.All(rapid.SliceOfN(genCond(depth-1), 0, 3).Draw(t, "all"))
		default:
			return op.Any(rapid.SliceOfN(genCond(depth-1), 0, 3).Draw(t, "any"))
		}
	})
}

// renderIsSound: whatever the op value, rendering does not panic, is
// deterministic, and uses exactly the placeholders it declares.
func renderIsSound(t *rapid.T) {
	w := op.Write{
		Name: "w", Key: op.Key{PK: "p", SK: "s"},
		Action: op.Action(rapid.IntRange(0, 4).Draw(t, "action")),
		Cond:   genCond(3).Draw(t, "cond"),
		Item:   op.Item(rapid.MapOfN(rapid.String(), genValue(), 0, 3).Draw(t, "item")),
	}
	for range rapid.IntRange(0, 4).Draw(t, "changes") {
		w.Changes = append(w.Changes, op.Change{
			Verb:  op.Verb(rapid.IntRange(0, 3).Draw(t, "verb")),
			Attr:  rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "attr"),
			Value: genValue().Draw(t, "value"),
		})
	}
	_, _ = transactItem(nil, w)
	p, err := renderWrite(w)
	if err != nil {
		return
	}
	again, _ := renderWrite(w)
	if show(p.cond, p.update, p.names, p.values) != show(again.cond, again.update, again.names, again.values) {
		t.Fatal("two renderings differ")
	}
	var text string
	for _, s := range []*string{p.update, p.cond} {
		if s != nil {
			text += *s + " "
		}
	}
	if strings.Contains(text, "((") || strings.Contains(text, "))") && !strings.Contains(text, "exists(") {
		t.Fatalf("redundant brackets: %s", text)
	}
	used := map[string]bool{}
	for _, ph := range placeholder.FindAllString(text, -1) {
		used[ph] = true
		_, name := p.names[ph]
		_, value := p.values[ph]
		if !name && !value {
			t.Fatalf("%s is not declared: %s", ph, text)
		}
	}
	if len(used) != len(p.names)+len(p.values) {
		t.Fatalf("declared %v %v, used in %s", p.names, p.values, text)
	}
}

func TestRenderIsSound(t *testing.T) { rapid.Check(t, renderIsSound) }

func FuzzRender(f *testing.F) { f.Fuzz(rapid.MakeFuzz(renderIsSound)) }

func TestRowsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := op.Key{PK: rapid.String().Draw(t, "pk"), SK: rapid.String().Draw(t, "sk")}
		item := op.Item{}
		for range rapid.IntRange(0, 5).Draw(t, "attrs") {
			if v := genValue().Draw(t, "value"); v.Kind() != op.KindNone {
				item[rapid.StringN(1, 8, 8).Draw(t, "attr")+"_"] = v
			}
		}
		enc, err := encodeRow(key, item)
		if err != nil {
			t.Fatal(err)
		}
		row, err := decodeRow(enc)
		if err != nil {
			t.Fatal(err)
		}
		if row.Key != key || fmt.Sprint(row.Item) != fmt.Sprint(item) {
			t.Fatalf("got %v, want %v %v", row, key, item)
		}
	})
}

func TestNumbersOfOtherForms(t *testing.T) {
	for in, want := range map[string]int64{"1E+3": 1000, "12.0": 12, "-0": 0, "9223372036854775807": math.MaxInt64} {
		if got, err := parseInt(in); err != nil || got != want {
			t.Errorf("%s: got %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "1.5", "9223372036854775808", "1E40", "NaN", "x"} {
		if got, err := parseInt(in); err == nil {
			t.Errorf("%q was read as %d", in, got)
		}
	}
}

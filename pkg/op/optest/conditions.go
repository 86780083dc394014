package optest

import (
	"math"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// sample is the item on which conditions are tried.
var sample = op.Item{
	"n": op.N(5), "m": op.N(7), "same": op.N(5), "neg": op.N(-3), "zero": op.N(0),
	"s": op.S("beta"), "t": op.S("gamma"), "empty": op.S(""), "digits": op.S("5"),
	"b": op.B([]byte{1, 0x80}), "c": op.B([]byte{1, 0xff}),
	"big": op.N(math.MaxInt64), "small": op.N(math.MinInt64),
}

type truth struct {
	name string
	cond op.Cond
	want bool
}

func conditionCases() []Case {
	return []Case{
		{"cond/exists", func(c *check) {
			c.truths(sample, []truth{
				{"present", op.Exists{Attr: "n"}, true},
				{"present and empty", op.Exists{Attr: "empty"}, true},
				{"absent", op.Exists{Attr: "none"}, false},
				{"missing of present", op.Missing{Attr: "n"}, false},
				{"missing of absent", op.Missing{Attr: "none"}, true},
				{"item exists", op.ItemExists, true},
				{"item missing", op.ItemMissing, false},
				{"no condition", nil, true},
			})
		}},
		{"cond/no-item", func(c *check) {
			c.truths(nil, []truth{
				{"exists", op.Exists{Attr: "n"}, false},
				{"missing", op.Missing{Attr: "n"}, true},
				{"item exists", op.ItemExists, false},
				{"item missing", op.ItemMissing, true},
				{"compare", op.Is("n", op.N(0)), false},
				{"compare attributes", op.CmpAttr{Attr: "n", Op: op.Eq, Other: "m"}, false},
				{"at most 0", op.AtMost("n", 0), true},
				{"at most -1", op.AtMost("n", -1), false},
				{"equals 0", op.Equals("n", 0), true},
				{"equals 1", op.Equals("n", 1), false},
			})
		}},
		{"cond/number", func(c *check) { c.truths(sample, comparisons("n", op.N(4), op.N(5), op.N(6))) }},
		{"cond/number-order", func(c *check) {
			// As text these would order the other way.
			c.truths(sample, []truth{
				{"7 < 10", op.Cmp{Attr: "m", Op: op.Lt, Value: op.N(10)}, true},
				{"7 > -10", op.Cmp{Attr: "m", Op: op.Gt, Value: op.N(-10)}, true},
				{"-3 > -20", op.Cmp{Attr: "neg", Op: op.Gt, Value: op.N(-20)}, true},
				{"-3 < 0", op.Cmp{Attr: "neg", Op: op.Lt, Value: op.N(0)}, true},
			})
		}},
		{"cond/number-extremes", func(c *check) {
			c.truths(sample, []truth{
				{"max", op.Is("big", op.N(math.MaxInt64)), true},
				{"max-1 differs", op.Is("big", op.N(math.MaxInt64-1)), false},
				{"max > max-1", op.Cmp{Attr: "big", Op: op.Gt, Value: op.N(math.MaxInt64 - 1)}, true},
				{"min", op.Is("small", op.N(math.MinInt64)), true},
				{"min < min+1", op.Cmp{Attr: "small", Op: op.Lt, Value: op.N(math.MinInt64 + 1)}, true},
			})
		}},
		{"cond/string", func(c *check) { c.truths(sample, comparisons("s", op.S("alpha"), op.S("beta"), op.S("beta "))) }},
		{"cond/string-order", func(c *check) {
			// By bytes of UTF-8, not by a language's order.
			c.truths(sample, []truth{
				{"upper before lower", op.Cmp{Attr: "s", Op: op.Gt, Value: op.S("Zeta")}, true},
				{"beyond ASCII", op.Cmp{Attr: "s", Op: op.Lt, Value: op.S("é")}, true},
				{"empty is least", op.Cmp{Attr: "s", Op: op.Gt, Value: op.S("")}, true},
				{"empty equals empty", op.Is("empty", op.S("")), true},
			})
		}},
		{"cond/binary", func(c *check) {
			c.truths(sample, comparisons("b", op.B([]byte{1}), op.B([]byte{1, 0x80}), op.B([]byte{1, 0x81})))
		}},
		{"cond/other-kind", func(c *check) {
			var all []truth
			for _, o := range []op.Op{op.Eq, op.Lt, op.Le, op.Gt, op.Ge} {
				all = append(all,
					truth{"number " + o.String() + " string", op.Cmp{Attr: "n", Op: o, Value: op.S("5")}, false},
					truth{"string " + o.String() + " number", op.Cmp{Attr: "digits", Op: o, Value: op.N(5)}, false},
					truth{"string " + o.String() + " binary", op.Cmp{Attr: "s", Op: o, Value: op.B([]byte("beta"))}, false},
					truth{"attributes: number " + o.String() + " string", op.CmpAttr{Attr: "n", Op: o, Other: "digits"}, false})
			}
			c.truths(sample, all)
		}},
		{"cond/missing-attribute", func(c *check) {
			var all []truth
			for _, o := range []op.Op{op.Eq, op.Lt, op.Le, op.Gt, op.Ge} {
				all = append(all,
					truth{"none " + o.String() + " number", op.Cmp{Attr: "none", Op: o, Value: op.N(0)}, false},
					truth{"none " + o.String() + " string", op.Cmp{Attr: "none", Op: o, Value: op.S("")}, false},
					truth{"none " + o.String() + " attribute", op.CmpAttr{Attr: "none", Op: o, Other: "n"}, false},
					truth{"attribute " + o.String() + " none", op.CmpAttr{Attr: "n", Op: o, Other: "none"}, false},
					truth{"none " + o.String() + " none", op.CmpAttr{Attr: "none", Op: o, Other: "nil"}, false})
			}
			c.truths(sample, all)
		}},
		{"cond/attributes", func(c *check) {
			attr := func(a string, o op.Op, b string) op.Cond { return op.CmpAttr{Attr: a, Op: o, Other: b} }
			c.truths(sample, []truth{
				{"5 = 7", attr("n", op.Eq, "m"), false},
				{"5 = 5", attr("n", op.Eq, "same"), true},
				{"5 < 7", attr("n", op.Lt, "m"), true},
				{"7 < 5", attr("m", op.Lt, "n"), false},
				{"5 < 5", attr("n", op.Lt, "same"), false},
				{"5 <= 5", attr("n", op.Le, "same"), true},
				{"5 > 5", attr("n", op.Gt, "same"), false},
				{"5 >= 5", attr("n", op.Ge, "same"), true},
				{"7 >= 5", attr("m", op.Ge, "n"), true},
				{"5 > -3", attr("n", op.Gt, "neg"), true},
				{"itself", attr("n", op.Eq, "n"), true},
				{"strings", attr("s", op.Lt, "t"), true},
				{"binaries", attr("b", op.Lt, "c"), true},
			})
		}},
		{"cond/all-any", func(c *check) {
			yes, no := op.Is("n", op.N(5)), op.Is("n", op.N(6))
			c.truths(sample, []truth{
				{"all yes", op.All{yes, yes}, true},
				{"all with one no", op.All{yes, no, yes}, false},
				{"all of one", op.All{yes}, true},
				{"any of no", op.Any{no, no}, false},
				{"any with one yes", op.Any{no, no, yes}, true},
				{"any of one", op.Any{no}, false},
				{"any in all", op.All{yes, op.Any{no, yes}}, true},
				{"all in any", op.Any{op.All{yes, no}, op.All{no, yes}}, false},
				// Without brackets these two would come out the other way.
				{"(yes or yes) and no", op.All{op.Any{yes, yes}, no}, false},
				{"no and (no or yes)", op.All{no, op.Any{no, yes}}, false},
				{"deep", op.Any{no, op.All{yes, op.Any{no, op.All{yes, op.Any{yes, no}}}}}, true},
				{"ten terms", op.All{yes, yes, yes, yes, yes, yes, yes, yes, yes, no}, false},
			})
		}},
		{"cond/shorthands", func(c *check) {
			c.truths(sample, []truth{
				{"at most, less", op.AtMost("n", 6), true},
				{"at most, equal", op.AtMost("n", 5), true},
				{"at most, more", op.AtMost("n", 4), false},
				{"at most, absent is 0", op.AtMost("none", 0), true},
				{"at most -1, absent is 0", op.AtMost("none", -1), false},
				{"at most -2, is -3", op.AtMost("neg", -2), true},
				{"equals", op.Equals("n", 5), true},
				{"equals another", op.Equals("n", 4), false},
				{"equals 0, absent", op.Equals("none", 0), true},
				{"equals 0, is 0", op.Equals("zero", 0), true},
				{"equals 0, is 5", op.Equals("n", 0), false},
				{"equals 1, absent", op.Equals("none", 1), false},
			})
		}},
	}
}

// comparisons tries every operator with a value below, at and above.
func comparisons(attr string, below, at, above op.Value) []truth {
	var all []truth
	for _, o := range []op.Op{op.Eq, op.Lt, op.Le, op.Gt, op.Ge} {
		all = append(all,
			truth{attr + o.String() + "below", op.Cmp{Attr: attr, Op: o, Value: below}, o == op.Gt || o == op.Ge},
			truth{attr + o.String() + "at", op.Cmp{Attr: attr, Op: o, Value: at}, o == op.Eq || o == op.Le || o == op.Ge},
			truth{attr + o.String() + "above", op.Cmp{Attr: attr, Op: o, Value: above}, o == op.Lt || o == op.Le})
	}
	return all
}

// truths tries conditions on an item: alone on a put, and as a check beside
// another item's write in a transaction.
func (c *check) truths(item op.Item, all []truth) {
	c.Helper()
	key, other := c.key("subject"), c.key("other")
	for _, tr := range all {
		if item != nil {
			c.put(key, item)
		} else {
			c.write(op.Write{Name: "reset", Key: key, Action: op.Delete})
		}
		if tr.cond != nil {
			err := c.table.Transact(c.ctx(), op.Tx{Name: tr.name, Writes: []op.Write{
				{Name: "check", Key: key, Action: op.Check, Cond: tr.cond},
				{Name: "count", Key: other, Action: op.Put, Item: op.Item{"x": op.N(1)}},
			}})
			if !c.answers("check: "+tr.name, err, tr.want, item) {
				return
			}
		}
		_, err := c.table.Write(c.ctx(), op.Write{Name: tr.name, Key: key, Action: op.Put, Cond: tr.cond, Item: op.Item{"after": op.N(1)}})
		if !c.answers("put: "+tr.name, err, tr.want, item) {
			return
		}
		want := item
		if tr.want {
			want = op.Item{"after": op.N(1)}
		}
		c.holds(key, want)
	}
}

func (c *check) answers(what string, err error, want bool, met op.Item) bool {
	c.Helper()
	if want {
		if err != nil {
			c.Errorf("%s: got %v, want the condition to hold", what, err)
		}
		return err == nil
	}
	ce := op.FailedCond(err)
	if ce == nil {
		c.Errorf("%s: got %v, want a failed condition", what, err)
		return false
	}
	if item, ok := ce.On(0); !ok || !equal(item, met) {
		c.Errorf("%s: the failed condition carries %v, want %v", what, item, met)
		return false
	}
	return true
}

package optest

import (
	"math"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

func writeCases() []Case {
	return []Case{
		{"write/put", func(c *check) {
			key := c.key("a")
			c.holds(key, nil)
			got := c.write(op.Write{Name: "put", Key: key, Action: op.Put, Item: sample})
			c.same("returned", got, sample)
			c.holds(key, sample)
			c.put(key, op.Item{"only": op.S("this")})
			c.holds(key, op.Item{"only": op.S("this")})
		}},
		{"write/put-without-attributes", func(c *check) {
			key := c.key("a")
			c.put(key, op.Item{})
			c.holds(key, op.Item{})
		}},
		{"write/values", func(c *check) {
			key := c.key("a")
			item := op.Item{
				"max": op.N(math.MaxInt64), "min": op.N(math.MinInt64), "53": op.N(1<<53 + 1), "minus": op.N(-1<<53 - 1), "nil": op.N(0),
				"utf8": op.S("zoë \U0001F680 \x00 \n\"'"), "empty": op.S(""), "long": op.S(strings.Repeat("x", 100_000)),
				"bytes": op.B([]byte{0, 1, 0xff, 0xc0}), "no bytes": op.B(nil), "size": op.N(1), "a.b": op.N(2), "a-b": op.N(3), "#n": op.N(4), ":v": op.N(5),
			}
			c.put(key, item)
			c.holds(key, item)
			// The same by an update, attribute by attribute.
			other := c.key("b")
			for attr, v := range item {
				c.update(other, nil, op.Set(attr, v))
			}
			c.holds(other, item)
			// As conditions: each attribute equals its value and nothing else.
			for attr, v := range item {
				c.update(other, op.Is(attr, v), op.SetN("seen", 1))
			}
		}},
		{"write/keys", func(c *check) {
			// Keys that differ in what sloppy engines lose: case, spaces, trailing
			// bytes, the boundary between the two halves.
			keys := []op.Key{c.in("k", "a"), c.in("k", "A"), c.in("k", "a "), c.in("k", " a"), c.in("ka", "a"), c.in("k", "ä"), c.in("k", "a#b"), c.in("k#a", "b")}
			for i, key := range keys {
				c.put(key, op.Item{"i": op.N(int64(i))})
			}
			for i, key := range keys {
				c.holds(key, op.Item{"i": op.N(int64(i))})
			}
		}},
		{"write/update", func(c *check) {
			key := c.key("a")
			c.put(key, op.Item{"keep": op.S("k"), "change": op.N(1), "retype": op.N(2), "drop": op.N(3), "sum": op.N(10)})
			got := c.update(key, nil, op.SetN("change", 5), op.SetS("retype", "r"), op.Remove("drop"), op.Remove("never there"),
				op.Add("sum", -4), op.Add("fresh", 7), op.Set("bytes", op.B([]byte{9})))
			want := op.Item{"keep": op.S("k"), "change": op.N(5), "retype": op.S("r"), "sum": op.N(6), "fresh": op.N(7), "bytes": op.B([]byte{9})}
			c.same("returned", got, want)
			c.holds(key, want)
		}},
		{"write/update-creates", func(c *check) {
			key := c.key("a")
			got := c.update(key, nil, op.Add("n", -2), op.SetS("s", "x"), op.Remove("r"))
			c.same("returned", got, op.Item{"n": op.N(-2), "s": op.S("x")})
			c.holds(key, op.Item{"n": op.N(-2), "s": op.S("x")})
		}},
		{"write/update-guarded-does-not-create", func(c *check) {
			key := c.key("a")
			c.same("met", c.refused(op.Write{Name: "update", Key: key, Action: op.Update, Cond: op.ItemExists, Changes: []op.Change{op.SetN("n", 1)}}), nil)
			c.holds(key, nil)
		}},
		{"write/remove-does-not-create", func(c *check) {
			key := c.key("a")
			c.update(key, nil, op.Remove("n"))
			c.holds(key, nil)
		}},
		{"write/remove-last-attribute", func(c *check) {
			key := c.key("a")
			c.put(key, op.Item{"n": op.N(1)})
			c.update(key, nil, op.Remove("n"))
			c.holds(key, op.Item{})
		}},
		{"write/add-zero-and-extremes", func(c *check) {
			key := c.key("a")
			c.update(key, nil, op.Add("n", 0))
			c.holds(key, op.Item{"n": op.N(0)})
			c.update(key, nil, op.Add("n", math.MaxInt64))
			c.update(key, nil, op.Add("n", -math.MaxInt64))
			c.update(key, nil, op.Add("n", math.MinInt64))
			c.holds(key, op.Item{"n": op.N(math.MinInt64)})
		}},
		{"write/add-to-text", func(c *check) {
			key := c.key("a")
			c.put(key, op.Item{"s": op.S("5")})
			_, err := c.table.Write(c.ctx(), op.Write{Name: "add", Key: key, Action: op.Update, Changes: []op.Change{op.Add("s", 1)}})
			c.fault("add to a string", err)
			c.holds(key, op.Item{"s": op.S("5")})
		}},
		{"write/delete", func(c *check) {
			key := c.key("a")
			c.put(key, sample)
			c.same("returned", c.write(op.Write{Name: "delete", Key: key, Action: op.Delete}), nil)
			c.holds(key, nil)
			c.write(op.Write{Name: "delete again", Key: key, Action: op.Delete})
		}},
		{"write/delete-guarded", func(c *check) {
			key := c.key("a")
			c.put(key, op.Item{"n": op.N(1)})
			met := c.refused(op.Write{Name: "delete", Key: key, Action: op.Delete, Cond: op.Is("n", op.N(2))})
			c.same("met", met, op.Item{"n": op.N(1)})
			c.holds(key, op.Item{"n": op.N(1)})
			c.write(op.Write{Name: "delete", Key: key, Action: op.Delete, Cond: op.Is("n", op.N(1))})
			c.holds(key, nil)
			c.same("met", c.refused(op.Write{Name: "delete", Key: key, Action: op.Delete, Cond: op.ItemExists}), nil)
		}},
		{"write/refused-changes-nothing", func(c *check) {
			key := c.key("a")
			c.put(key, sample)
			for _, w := range []op.Write{
				{Name: "put", Action: op.Put, Item: op.Item{"x": op.N(1)}},
				{Name: "update", Action: op.Update, Changes: []op.Change{op.Add("n", 1)}},
				{Name: "delete", Action: op.Delete},
			} {
				w.Key, w.Cond = key, op.ItemMissing
				c.same(w.Name, c.refused(w), sample)
				c.holds(key, sample)
			}
		}},
		{"write/too-large", func(c *check) {
			key := c.key("a")
			c.put(key, op.Item{"n": op.N(1)})
			big := op.S(strings.Repeat("x", op.MaxItemBytes+1))
			_, err := c.table.Write(c.ctx(), op.Write{Name: "put", Key: key, Action: op.Put, Item: op.Item{"big": big}})
			wantIs(c, "put of 400 KB + 1", err, op.ErrTooLarge)
			_, err = c.table.Write(c.ctx(), op.Write{Name: "update", Key: key, Action: op.Update, Changes: []op.Change{op.Set("big", big)}})
			wantIs(c, "update to 400 KB + 1", err, op.ErrTooLarge)
			c.holds(key, op.Item{"n": op.N(1)})
		}},
		{"write/grown-too-large", func(c *check) {
			// The limit is on the item that would result, not on the request.
			key := c.key("a")
			half := op.S(strings.Repeat("x", op.MaxItemBytes/2))
			c.put(key, op.Item{"a": half})
			_, err := c.table.Write(c.ctx(), op.Write{Name: "grow", Key: key, Action: op.Update, Changes: []op.Change{op.Set("b", half)}})
			wantIs(c, "update beyond 400 KB", err, op.ErrTooLarge)
			c.holds(key, op.Item{"a": half})
		}},
		{"write/invalid", func(c *check) {
			for _, w := range []op.Write{
				{Name: "no key", Action: op.Put},
				{Name: "no sort key", Key: op.Key{PK: c.prefix}, Action: op.Put},
				{Name: "check alone", Key: c.key("a"), Action: op.Check, Cond: op.ItemMissing},
				{Name: "twice", Key: c.key("a"), Action: op.Update, Changes: []op.Change{op.SetN("n", 1), op.Add("n", 1)}},
				{Name: "key", Key: c.key("a"), Action: op.Update, Changes: []op.Change{op.SetS(op.AttrPK, "x")}},
				{Name: "empty index key", Key: c.key("a"), Action: op.Put, Item: op.Item{"dk": op.S("")}},
				{Name: "index key of another kind", Key: c.key("a"), Action: op.Update, Changes: []op.Change{op.SetN("ds", 1)}},
				{Name: "no value", Key: c.key("a"), Action: op.Put, Item: op.Item{"n": op.Value{}}},
				{Name: "no changes", Key: c.key("a"), Action: op.Update},
				{Name: "empty condition", Key: c.key("a"), Action: op.Put, Cond: op.All{}},
			} {
				_, err := c.table.Write(c.ctx(), w)
				c.fault(w.Name, err)
			}
			c.holds(c.key("a"), nil)
		}},
	}
}

package optest

import (
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

func transactCases() []Case {
	return []Case{
		{"tx/all-actions", func(c *check) {
			put, upd, del, chk := c.key("put"), c.key("upd"), c.key("del"), c.key("chk")
			for _, key := range []op.Key{upd, del, chk} {
				c.put(key, op.Item{"n": op.N(1)})
			}
			c.transact(
				op.Write{Name: "put", Key: put, Action: op.Put, Cond: op.ItemMissing, Item: op.Item{"p": op.N(1)}},
				op.Write{Name: "update", Key: upd, Action: op.Update, Cond: op.Is("n", op.N(1)), Changes: []op.Change{op.Add("n", 1), op.SetS("s", "x")}},
				op.Write{Name: "delete", Key: del, Action: op.Delete, Cond: op.ItemExists},
				op.Write{Name: "check", Key: chk, Action: op.Check, Cond: op.Is("n", op.N(1))},
			)
			c.holds(put, op.Item{"p": op.N(1)})
			c.holds(upd, op.Item{"n": op.N(2), "s": op.S("x")})
			c.holds(del, nil)
			c.holds(chk, op.Item{"n": op.N(1)})
		}},
		{"tx/one-write", func(c *check) {
			c.transact(op.Write{Name: "put", Key: c.key("a"), Action: op.Put, Item: op.Item{"n": op.N(1)}})
			c.holds(c.key("a"), op.Item{"n": op.N(1)})
		}},
		{"tx/update-creates", func(c *check) {
			c.transact(
				op.Write{Name: "add", Key: c.key("a"), Action: op.Update, Cond: op.AtMost("n", 0), Changes: []op.Change{op.Add("n", 3)}},
				op.Write{Name: "set", Key: c.key("b"), Action: op.Update, Changes: []op.Change{op.SetN("n", 4)}},
			)
			c.holds(c.key("a"), op.Item{"n": op.N(3)})
			c.holds(c.key("b"), op.Item{"n": op.N(4)})
		}},
		{"tx/none-when-one-fails", func(c *check) {
			// The failing write at every place, of every action.
			for place := range 4 {
				for _, action := range []op.Action{op.Put, op.Update, op.Delete, op.Check} {
					name := fmt.Sprintf("%d-%d", place, action)
					writes := make([]op.Write, 4)
					for i := range writes {
						writes[i] = op.Write{Name: "put", Key: c.in(name, fmt.Sprint(i)), Action: op.Put, Item: op.Item{"i": op.N(int64(i))}}
					}
					bad := op.Write{Name: "bad", Key: writes[place].Key, Action: action, Cond: op.ItemExists}
					switch action {
					case op.Put:
						bad.Item = op.Item{"x": op.N(1)}
					case op.Update:
						bad.Changes = []op.Change{op.SetN("x", 1)}
					case op.Delete, op.Check:
					}
					writes[place] = bad
					err := c.table.Transact(c.ctx(), op.Tx{Name: name, Writes: writes})
					ce := op.FailedCond(err)
					if ce == nil || len(ce.Failed) != 1 || ce.Failed[0].Write != place || ce.Failed[0].Item != nil {
						c.Fatalf("%s: got %v, want write %d to fail on no item", name, err, place)
					}
					for _, w := range writes {
						c.holds(w.Key, nil)
					}
				}
			}
		}},
		{"tx/several-fail", func(c *check) {
			items := []op.Item{{"n": op.N(1)}, {"n": op.N(2), "s": op.S("two")}, {"n": op.N(3)}, nil}
			writes := make([]op.Write, len(items))
			for i, item := range items {
				key := c.in("several", fmt.Sprint(i))
				if item != nil {
					c.put(key, item)
				}
				writes[i] = op.Write{Name: "add", Key: key, Action: op.Update, Cond: op.Is("n", op.N(1)), Changes: []op.Change{op.Add("n", 10)}}
			}
			writes[2].Action, writes[2].Changes = op.Check, nil
			err := c.table.Transact(c.ctx(), op.Tx{Name: "several", Writes: writes})
			ce := op.FailedCond(err)
			if ce == nil || len(ce.Failed) != 3 {
				c.Fatalf("got %v, want writes 1, 2 and 3 to fail", err)
			}
			for i := 1; i < 4; i++ {
				if item, ok := ce.On(i); !ok || !equal(item, items[i]) {
					c.Errorf("write %d: failed %v on %v, want %v", i, ok, item, items[i])
				}
			}
			if _, ok := ce.On(0); ok {
				c.Error("write 0 is reported as failed, its condition holds")
			}
			for i, item := range items {
				c.holds(writes[i].Key, item)
			}
		}},
		{"tx/conditions-see-the-state-before", func(c *check) {
			// No write of a transaction is visible to another's condition.
			a, b := c.key("a"), c.key("b")
			c.transact(
				op.Write{Name: "a", Key: a, Action: op.Put, Cond: op.ItemMissing, Item: op.Item{"n": op.N(1)}},
				op.Write{Name: "b", Key: b, Action: op.Put, Cond: op.ItemMissing, Item: op.Item{"n": op.N(1)}},
			)
			err := c.table.Transact(c.ctx(), op.Tx{Name: "again", Writes: []op.Write{
				{Name: "a", Key: a, Action: op.Delete},
				{Name: "b", Key: b, Action: op.Update, Cond: op.Is("n", op.N(2)), Changes: []op.Change{op.SetN("n", 3)}},
			}})
			if op.FailedCond(err) == nil {
				c.Fatalf("got %v, want a failed condition", err)
			}
			c.holds(a, op.Item{"n": op.N(1)})
		}},
		{"tx/invalid", func(c *check) {
			put := func(i int) op.Write {
				return op.Write{Name: "put", Key: c.in("many", fmt.Sprintf("%03d", i)), Action: op.Put, Item: op.Item{"n": op.N(1)}}
			}
			var many []op.Write
			for i := range op.MaxTxWrites + 1 {
				many = append(many, put(i))
			}
			c.fault("no writes", c.table.Transact(c.ctx(), op.Tx{Name: "none"}))
			c.fault("101 writes", c.table.Transact(c.ctx(), op.Tx{Name: "many", Writes: many}))
			c.fault("one item twice", c.table.Transact(c.ctx(), op.Tx{Name: "twice", Writes: []op.Write{put(1), put(2), put(1)}}))
			check := op.Write{Name: "check", Key: put(2).Key, Action: op.Check, Cond: op.ItemMissing}
			c.fault("checked and written", c.table.Transact(c.ctx(), op.Tx{Name: "twice", Writes: []op.Write{put(2), check}}))
			c.fault("check without condition", c.table.Transact(c.ctx(), op.Tx{Name: "check", Writes: []op.Write{{Name: "check", Key: put(3).Key, Action: op.Check}}}))
			if rows := c.rows(op.Query{PK: c.prefix + "many", Consistent: true}); len(rows) != 0 {
				c.Fatalf("an invalid transaction wrote %v", rows)
			}
		}},
		{"tx/100-writes", func(c *check) {
			var many []op.Write
			for i := range op.MaxTxWrites {
				many = append(many, op.Write{Name: "put", Key: c.in("many", fmt.Sprintf("%03d", i)), Action: op.Put, Cond: op.ItemMissing, Item: op.Item{"i": op.N(int64(i))}})
			}
			c.transact(many...)
			if rows := c.rows(op.Query{PK: c.prefix + "many", Consistent: true}); len(rows) != op.MaxTxWrites {
				c.Fatalf("got %d rows", len(rows))
			}
		}},
		{"tx/too-large", func(c *check) {
			big := op.S(strings.Repeat("x", op.MaxItemBytes+1))
			err := c.table.Transact(c.ctx(), op.Tx{Name: "big", Writes: []op.Write{
				{Name: "small", Key: c.key("a"), Action: op.Put, Item: op.Item{"n": op.N(1)}},
				{Name: "big", Key: c.key("b"), Action: op.Put, Item: op.Item{"big": big}},
			}})
			wantIs(c, "an item of 400 KB + 1", err, op.ErrTooLarge)
			c.holds(c.key("a"), nil)
		}},
		{"tx/too-large-together", func(c *check) {
			// Eleven items of 390 KB: each is allowed, together they exceed 4 MB.
			big := op.S(strings.Repeat("x", 390<<10))
			var many []op.Write
			for i := range 11 {
				many = append(many, op.Write{Name: "put", Key: c.in("big", fmt.Sprint(i)), Action: op.Put, Item: op.Item{"big": big}})
			}
			wantIs(c, "4.2 MB", c.table.Transact(c.ctx(), op.Tx{Name: "big", Writes: many}), op.ErrTooLarge)
			c.holds(many[0].Key, nil)
		}},
		{"tx/add-to-text", func(c *check) {
			c.put(c.key("b"), op.Item{"s": op.S("x")})
			c.fault("add to a string", c.table.Transact(c.ctx(), op.Tx{Name: "add", Writes: []op.Write{
				{Name: "fine", Key: c.key("a"), Action: op.Put, Item: op.Item{"n": op.N(1)}},
				{Name: "add", Key: c.key("b"), Action: op.Update, Changes: []op.Change{op.Add("s", 1)}},
			}}))
			c.holds(c.key("a"), nil)
		}},
	}
}

package optest

import (
	"fmt"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

func indexCases() []Case {
	var cases []Case
	for _, ix := range op.Indexes() {
		pk, sk := ix.Keys()
		cases = append(cases,
			Case{"index/" + string(ix) + "/membership", func(c *check) { membership(c, ix, pk, sk) }},
			Case{"index/" + string(ix) + "/projection", func(c *check) {
				part := c.prefix + "part"
				key := c.key("a")
				c.put(key, op.Item{pk: op.S(part), sk: op.S("1"), "other": op.S("not in the index"), "n": op.N(1)})
				rows := c.sees(op.Query{Index: ix, PK: part}, key)
				c.same("projected", rows[0].Item, op.Item{pk: op.S(part), sk: op.S("1")})
			}},
			Case{"index/" + string(ix) + "/transactions", func(c *check) {
				part := c.prefix + "part"
				a, b, q := c.key("a"), c.key("b"), op.Query{Index: ix, PK: part}
				c.transact(
					op.Write{Name: "a", Key: a, Action: op.Put, Item: op.Item{pk: op.S(part), sk: op.S("2")}},
					op.Write{Name: "b", Key: b, Action: op.Update, Changes: []op.Change{op.SetS(pk, part), op.SetS(sk, "1")}},
				)
				c.sees(q, b, a)
				refused := c.table.Transact(c.ctx(), op.Tx{Name: "refused", Writes: []op.Write{
					{Name: "a", Key: a, Action: op.Delete},
					{Name: "b", Key: b, Action: op.Update, Cond: op.Is("n", op.N(1)), Changes: []op.Change{op.SetS(sk, "3")}},
				}})
				if op.FailedCond(refused) == nil {
					c.Fatalf("got %v, want a failed condition", refused)
				}
				c.sees(q, b, a)
				c.transact(
					op.Write{Name: "a", Key: a, Action: op.Delete},
					op.Write{Name: "b", Key: b, Action: op.Update, Changes: []op.Change{op.Remove(pk)}},
				)
				c.sees(q)
			}},
			Case{"index/" + string(ix) + "/equal-keys", func(c *check) {
				// Items may share an index key; each stays one row.
				part := c.prefix + "part"
				want := map[op.Key]bool{}
				for i := range 5 {
					key := c.in("same", fmt.Sprint(i))
					c.put(key, op.Item{pk: op.S(part), sk: op.S("1")})
					want[key] = true
				}
				var rows []op.Row
				for range c.opts.Tries {
					if rows = c.rows(op.Query{Index: ix, PK: part, Limit: 2}); len(rows) == len(want) {
						break
					}
				}
				for _, r := range rows {
					if !want[r.Key] {
						c.Fatalf("%v came twice or is foreign", r.Key)
					}
					delete(want, r.Key)
				}
				if len(want) > 0 {
					c.Fatalf("missing %v", want)
				}
			}},
		)
	}
	return append(cases,
		Case{"index/never-consistent", func(c *check) {
			_, err := c.table.Query(c.ctx(), op.Query{Index: op.IndexDue, PK: c.prefix + "x", Consistent: true})
			c.fault("consistent query of an index", err)
		}},
		Case{"index/both-at-once", func(c *check) {
			key := c.key("a")
			due, ready := op.Query{Index: op.IndexDue, PK: c.prefix + "d"}, op.Query{Index: op.IndexReady, PK: c.prefix + "r"}
			c.put(key, op.Item{"dk": op.S(due.PK), "ds": op.S("1"), "rk": op.S(ready.PK), "rs": op.S("1")})
			c.sees(due, key)
			c.sees(ready, key)
			c.update(key, nil, op.Remove("rk"), op.Remove("rs"))
			c.sees(due, key)
			c.sees(ready)
		}},
	)
}

// membership follows one item through all ways into and out of an index.
func membership(c *check, ix op.Index, pk, sk string) {
	key, fixed := c.key("a"), c.key("fixed")
	one, two := c.prefix+"one", c.prefix+"two"
	at := func(part string, want ...op.Key) {
		c.Helper()
		c.sees(op.Query{Index: ix, PK: part}, want...)
	}
	c.put(fixed, op.Item{pk: op.S(one), sk: op.S("5")})
	c.put(key, op.Item{"n": op.N(1)})
	at(one, fixed)
	c.update(key, nil, op.SetS(pk, one))
	at(one, fixed) // half a key is none
	c.update(key, nil, op.SetS(sk, "7"))
	at(one, fixed, key)
	c.update(key, nil, op.Add("n", 1))
	at(one, fixed, key)
	c.update(key, nil, op.SetS(sk, "3"))
	at(one, key, fixed)
	c.update(key, nil, op.SetS(pk, two))
	at(one, fixed)
	at(two, key)
	c.update(key, nil, op.Remove(sk))
	at(two)
	c.put(key, op.Item{pk: op.S(one), sk: op.S("9")})
	at(one, fixed, key)
	c.put(key, op.Item{"n": op.N(1)})
	at(one, fixed)
	c.put(key, op.Item{pk: op.S(one), sk: op.S("1")})
	at(one, key, fixed)
	c.write(op.Write{Name: "delete", Key: key, Action: op.Delete})
	at(one, fixed)
}

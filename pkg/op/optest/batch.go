package optest

import (
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

func batchCases() []Case {
	return []Case{
		{"get/consistent", func(c *check) {
			key := c.key("a")
			for i := range int64(30) {
				c.put(key, op.Item{"i": op.N(i)})
				c.holds(key, op.Item{"i": op.N(i)})
			}
		}},
		{"get/eventually", func(c *check) {
			key := c.key("a")
			c.put(key, op.Item{"i": op.N(1)})
			var item op.Item
			for try := range c.opts.Tries {
				if try > 0 && c.opts.Pause != nil {
					c.opts.Pause()
				}
				var err error
				if item, err = c.table.Get(c.ctx(), key, false); err != nil {
					c.Fatal(err)
				}
				if equal(item, op.Item{"i": op.N(1)}) {
					return
				}
			}
			c.Fatalf("got %v", item)
		}},
		{"get/invalid", func(c *check) {
			_, err := c.table.Get(c.ctx(), op.Key{PK: "a"}, true)
			c.fault("no sort key", err)
		}},
		{"batch/order-and-missing", func(c *check) {
			var keys []op.Key
			for i := range 20 {
				key := c.in(fmt.Sprint("part", i%3), fmt.Sprint(i))
				keys = append(keys, key)
				if i%4 != 0 {
					c.put(key, op.Item{"i": op.N(int64(i))})
				}
			}
			// In an order that is neither that of writing nor of the keys.
			for i := range keys {
				j := (i * 7) % len(keys)
				keys[i], keys[j] = keys[j], keys[i]
			}
			items, err := c.table.BatchGet(c.ctx(), keys, true)
			if err != nil || len(items) != len(keys) {
				c.Fatalf("got %d items, %v", len(items), err)
			}
			for i, key := range keys {
				c.same(fmt.Sprint(key), items[i], c.get(key))
			}
		}},
		{"batch/100-large", func(c *check) {
			// 20 MB: more than an answer holds, so parts come back unprocessed.
			var keys []op.Key
			for i := range op.MaxBatchGet {
				key := c.in("big", fmt.Sprintf("%03d", i))
				keys = append(keys, key)
				c.put(key, op.Item{"i": op.N(int64(i)), "big": op.S(strings.Repeat("x", 200<<10))})
			}
			items, err := c.table.BatchGet(c.ctx(), keys, true)
			if err != nil {
				c.Fatal(err)
			}
			for i, item := range items {
				if item.Int("i") != int64(i) || item["big"].Len() != 200<<10 {
					c.Fatalf("item %d: i = %d with %d bytes", i, item.Int("i"), item["big"].Len())
				}
			}
		}},
		{"batch/none", func(c *check) {
			if items, err := c.table.BatchGet(c.ctx(), nil, true); err != nil || len(items) != 0 {
				c.Fatalf("got %v, %v", items, err)
			}
		}},
		{"batch/invalid", func(c *check) {
			var keys []op.Key
			for i := range op.MaxBatchGet + 1 {
				keys = append(keys, c.in("many", fmt.Sprint(i)))
			}
			_, err := c.table.BatchGet(c.ctx(), keys, true)
			c.fault("101 keys", err)
			_, err = c.table.BatchGet(c.ctx(), []op.Key{keys[0], keys[1], keys[0]}, true)
			c.fault("a key twice", err)
			_, err = c.table.BatchGet(c.ctx(), []op.Key{{PK: "a"}}, true)
			c.fault("no sort key", err)
		}},
	}
}

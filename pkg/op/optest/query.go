package optest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// sorts are sort keys in byte order, with neighbours that differ little.
var sorts = []string{"#1", "1", "10", "2", "A", "a", "a#", "a#1", "aa", "b", "ä"}

func queryCases() []Case {
	cases := []Case{
		{"query/items", func(c *check) {
			items := map[string]op.Item{}
			for i, sk := range sorts {
				items[sk] = op.Item{"i": op.N(int64(i)), "s": op.S("x")}
				c.put(c.in("q", sk), items[sk])
			}
			for _, r := range c.rows(op.Query{PK: c.prefix + "q", Consistent: true}) {
				c.same(r.Key.SK, r.Item, items[r.Key.SK])
			}
		}},
		{"query/consistent", func(c *check) {
			q := op.Query{PK: c.prefix + "q", Consistent: true}
			for i := range 20 {
				c.put(c.in("q", fmt.Sprintf("%02d", i)), op.Item{"i": op.N(1)})
				if rows := c.rows(q); len(rows) != i+1 {
					c.Fatalf("after put %d: %d rows", i, len(rows))
				}
			}
			for i := range 20 {
				c.write(op.Write{Name: "delete", Key: c.in("q", fmt.Sprintf("%02d", i)), Action: op.Delete})
				if rows := c.rows(q); len(rows) != 19-i {
					c.Fatalf("after delete %d: %d rows", i, len(rows))
				}
			}
		}},
		{"query/other-partitions", func(c *check) {
			for _, name := range []string{"q", "q2", "Q", "q "} {
				c.put(c.in(name, "a"), op.Item{"i": op.N(1)})
			}
			c.sees(op.Query{PK: c.prefix + "q", Consistent: true}, c.in("q", "a"))
			c.sees(op.Query{PK: c.prefix + "nothing", Consistent: true})
		}},
		{"query/large-pages", func(c *check) {
			// 2.4 MB cannot come in one page, and each row comes once.
			var want []op.Key
			for i := range 12 {
				key := c.in("q", fmt.Sprintf("%02d", i))
				c.put(key, op.Item{"big": op.S(strings.Repeat("x", 200<<10))})
				want = append(want, key)
			}
			q := op.Query{PK: c.prefix + "q", Consistent: true}
			page, err := c.table.Query(c.ctx(), q)
			if err != nil || page.Cursor == "" || len(page.Rows) > 6 {
				c.Fatalf("first page: %d rows, cursor %q, %v", len(page.Rows), page.Cursor, err)
			}
			c.sees(q, want...)
			slices.Reverse(want)
			q.Descending = true
			c.sees(q, want...)
		}},
		{"query/invalid", func(c *check) {
			_, err := c.table.Query(c.ctx(), op.Query{})
			c.fault("no partition key", err)
		}},
		{"query/bad-cursor", func(c *check) {
			for i := range 5 {
				c.put(c.in("q", fmt.Sprint(i)), op.Item{"i": op.N(1), "dk": op.S(c.prefix + "q"), "ds": op.S(fmt.Sprint(i))})
			}
			q := op.Query{PK: c.prefix + "q", Limit: 2, Consistent: true}
			cursor := ""
			for cursor == "" || cursor == q.Cursor { // past empty pages
				page, err := c.table.Query(c.ctx(), q)
				if err != nil || page.Cursor == "" {
					c.Fatalf("first page: %+v, %v", page, err)
				}
				if q.Cursor = page.Cursor; len(page.Rows) > 0 {
					cursor = page.Cursor
					break
				}
			}
			for name, bad := range map[string]op.Query{
				"garbled":           {PK: q.PK, Cursor: "!not a cursor!"},
				"of base64":         {PK: q.PK, Cursor: "AAAA"},
				"cut":               {PK: q.PK, Cursor: cursor[:len(cursor)-5]},
				"another partition": {PK: c.prefix + "other", Cursor: cursor},
				"outside the range": {PK: q.PK, From: "3", Cursor: cursor},
				"an index":          {Index: op.IndexDue, PK: q.PK, Cursor: cursor},
			} {
				_, err := c.table.Query(c.ctx(), bad)
				wantIs(c, name, err, op.ErrBadCursor)
			}
		}},
	}
	cases = append(cases, Case{"query/table", func(c *check) {
		c.ranges(op.Query{Consistent: true}, func(sk string) (op.Key, op.Item) { return c.in("q", sk), op.Item{"i": op.N(1)} })
	}})
	for _, ix := range op.Indexes() {
		pk, sk := ix.Keys()
		cases = append(cases, Case{"query/" + string(ix), func(c *check) {
			n := 0
			c.ranges(op.Query{Index: ix}, func(sort string) (op.Key, op.Item) {
				n++
				// The items' own keys order otherwise.
				return c.in("item", fmt.Sprintf("%03d", 100-n)), op.Item{pk: op.S(c.prefix + "q"), sk: op.S(sort)}
			})
		}})
	}
	return cases
}

// ranges tries bounds, directions and limits against a filter in memory.
func (c *check) ranges(q op.Query, row func(sort string) (op.Key, op.Item)) {
	c.Helper()
	q.PK = c.prefix + "q"
	keys := make(map[string]op.Key)
	shuffled := append(slices.Clone(sorts[5:]), sorts[:5]...)
	for _, sort := range shuffled {
		key, item := row(sort)
		c.put(key, item)
		keys[sort] = key
	}
	bounds := append([]string{"", "0", "a#0", "zz"}, sorts...)
	for _, from := range bounds {
		for _, to := range bounds {
			if to != "" && from > to {
				continue // DynamoDB refuses it
			}
			var want []op.Key
			for _, sort := range sorts {
				if sort >= from && (to == "" || sort <= to) {
					want = append(want, keys[sort])
				}
			}
			q.From, q.To = from, to
			for _, desc := range []bool{false, true} {
				q.Descending = desc
				for _, limit := range []int{0, 1, 3, len(sorts), 50} {
					q.Limit = limit
					c.pages(q, want)
				}
				slices.Reverse(want)
			}
		}
	}
}

// pages reads a query page by page, none longer than the limit.
func (c *check) pages(q op.Query, want []op.Key) {
	c.Helper()
	for try := range c.opts.Tries {
		if try > 0 && c.opts.Pause != nil {
			c.opts.Pause()
		}
		var got []op.Key
		for p, more := q, true; more; {
			page, err := c.table.Query(c.ctx(), p)
			if err != nil {
				c.Fatalf("query %+v: %v", p, err)
			}
			if q.Limit > 0 && len(page.Rows) > q.Limit {
				c.Fatalf("query %+v: a page of %d rows", p, len(page.Rows))
			}
			got = append(got, keysOf(page.Rows)...)
			p.Cursor, more = page.Cursor, page.Cursor != ""
		}
		if slices.Equal(got, want) {
			return
		}
		if try == c.opts.Tries-1 {
			c.Fatalf("query %+v: got %v, want %v", q, got, want)
		}
	}
}

package optest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

func concurrentCases() []Case {
	return []Case{
		{"parallel/limit", func(c *check) {
			// As a tenant's budget: everyone adds 3 up to a limit of 3 × limit.
			key := c.key("ledger")
			limit := int64(c.opts.Clients*c.opts.Rounds) / 2
			var accepted, refused, unknown atomic.Int64
			c.parallel(func(client, round int) {
				item, err := c.table.Write(c.ctx(), op.Write{Name: "add", Key: key, Action: op.Update,
					Cond: op.AtMost("work", 3*limit-3), Changes: []op.Change{op.Add("work", 3)}, Once: true})
				switch {
				case err == nil:
					accepted.Add(1)
					if item.Int("work") > 3*limit {
						c.Errorf("work is %d, the limit %d", item.Int("work"), 3*limit)
					}
				case op.FailedCond(err) != nil:
					refused.Add(1)
					if met, _ := op.FailedCond(err).On(0); met.Int("work") != 3*limit {
						c.Errorf("refused at %d below the limit %d", met.Int("work"), 3*limit)
					}
				case op.IsUnavailable(err):
					unknown.Add(1)
				default:
					c.Error(err)
				}
			})
			work := c.get(key).Int("work")
			if work > 3*limit || work < 3*accepted.Load() || work > 3*(accepted.Load()+unknown.Load()) {
				c.Fatalf("work %d after %d accepted, %d unknown; limit %d", work, accepted.Load(), unknown.Load(), 3*limit)
			}
			if unknown.Load() == 0 && (accepted.Load() != limit || refused.Load() == 0) {
				c.Fatalf("accepted %d of %d, refused %d", accepted.Load(), limit, refused.Load())
			}
		}},
		{"parallel/create-once", func(c *check) {
			var winners [64]atomic.Int64
			c.parallel(func(client, round int) {
				n := round % len(winners)
				_, err := c.table.Write(c.ctx(), op.Write{Name: "create", Key: c.in("one", fmt.Sprint(n)), Action: op.Put,
					Cond: op.ItemMissing, Item: op.Item{"client": op.N(int64(client))}})
				switch {
				case err == nil:
					winners[n].Add(1)
				case op.FailedCond(err) == nil:
					c.Error(err)
				}
			})
			for n := range min(c.opts.Rounds, len(winners)) {
				if winners[n].Load() != 1 {
					c.Errorf("item %d was created %d times", n, winners[n].Load())
				}
			}
		}},
		{"parallel/compare-and-swap", func(c *check) {
			key := c.key("cas")
			c.put(key, op.Item{"v": op.N(0)})
			var swaps atomic.Int64
			c.parallel(func(client, round int) {
				item, err := c.table.Get(c.ctx(), key, true)
				if err != nil {
					c.Error(err)
					return
				}
				v := item.Int("v")
				_, err = c.table.Write(c.ctx(), op.Write{Name: "swap", Key: key, Action: op.Update,
					Cond: op.Is("v", op.N(v)), Changes: []op.Change{op.SetN("v", v+1)}})
				switch {
				case err == nil:
					swaps.Add(1)
				case op.FailedCond(err) == nil:
					c.Error(err)
				}
			})
			if v := c.get(key).Int("v"); v != swaps.Load() || v == 0 {
				c.Fatalf("v is %d after %d swaps", v, swaps.Load())
			}
		}},
		{"parallel/transfer", func(c *check) {
			// The sum over accounts never changes, none goes below zero, and
			// every transfer leaves its record with the two sides or not at all.
			const accounts, start = 4, 20
			account := func(i int) op.Key { return c.in("account", fmt.Sprint(i%accounts)) }
			for i := range accounts {
				c.put(account(i), op.Item{"sum": op.N(start)})
			}
			var done, unknown atomic.Int64
			c.parallel(func(client, round int) {
				from, to, amount := client+round, client+round+1+round%(accounts-1), int64(1+(client+round)%7)
				err := c.table.Transact(c.ctx(), op.Tx{Name: "transfer", Writes: []op.Write{
					{Name: "from", Key: account(from), Action: op.Update, Cond: op.Cmp{Attr: "sum", Op: op.Ge, Value: op.N(amount)},
						Changes: []op.Change{op.Add("sum", -amount)}},
					{Name: "to", Key: account(to), Action: op.Update, Changes: []op.Change{op.Add("sum", amount)}},
					{Name: "record", Key: c.in("record", fmt.Sprintf("%d-%d", client, round)), Action: op.Put, Cond: op.ItemMissing,
						Item: op.Item{"from": op.N(int64(from % accounts)), "to": op.N(int64(to % accounts)), "amount": op.N(amount)}},
				}})
				switch {
				case err == nil:
					done.Add(1)
				case op.IsUnavailable(err): // conflicts without end
					unknown.Add(1)
				case op.FailedCond(err) == nil:
					c.Error(err)
				}
			})
			want := [accounts]int64{}
			for i := range want {
				want[i] = start
			}
			records := c.rows(op.Query{PK: c.prefix + "record", Consistent: true})
			for _, r := range records {
				want[r.Item.Int("from")] -= r.Item.Int("amount")
				want[r.Item.Int("to")] += r.Item.Int("amount")
			}
			total := int64(0)
			for i := range want {
				sum := c.get(account(i)).Int("sum")
				total += sum
				if sum != want[i] || sum < 0 {
					c.Errorf("account %d holds %d, its records say %d", i, sum, want[i])
				}
			}
			n := int64(len(records))
			if total != accounts*start || n < done.Load() || n > done.Load()+unknown.Load() || n == 0 {
				c.Fatalf("total %d, %d records, %d done, %d unknown", total, n, done.Load(), unknown.Load())
			}
		}},
	}
}

// parallel runs Clients goroutines of Rounds calls each.
func (c *check) parallel(call func(client, round int)) {
	var wg sync.WaitGroup
	for client := range c.opts.Clients {
		wg.Go(func() {
			for round := range c.opts.Rounds {
				call(client, round)
			}
		})
	}
	wg.Wait()
}

package simtest

import (
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// holds holds a task to something at this moment.
func (c *Client) holds(id, what string, is func(t *task.Task) bool) {
	c.w.post("expectation of "+c.name, func() {
		if t := c.w.model.tasks[taskop.RowKey(c.tenant, id)]; t == nil || !is(t) {
			c.w.violate("task %s is not %s: %+v", id, what, t)
		}
	})
	c.pause(time.Millisecond, time.Millisecond)
}

func begunAlready(t *task.Task) bool { return t.StartedMS > 0 }

func notBegun(t *task.Task) bool { return t.StartedMS == 0 }

func eligible(t *task.Task) bool { return !t.Held }

// unvisited is a script of one client for the first fifty seconds of which no aggregator runs: what
// happens is done by whoever was there.
func unvisited(tenant string, script func(c *Client)) func(w *World) {
	return func(w *World) {
		w.faults.WakeLost = 1
		w.schedule(50 * time.Second)
		w.client("c", tenant, script)
	}
}

// firstTakes makes the first call of a name take so long.
func firstTakes(name string, d time.Duration) func(*Call) time.Duration {
	n := 0
	return func(c *Call) time.Duration {
		if c.Name != name {
			return 0
		}
		if n++; n > 1 {
			return 0
		}
		return d
	}
}

// orderCases are directed runs of ordering keys, priorities and max_active.
func orderCases() []Case {
	brief := work{Do: "ok", MS: 300}
	second := func(first string) func(c *Client) {
		return func(c *Client) {
			wk := work{Do: first, MS: 300, N: 1}
			if first == "permanent" || first == "fail" {
				wk.N = 0
			}
			ids := chainOf(c, wk, work{Do: "ok", MS: 3000})
			c.pause(1500*time.Millisecond, 1500*time.Millisecond)
			c.holds(ids[1], "begun", begunAlready)
		}
	}
	return []Case{
		{
			Name: "the next of a key waits for a visit after a success", Script: unvisited("beta", second("ok")), Tight: true, Want: succeed(2),
		},
		{
			Name: "the next of a key waits for a visit after a failure", Script: unvisited("beta", second("permanent")), Tight: true,
			Want: map[task.State]int{task.Succeeded: 1, task.Failed: 1},
		},
		{
			Name: "the next of a key waits for a visit after a cancel",
			Script: unvisited("beta", func(c *Client) {
				fill(c, 3000)
				ids := chainOf(c, brief, brief, brief)
				c.cancel(ids[1]) // no head: changes nobody's turn
				c.holds(ids[2], "held", func(t *task.Task) bool { return t.Held })
				c.cancel(ids[0])
				c.holds(ids[2], "eligible", eligible)
			}),
			Tight: true, Want: map[task.State]int{task.Succeeded: 3, task.Cancelled: 2},
		},
		{
			Name: "the next of a key waits for a visit after an expiry that a worker found",
			Script: unvisited("beta", func(c *Client) {
				fill(c, 8000)
				sub := c.submission("plain", brief, "head")
				sub.OrderingKey, sub.DeadlineMS = "order", 9000
				c.insist(sub)
				next := c.keyed("late", work{Do: "ok", MS: 3000}, "next")
				c.pause(9*time.Second, 9*time.Second) // the slots came free, too late for the head
				c.holds(next, "eligible", eligible)
			}),
			Tight: true, Want: map[task.State]int{task.Succeeded: 3, task.Expired: 1},
		},
		{
			Name: "a turn that nobody passed on is never found",
			Script: func(w *World) {
				alone(1500*time.Millisecond, func(c *Client) { chainOf(c, brief, brief) })(w)
				w.dieAfter(task.Succeeded)
			},
			Want: succeed(2),
		},
		{
			Name: "a task of a key that is taken up again has its old place",
			Script: alone(time.Second, func(c *Client) {
				ids := chainOf(c, work{Do: "fail", N: 2, MS: 50}, work{Do: "ok", MS: 20_000}, brief)
				c.pause(10*time.Second, 10*time.Second)
				c.expect(ids[0], task.Quarantined)
				c.expect(ids[1], task.Running)
				c.retry(ids[0])
				c.holds(ids[0], "the last", func(t *task.Task) bool { return t.Held && t.Seq == 4 })
				c.holds(ids[2], "held", func(t *task.Task) bool { return t.Held })
			}),
			Tight: true, Want: succeed(3),
		},
		{
			Name: "a task that is taken up again before its turn was passed on holds up its key",
			Script: func(w *World) {
				w.when(func() bool { return w.model.ends[task.Quarantined] > 0 }, func() {
					w.killAll(Worker)
					w.killAll(Aggregator)
				})
				w.faults.WakeLost = 1
				w.schedule(700 * time.Millisecond)
				w.client("c", "beta", func(c *Client) {
					ids := chainOf(c, work{Do: "fail", N: 2, MS: 50}, work{Do: "ok", MS: 300})
					c.pause(20*time.Second, 20*time.Second)
					c.expect(ids[0], task.Quarantined)
					c.holds(ids[1], "held", func(t *task.Task) bool { return t.Held })
					c.retry(ids[0])
					c.holds(ids[0], "the last", func(t *task.Task) bool { return t.Held && t.Seq == 3 })
				})
			},
			Want: succeed(2),
		},
		{
			Name: "a task whose workers keep dying is tried for ever", Script: alone(time.Second, one("plain", work{Do: "die"})),
			Want: map[task.State]int{task.Quarantined: 1},
		},
		{
			Name: "a task that is taken up again late has a tag of long ago",
			Script: func(w *World) {
				w.schedule(time.Second)
				w.client("b", "beta", func(c *Client) {
					id, _ := c.insist(c.submission("plain", work{Do: "fail", N: 2, MS: 50}, ""))
					c.pause(20*time.Second, 20*time.Second)
					c.expect(id, task.Quarantined)
					c.retry(id)
					c.holds(id, "at the lane's virtual time", func(t *task.Task) bool { return t.Tag == c.w.model.lanes["plain"].Virtual && t.Tag >= 2500 })
				})
				w.client("a", "alpha", func(c *Client) {
					c.pause(10*time.Second, 10*time.Second)
					for range 3 {
						c.insist(c.submission("plain", work{Do: "ok", MS: 1250}, ""))
						c.pause(2*time.Second, 2*time.Second)
					}
				})
			},
			Tight: true, Want: succeed(4),
		},
		{
			Name: "a held task counts as one that could run",
			Script: alone(1500*time.Millisecond, func(c *Client) {
				chainOf(c, work{Do: "ok", MS: 8000}, brief, brief)
				c.pause(6*time.Second, 6*time.Second)
				c.w.post("expectation of "+c.name, func() {
					if l := c.w.model.lanes["plain"]; l.Ready != 0 || l.Parked != 2 {
						c.w.violate("two tasks are held, and the lane says %d ready and %d parked", l.Ready, l.Parked)
					}
				})
			}),
			Tight: true, Want: succeed(3),
		},
		{
			Name: "a hand-over that comes after a later task's takes a second slot",
			Script: alone(50*time.Second, func(c *Client) {
				fill(c, 1000)
				behindMore(c, 2)
			}),
			Takes: firstTakes("lane.hand_over", 150*time.Millisecond),
			Tight: true, Want: succeed(4),
		},
		{
			Name: "a tenant's own parked task goes before who came before it",
			Script: func(w *World) {
				w.faults.WakeLost = 1
				w.schedule(50 * time.Second)
				w.client("a", "alpha", func(c *Client) { // one attempt at a time
					c.insist(c.submission("late", work{Do: "ok", MS: 2000}, "a1"))
					c.pause(400*time.Millisecond, 400*time.Millisecond)
					parked, _ := c.insist(c.submission("late", work{Do: "ok", MS: 100}, "a2"))
					c.pause(time.Second, time.Second)
					c.holds(parked, "parked", func(t *task.Task) bool { return t.Parked })
					c.pause(1500*time.Millisecond, 1500*time.Millisecond)
					c.holds(parked, "waiting", notBegun)
				})
				w.client("b", "beta", func(c *Client) {
					c.insist(c.submission("late", work{Do: "ok", MS: 1000}, "b1"))
					c.pause(1500*time.Millisecond, 1500*time.Millisecond)
					c.insist(c.submission("late", work{Do: "ok", MS: 4000}, "b2"))
					id, _ := c.insist(c.submission("late", work{Do: "ok", MS: 3000}, "b3"))
					c.pause(time.Second, time.Second)
					c.holds(id, "begun", begunAlready)
				})
			},
			Tight: true, Want: succeed(5),
		},
		{
			Name: "a slot that is kept for low priority goes by the order",
			Script: alone(50*time.Second, func(c *Client) {
				for _, ms := range []int64{1000, 1400} { // not both slots at once: each worker goes by what it sees
					c.insist(c.submission("late", work{Do: "ok", MS: ms}, ""))
				}
				c.pause(300*time.Millisecond, 300*time.Millisecond)
				high := []string{c.urged("late", "high", work{Do: "ok", MS: 2000}, ""), c.urged("late", "high", work{Do: "ok", MS: 2000}, "")}
				low := []string{c.urged("late", "low", work{Do: "ok", MS: 1500}, ""), c.urged("late", "low", work{Do: "ok", MS: 1500}, "")}
				c.pause(1500*time.Millisecond, 1500*time.Millisecond) // one slot each
				c.holds(low[0], "begun", begunAlready)
				c.holds(low[1], "waiting", notBegun)
				c.holds(high[0], "begun", begunAlready)
				c.holds(high[1], "waiting", notBegun)
				c.pause(1000*time.Millisecond, 1000*time.Millisecond) // low passes its own slot on to low
				c.holds(low[1], "begun", begunAlready)
			}),
			Tight: true, Want: succeed(6),
		},
		{
			Name: "a slot that is kept for low priority is released by the order",
			Script: func(w *World) {
				alone(1500*time.Millisecond, func(c *Client) {
					fill(c, 1000)
					high := []string{c.urged("late", "high", work{Do: "ok", MS: 9000}, ""), c.urged("late", "high", work{Do: "ok", MS: 9000}, "")}
					low := []string{c.urged("late", "low", work{Do: "ok", MS: 9000}, ""), c.urged("late", "low", work{Do: "ok", MS: 9000}, "")}
					c.pause(14*time.Second, 14*time.Second)
					c.holds(low[0], "begun", begunAlready)
					c.holds(low[1], "waiting", notBegun)
					c.holds(high[0], "begun", begunAlready)
					c.holds(high[1], "waiting", notBegun)
				})(w)
				w.when(func() bool { return w.model.ends[task.Succeeded] == 2 }, func() { w.killAll(Worker) })
			},
			Want: succeed(6),
		},
		{
			Name: "slots that nobody else wants are not lent to low priority",
			Script: func(w *World) {
				alone(1500*time.Millisecond, func(c *Client) {
					fill(c, 1000)
					var low []string
					for range 2 {
						low = append(low, c.urged("late", "low", work{Do: "ok", MS: 9000}, ""))
					}
					c.pause(14*time.Second, 14*time.Second)
					c.holds(low[0], "begun", begunAlready)
					c.holds(low[1], "begun", begunAlready)
				})(w)
				w.when(func() bool { return w.model.ends[task.Succeeded] == 2 }, func() { w.killAll(Worker) })
			},
			Want: succeed(4),
		},
		{
			Name: "who waits for a place among the tenant's own attempts waits for a tick",
			Script: unvisited("alpha", func(c *Client) { // one attempt at a time
				c.insist(c.submission("late", work{Do: "ok", MS: 1000}, "a"))
				c.pause(300*time.Millisecond, 300*time.Millisecond)
				next := []string{}
				for range 2 {
					id, _ := c.insist(c.submission("late", work{Do: "ok", MS: 500}, ""))
					next = append(next, id)
				}
				c.pause(400*time.Millisecond, 400*time.Millisecond)
				c.holds(next[0], "parked", func(t *task.Task) bool { return t.Parked && !t.Held })
				c.pause(2*time.Second, 2*time.Second)
				for _, id := range next {
					c.expect(id, task.Succeeded)
				}
			}),
			Tight: true, Want: succeed(3),
		},
		{
			Name: "parked tasks whose tenant has room again are forgotten",
			Script: func(w *World) {
				w.schedule(1500 * time.Millisecond)
				w.client("c", "alpha", func(c *Client) {
					c.insist(c.submission("late", work{Do: "ok", MS: 1000}, "a"))
					c.pause(300*time.Millisecond, 300*time.Millisecond)
					id, _ := c.insist(c.submission("late", work{Do: "ok"}, ""))
					c.pause(500*time.Millisecond, 500*time.Millisecond)
					c.holds(id, "parked", func(t *task.Task) bool { return t.Parked })
					c.pause(6*time.Second, 6*time.Second)
					c.expect(id, task.Succeeded)
				})
				w.dieAfter(task.Succeeded) // nobody hands over
			},
			Want: succeed(2),
		},
	}
}

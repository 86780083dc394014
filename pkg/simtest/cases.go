package simtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// Case is one directed run: a script, and what becomes of certain calls. Each
// is named after a symptom that was once seen.
type Case struct {
	Name   string
	Script func(w *World)
	Fates  []CallFate
	Takes  func(*Call) time.Duration
	Loose  bool               // the script tampers with a lane: not held strictly
	Tight  bool               // no more open tasks than slots
	Want   map[task.State]int // how its tasks must end; nil: any way
}

// CallFate is the fate of the n-th call (from 1) of an operation.
type CallFate struct {
	Call string
	N    int
	Fate Fate
}

// Options are those of the case's run.
func (c Case) Options() Options {
	seen := map[string]int{}
	return Options{Seed: 1, Strict: !c.Loose, Tight: c.Tight, Takes: c.Takes, Plan: func(call *Call) Fate {
		seen[call.Name]++
		for _, f := range c.Fates {
			if f.Call == call.Name && f.N == seen[call.Name] {
				return f.Fate
			}
		}
		return Fine
	}}
}

// Broken says what of a result is not as the case wants it.
func (c Case) Broken(res Result) []string {
	out := res.Violations
	for state, n := range c.Want {
		if res.Ends[state] != n {
			out = append(out, fmt.Sprintf("%d tasks are %s, want %d", res.Ends[state], state, n))
		}
	}
	if res.Accepted == 0 && res.Unavailable == 0 {
		out = append(out, "nothing was submitted")
	}
	return out
}

// tamper changes a lane item at a time.
func tamper(w *World, at time.Duration, lane string, changes ...op.Change) {
	w.after(at, func() {
		w.note("tampering with lane %s", lane)
		w.put(op.Write{Name: "tamper", Key: taskop.LaneKey(lane), Action: op.Update, Changes: changes})
	})
}

// put writes by the hand of the world.
func (w *World) put(wr op.Write) {
	if _, err := w.table.Write(context.Background(), wr); err != nil {
		w.violate("%s: %v", wr.Name, err)
	}
}

// Cases lists the directed runs.
func Cases() []Case { return slices.Concat(deadCases(), cases(), orderCases(), operatorCases()) }

func cases() []Case {
	return []Case{
		{
			Name: "work without faults does not end as it should",
			Script: alone(time.Second, func(c *Client) {
				for i, do := range []string{"ok", "continue", "fail", "permanent", "panic"} {
					wk := work{Do: do, MS: 10, N: 1}
					if do == "permanent" {
						wk.N = 0
					}
					c.insist(c.submission("plain", wk, fmt.Sprint("key", i)))
				}
			}),
			Tight: true,
			Want:  map[task.State]int{task.Succeeded: 4, task.Failed: 1},
		},
		{
			Name: "a retry whose row was due before its time comes early",
			Script: alone(time.Second, func(c *Client) {
				for i := range 40 { // due for a second message at 2 s, failed just before
					c.insist(c.submission("plain", work{Do: "fail", MS: 1700 + 20*int64(i%10), N: 1}, fmt.Sprint("key", i)))
					c.pause(2170*time.Millisecond, 2170*time.Millisecond)
				}
			}),
			Want: map[task.State]int{task.Succeeded: 40},
		},
		{
			Name: "a quarantined task that is retried does not go on",
			Script: alone(time.Second, func(c *Client) {
				for _, class := range []string{"quick", "plain"} {
					id, _ := c.insist(c.submission(class, work{Do: "fail", N: 3}, ""))
					c.pause(15*time.Second, 15*time.Second)
					c.retry(id)
					c.pause(5*time.Second, 5*time.Second)
				}
			}),
			Tight: true,
			Want:  map[task.State]int{task.Succeeded: 2},
		},
		{
			Name: "tasks of one ordering key overtake each other",
			Script: alone(time.Second, func(c *Client) {
				for i, do := range []string{"ok", "fail", "permanent", "ok", "continue"} {
					sub := c.submission("plain", work{Do: do, MS: 300, N: 1}, fmt.Sprint("key", i))
					sub.OrderingKey = "order"
					c.insist(sub)
				}
			}),
			Tight: true,
			Want:  map[task.State]int{task.Succeeded: 4, task.Failed: 1},
		},
		{
			Name: "a task that cannot start in time is found out only when a slot is free",
			Script: alone(time.Second, func(c *Client) {
				fill(c, 39_000)
				sub := c.submission("plain", work{Do: "ok"}, "key")
				sub.DeadlineMS = 12_000
				id, _ := c.insist(sub)
				c.pause(15*time.Second, 15*time.Second)
				c.expect(id, task.Expired)
			}),
		},
		{
			Name:   "the slot of a submission that is still being accepted is taken away",
			Script: alone(time.Second, one("quick", work{Do: "ok", MS: 2000})),
			Takes: func(c *Call) time.Duration {
				if c.Name == "accept" {
					return 3 * time.Second
				}
				return 0
			},
		},
		{
			Name: "a late copy of the first lane's message claims in the retry lane",
			Script: func(w *World) {
				alone(time.Second, func(c *Client) {
					c.insist(c.submission("quick", work{Do: "fail", N: 1}, ""))
					c.pause(20*time.Second, 20*time.Second)
				})(w)
				w.faults.EarlyVisible, w.faults.DeleteFails = 1, 1
			},
			Takes: func(c *Call) time.Duration {
				if c.In.Lane == "retry" && c.Name == "get" {
					return 15 * time.Second
				}
				return 0
			},
		},
		{
			Name: "a message that comes late starts what cannot finish in time",
			Script: func(w *World) {
				w.faults.WakeLost = 1
				alone(time.Minute, func(c *Client) {
					sub := c.submission("quick", work{Do: "ok"}, "")
					sub.DeadlineMS = 3500
					c.submit(sub)
				})(w)
			},
			Takes: func(c *Call) time.Duration {
				if c.In.Function == Worker && c.Name == "get" {
					return 5 * time.Second
				}
				return 0
			},
			Want: map[task.State]int{task.Expired: 1},
		},
		{
			Name:   "a hand-over whose answer is lost uncounts another waiting task",
			Script: alone(50*time.Second, func(c *Client) { behind("plain", work{Do: "ok", MS: 100}, 1000, 0)(c); behindMore(c, 2) }),
			Fates:  []CallFate{{"lane.hand_over", 1, AppliedLost}},
		},
		{
			Name: "waiting tasks that the lane does not count wait for ever",
			Script: func(w *World) {
				alone(time.Second, func(c *Client) { behind("late", work{Do: "ok"}, 5000, 0)(c); behindMore(c, 1) })(w)
				tamper(w, 2*time.Second, "plain", op.SetN("ready", 0), op.SetN("work", 0))
			},
			Loose: true,
		},
		{
			Name: "parked tasks that the lane does not count wait for ever",
			Script: func(w *World) {
				w.schedule(time.Second)
				w.client("c", "alpha", func(c *Client) {
					c.insist(c.submission("plain", work{Do: "ok", MS: 20_000}, "a"))
					c.insist(c.submission("late", work{Do: "ok"}, "b"))
				})
				tamper(w, 8*time.Second, "plain", op.SetN("ready", 0), op.SetN("parked", 0), op.SetN("work", 0))
			},
			Loose: true,
		},
		{
			Name: "a slot taken by a first try stays taken when the second try has to wait",
			Script: alone(time.Second, func(c *Client) {
				sub := c.submission("plain", work{Do: "ok", MS: 100}, "key")
				c.submit(sub)
				fill(c, 2500)
				c.insist(sub)
			}),
			Fates: []CallFate{{"lane.enter_slot", 1, AppliedError}},
		},
		{
			Name:   "a continued task waits uncounted",
			Script: alone(time.Second, one("plain", work{Do: "continue", N: 2})),
			Fates:  []CallFate{{"lane.go_on", 1, Lost}},
		},
		{
			Name:   "a continued task whose start the lane was not told loses its slot",
			Script: alone(time.Minute, one("plain", work{Do: "continue", N: 2})),
			Fates:  []CallFate{{"lane.begin_run", 1, Throttle}},
		},
		{
			Name: "a cancel uncounts a task whose release stopped half-way once more",
			Script: alone(3*time.Second, func(c *Client) {
				fill(c, 1000)
				id, _ := c.submit(c.submission("late", work{Do: "ok", MS: 3000}, ""))
				behindMore(c, 1)
				c.pause(9*time.Second, 9*time.Second)
				c.cancel(id)
			}),
			Fates: []CallFate{{"finish_succeed", 1, KillAfter}, {"finish_succeed", 2, KillAfter}, {"release.row", 1, Lost}},
		},
		{
			Name: "the check gives away a slot that is just being handed over",
			Script: alone(time.Second, func(c *Client) {
				fill(c, 7000)
				behindMore(c, 6)
			}),
			Tight: true,
			Takes: func(c *Call) time.Duration { // the worker's calls between two ticks
				if c.In.Function == Worker && (c.Name == "query" || c.Name == "hand_over" || c.Name == "lane.hand_over") {
					return 1500 * time.Millisecond
				}
				return 0
			},
		},
		{
			Name: "a queued task whose message is lost is never sent again",
			Script: func(w *World) {
				w.faults.MessageLost = 1
				w.after(3*time.Second, func() { w.faults.MessageLost = 0 })
				alone(time.Second, one("quick", work{Do: "ok"}))(w)
			},
		},
		{
			Name: "a submission whose message cannot be sent leaves a row",
			Script: alone(time.Second, func(c *Client) {
				c.submit(c.submission("quick", work{Do: "ok"}, ""))
			}),
			Fates: []CallFate{{"send", 1, Lost}, {"send", 2, Lost}},
		},
		{
			Name:   "a worker that was paused for longer than its lease writes its end",
			Script: alone(20*time.Second, one("plain", work{Do: "ok", MS: 100})),
			Fates:  []CallFate{{"finish_succeed", 1, FreezeBefore}},
		},
		{
			Name: "a twin's answer names a task that is withdrawn",
			Script: func(w *World) {
				w.schedule(time.Second)
				for _, name := range []string{"c1", "c2"} {
					w.client(name, "beta", func(c *Client) { c.submit(c.submission("quick", work{Do: "ok"}, "key")) })
				}
			},
			Fates: []CallFate{{"send", 1, Lost}, {"send", 2, Lost}},
			Takes: func(c *Call) time.Duration {
				if c.Name == "send" {
					return 50 * time.Millisecond
				}
				return 0
			},
		},
	}
}

// behindMore submits tasks that have to wait.
func behindMore(c *Client, n int) {
	for range n {
		c.submit(c.submission("late", work{Do: "ok", MS: 200}, ""))
	}
}

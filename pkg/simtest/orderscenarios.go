package simtest

import (
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// when does something as soon as a condition holds, within a minute.
func (w *World) when(holds func() bool, do func()) {
	until := w.now().Add(time.Minute)
	var look func()
	look = func() {
		switch {
		case holds():
			do()
		case w.now().Before(until):
			w.after(time.Millisecond, look)
		}
	}
	look()
}

// dieAfter kills the workers as soon as a task has come to a state: whoever brought it there goes no further.
func (w *World) dieAfter(state task.State) {
	w.when(func() bool { return w.model.ends[state] > 0 }, func() { w.killAll(Worker) })
}

func succeed(n int) map[task.State]int { return map[task.State]int{task.Succeeded: n} }

// keyed is a submission with the ordering key that the scenarios use.
func (c *Client) keyed(class string, wk work, idempotencyKey string) (id string) {
	sub := c.submission(class, wk, idempotencyKey)
	sub.OrderingKey = "order"
	id, _ = c.insist(sub)
	return id
}

// urged is a submission with a priority.
func (c *Client) urged(class, priority string, wk work, idempotencyKey string) (id string) {
	sub := c.submission(class, wk, idempotencyKey)
	sub.Priority = priority
	id, _ = c.insist(sub)
	return id
}

// insistOnCancel cancels until there is an answer.
func (c *Client) insistOnCancel(id string) {
	for range 20 {
		if code := c.cancel(id); code != gatewayError && code != "unavailable" {
			return
		}
		c.pause(time.Second, time.Second)
	}
}

// chainOf submits tasks of one key, behind both slots of the lane plain if those are taken.
func chainOf(c *Client, tasks ...work) (ids []string) {
	for i, wk := range tasks {
		ids = append(ids, c.keyed("plain", wk, string(rune('a'+i))))
	}
	return ids
}

// orderScenarios lists what `make crash` enumerates of ordering keys and low priority.
func orderScenarios() []Scenario {
	ok, brief := work{Do: "ok"}, work{Do: "ok", MS: 300}
	workerOrAggregator := func(w *World, c *Call) bool { return c.In.Function == Aggregator || begun(true)(w, c) }
	return []Scenario{
		{Name: "order_submit_first", Script: alone(time.Second, func(c *Client) { chainOf(c, ok) }), Victim: of(Admission), Want: succeed(1)},
		{Name: "order_submit_second", Script: alone(time.Second, func(c *Client) {
			chainOf(c, work{Do: "ok", MS: 1500})
			c.enter("behind")
			c.keyed("plain", ok, "second")
		}), Victim: during(Admission, "behind"), Pairs: true, Want: succeed(2)},
		{Name: "order_submit_third_behind_the_dead", Script: alone(10*time.Second, func(c *Client) {
			ids := chainOf(c, work{Do: "ok", MS: 400}, brief)
			c.pause(200*time.Millisecond, 200*time.Millisecond)
			c.enter("behind") // the head ends meanwhile
			c.insistOnCancel(ids[1])
			c.keyed("plain", ok, "third")
		}), Victim: during(Admission, "behind"), Want: map[task.State]int{task.Succeeded: 2, task.Cancelled: 1}},
		{Name: "order_end", Script: alone(30*time.Second, func(c *Client) { chainOf(c, brief, brief, brief) }), Victim: begun(true), Want: succeed(3)},
		{Name: "order_hand_over", Script: alone(30*time.Second, func(c *Client) {
			fill(c, 1500)
			chainOf(c, brief, brief)
			behindMore(c, 1)
		}), Victim: begun(true), Want: succeed(5)},
		{Name: "order_visit", Script: func(w *World) {
			alone(1500*time.Millisecond, func(c *Client) { chainOf(c, brief, brief, brief) })(w)
			w.dieAfter(task.Succeeded)
		}, Victim: of(Aggregator), All: true, Want: succeed(3)},
		{Name: "order_cancel_head", Script: alone(10*time.Second, func(c *Client) {
			fill(c, 3000)
			ids := chainOf(c, brief, brief)
			c.enter("cancel")
			c.insistOnCancel(ids[0])
		}), Victim: during(Admission, "cancel"), Want: map[task.State]int{task.Succeeded: 3, task.Cancelled: 1}},
		{Name: "order_cancel_middle", Script: alone(10*time.Second, func(c *Client) {
			ids := chainOf(c, work{Do: "ok", MS: 1500}, brief, brief)
			c.enter("cancel")
			c.insistOnCancel(ids[1])
		}), Victim: during(Admission, "cancel"), Want: map[task.State]int{task.Succeeded: 2, task.Cancelled: 1}},
		{Name: "order_expire", Script: alone(6*time.Second, func(c *Client) {
			fill(c, 8000)
			sub := c.submission("plain", ok, "head")
			sub.OrderingKey, sub.DeadlineMS = "order", 9_000
			c.insist(sub)
			c.keyed("late", ok, "second")
		}), Victim: of(Aggregator), All: true, Want: map[task.State]int{task.Succeeded: 3, task.Expired: 1}},
		{Name: "order_retry", Script: alone(700*time.Millisecond, func(c *Client) { chainOf(c, work{Do: "fail", N: 1}, brief) }), Victim: workerOrAggregator, All: true, Want: succeed(2)},
		{Name: "order_continue", Script: alone(30*time.Second, func(c *Client) { chainOf(c, work{Do: "continue", N: 2, MS: 100}, brief) }), Victim: begun(true), Want: succeed(2)},
		{Name: "order_quarantine", Script: alone(time.Second, func(c *Client) { chainOf(c, work{Do: "fail"}, brief) }), Victim: begun(true), Want: map[task.State]int{task.Succeeded: 1, task.Quarantined: 1}},
		{Name: "order_retry_by_tenant", Script: alone(time.Second, func(c *Client) {
			ids := chainOf(c, work{Do: "fail", N: 2}, work{Do: "ok", MS: 20_000})
			c.pause(12*time.Second, 12*time.Second) // the head is in quarantine, the second runs
			c.enter("again")
			for range 3 {
				c.retry(ids[0])
				c.pause(time.Second, time.Second)
			}
		}), Victim: during(Admission, "again"), Want: succeed(2)},
		{Name: "low_hand_over", Script: alone(30*time.Second, func(c *Client) {
			fill(c, 1000)
			behindMore(c, 1)
			c.urged("late", "low", brief, "low")
			c.urged("late", "high", brief, "high")
		}), Victim: begun(true), Want: succeed(5)},
		{Name: "low_release", Script: func(w *World) {
			alone(3*time.Second, func(c *Client) {
				fill(c, 1000)
				behindMore(c, 1)
				c.urged("late", "low", brief, "low")
				c.urged("late", "high", brief, "high")
			})(w)
			// Nobody hands over: the workers die while the attempts end.
			w.when(func() bool { return w.model.ends[task.Succeeded] == 2 }, func() { w.killAll(Worker) })
		}, Victim: of(Aggregator), All: true, Want: succeed(5)},
	}
}

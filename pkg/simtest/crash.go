package simtest

import (
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// Scenario is a short piece of work whose every outside call is a place to
// crash.
type Scenario struct {
	Name string
	// Script plays it. A client repeats what got no definite answer.
	Script func(w *World)
	// Victim says whether an instance may be killed at this call.
	Victim func(w *World, c *Call) bool
	// Pairs also tries all pairs of crashes.
	Pairs bool
	// Aggregator's calls all go by the scheduler.
	All bool
	// Want is how its tasks end where nobody dies; nil: any way.
	Want map[task.State]int
}

func of(function string) func(*World, *Call) bool {
	return func(_ *World, c *Call) bool { return c.In.Function == function }
}

func during(function, phase string) func(*World, *Call) bool {
	return func(w *World, c *Call) bool { return c.In.Function == function && w.phase == phase }
}

// begun says whether any handler has begun (want) or not yet.
func begun(want bool) func(*World, *Call) bool {
	return func(w *World, c *Call) bool {
		if c.In.Function != Worker {
			return false
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.model.journal) > 0 == want
	}
}

// alone is a script of one client of the large tenant; the schedule's first run
// comes after a time.
func alone(first time.Duration, script func(c *Client)) func(w *World) {
	return func(w *World) {
		w.schedule(first)
		w.client("c", "beta", script)
	}
}

// fill takes both slots of the lane plain for a time.
func fill(c *Client, ms int64) {
	for range 2 {
		c.insist(c.submission("late", work{Do: "ok", MS: ms}, ""))
	}
	c.pause(300*time.Millisecond, 300*time.Millisecond) // until both run
}

// submitCancel submits, waits and cancels until there is an answer.
func submitCancel(c *Client, class string, wk work, after time.Duration) {
	id, _ := c.insist(c.submission(class, wk, "key"))
	c.pause(after, after)
	c.enter("cancel")
	for range 20 {
		if code := c.cancel(id); code != gatewayError && code != "unavailable" {
			break
		}
		c.pause(time.Second, time.Second)
	}
}

func one(class string, wk work) func(c *Client) {
	return func(c *Client) { c.insist(c.submission(class, wk, "key")) }
}

func behind(class string, wk work, ms, deadlineMS int64) func(c *Client) {
	return func(c *Client) {
		fill(c, ms)
		c.enter("behind")
		sub := c.submission(class, wk, "key")
		sub.DeadlineMS = deadlineMS
		c.insist(sub)
	}
}

// Scenarios lists what `make crash` enumerates.
func Scenarios() []Scenario {
	return slices.Concat(orderScenarios(), operatorScenarios(), []Scenario{
		{Name: "submit", Script: alone(time.Second, one("quick", work{Do: "ok"})), Victim: of(Admission), Pairs: true},
		{Name: "submit_large_payload", Script: alone(time.Second, func(c *Client) {
			sub := c.submission("quick", work{Do: "ok"}, "key")
			sub.Payload = sub.Payload[:1] + longField + sub.Payload[1:]
			c.insist(sub)
		}), Victim: of(Admission)},
		{Name: "submit_waiting", Script: alone(time.Second, behind("plain", work{Do: "ok"}, 2000, 0)), Victim: during(Admission, "behind"), Pairs: true},
		{Name: "claim", Script: alone(time.Second, one("quick", work{Do: "ok"})), Victim: begun(false), Pairs: true},
		{Name: "complete", Script: alone(time.Second, one("quick", work{Do: "ok"})), Victim: begun(true), Pairs: true},
		{Name: "heartbeat", Script: alone(time.Minute, one("plain", work{Do: "ok", MS: 39_000})), Victim: of(Worker)},
		{Name: "fail", Script: alone(time.Second, one("quick", work{Do: "permanent"})), Victim: begun(true)},
		{Name: "retry", Script: alone(time.Second, one("quick", work{Do: "fail", N: 1})), Victim: begun(true)},
		{Name: "quarantine", Script: alone(time.Second, one("plain", work{Do: "fail"})), Victim: begun(true)},
		{Name: "continue", Script: alone(time.Second, one("plain", work{Do: "continue", N: 2})), Victim: begun(true)},
		{Name: "hand_over", Script: alone(30*time.Second, behind("plain", work{Do: "ok"}, 1000, 0)), Victim: begun(true)},
		{Name: "cancel_queued", Script: alone(10*time.Second, func(c *Client) { submitCancel(c, "quick", work{Do: "ok"}, 0) }), Victim: during(Admission, "cancel")},
		{Name: "cancel_running", Script: alone(10*time.Second, func(c *Client) { submitCancel(c, "plain", work{Do: "ok", MS: 30_000}, 500*time.Millisecond) }),
			Victim: during(Admission, "cancel")},
		{Name: "cancel_waiting", Script: alone(10*time.Second, func(c *Client) {
			fill(c, 3000)
			submitCancel(c, "plain", work{Do: "ok"}, 0)
		}), Victim: during(Admission, "cancel")},
		{Name: "cancel_retry_wait", Script: alone(10*time.Second, func(c *Client) { submitCancel(c, "plain", work{Do: "fail"}, 500*time.Millisecond) }),
			Victim: during(Admission, "cancel")},
		{Name: "cancel_seen_by_worker", Script: alone(time.Minute, func(c *Client) { submitCancel(c, "plain", work{Do: "ok", MS: 30_000}, 500*time.Millisecond) }),
			Victim: begun(true)},
		{Name: "expire", Script: alone(6*time.Second, behind("plain", work{Do: "ok"}, 8000, 9_000)), Victim: of(Aggregator), All: true, Want: map[task.State]int{task.Succeeded: 2, task.Expired: 1}},
		{Name: "release", Script: func(w *World) {
			alone(3*time.Second, func(c *Client) {
				fill(c, 1000)
				c.submit(c.submission("plain", work{Do: "ok"}, ""))
				c.enter("behind")
			})(w)
			// The workers die at the end of their attempts, so nobody hands over.
			w.at(w.start.Add(1800*time.Millisecond), func() { w.killAll(Worker) })
		}, Victim: of(Aggregator), All: true},
		{Name: "due", Script: alone(700*time.Millisecond, one("quick", work{Do: "fail", N: 1})), Victim: of(Aggregator), All: true},
		{Name: "lost_worker", Script: alone(37*time.Second, one("plain", work{Do: "die", N: 1})), Victim: of(Aggregator), All: true},
		{Name: "resend", Script: func(w *World) {
			w.schedule(4 * time.Second)
			w.faults.MessageLost = 1
			w.after(3*time.Second, func() { w.faults.MessageLost = 0 })
			w.client("c", "beta", one("quick", work{Do: "ok"}))
		}, Victim: of(Aggregator), All: true},
		{Name: "redrive", Script: undeliverable(given), Victim: of(Redrive), All: true},
		{Name: "park", Script: func(w *World) {
			w.schedule(1500 * time.Millisecond)
			w.client("c", "alpha", func(c *Client) { // one attempt at a time
				c.insist(c.submission("plain", work{Do: "ok", MS: 3000}, "a"))
				c.pause(300*time.Millisecond, 300*time.Millisecond)
				c.insist(c.submission("plain", work{Do: "ok"}, "b"))
				c.insist(c.submission("late", work{Do: "ok"}, "c"))
			})
		}, Victim: func(w *World, c *Call) bool { return c.In.Function == Aggregator || begun(true)(w, c) }, All: true},
		{Name: "takeover", Script: func(w *World) {
			alone(100*time.Millisecond, behind("plain", work{Do: "ok"}, 2500, 0))(w)
			w.after(1200*time.Millisecond, func() { w.runAggregator(true) })
		}, Victim: of(Aggregator), All: true},
	})
}

const longField = `"pad":"` + "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" +
	"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" + `",`

// killAll kills the instances of a function.
func (w *World) killAll(function string) {
	for _, in := range w.instances {
		if in.Function == function {
			w.kill(in)
		}
	}
}

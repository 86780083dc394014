package simtest

import (
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/queue"
	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// given plays one task that cannot be delivered for a minute, and that its
// client takes up again later.
func given(c *Client) {
	id, _ := c.insist(c.submission("quick", work{Do: "ok"}, "key"))
	c.pause(62*time.Second, 62*time.Second)
	c.enter("retry")
	c.retry(id)
}

// undeliverable lets a lane's workers not start for a minute, from the
// beginning, with a body among its messages that nobody can read.
func undeliverable(script func(c *Client)) func(w *World) {
	return func(w *World) {
		alone(time.Second, script)(w)
		w.queues["quick"].down(time.Minute)
		w.queues["quick"].inject(garbage[1])
	}
}

// buryCopy buries a wake-up of the only task, sent so long ago, for its
// generation or an earlier one.
func buryCopy(w *World, at, sentAgo time.Duration, lane string, earlier int64) {
	w.after(at, func() {
		for _, t := range w.model.tasks {
			old := *t
			old.Gen -= earlier
			w.queues[lane].bury(&message{id: "copy", body: queue.Wakeup(&old).Body, sent: w.now().Add(-sentAgo)})
		}
	})
}

// deadCases are the directed runs about dead letters.
func deadCases() []Case {
	return []Case{
		{
			Name: "a task that cannot be delivered is never given up",
			Script: undeliverable(func(c *Client) {
				id, _ := c.insist(c.submission("quick", work{Do: "ok"}, "key"))
				c.pause(55*time.Second, 55*time.Second)
				c.expect(id, task.Quarantined)
			}),
			Tight: true,
			Want:  map[task.State]int{task.Quarantined: 1},
		},
		{
			Name:   "a task that was given up cannot be taken up again",
			Script: undeliverable(given),
			Tight:  true,
			Want:   map[task.State]int{task.Succeeded: 1},
		},
		{
			Name: "a dead wake-up that is delivered again counts again",
			Script: func(w *World) {
				alone(30*time.Second, one("quick", work{Do: "ok"}))(w)
				w.queues["quick"].down(25 * time.Second)
				w.faults.WakeLost, w.faults.EarlyVisible, w.faults.DeleteFails = 1, 1, 1
				w.client("waits", "beta", func(c *Client) { c.pause(28*time.Second, 28*time.Second) })
			},
			Want: map[task.State]int{task.Succeeded: 1},
		},
		{
			Name: "a copy from before the last count counts",
			Script: func(w *World) {
				alone(time.Minute, one("quick", work{Do: "ok"}))(w)
				w.queues["quick"].down(20 * time.Second)
				w.faults.WakeLost, w.faults.MessageLost = 1, 1
				for i := range 5 {
					buryCopy(w, 500*time.Millisecond+time.Duration(i)*2*time.Second, time.Duration(i)*2*time.Second, "quick", 0)
				}
				w.client("waits", "beta", func(c *Client) { c.pause(20*time.Second, 20*time.Second) })
			},
			Want: map[task.State]int{task.Succeeded: 1},
		},
		{
			Name: "a dead letter of an earlier generation counts against a retry",
			Script: func(w *World) {
				alone(time.Second, one("quick", work{Do: "fail", N: 1}))(w)
				w.queues["retry"].down(20 * time.Second)
				for i := range 3 {
					buryCopy(w, 4*time.Second+time.Duration(i)*time.Second, 0, "quick", 1)
				}
				w.client("waits", "beta", func(c *Client) { c.pause(20*time.Second, 20*time.Second) })
			},
		},
		{
			Name: "a dead letter of a task that runs or has ended counts",
			Script: func(w *World) {
				alone(time.Second, one("plain", work{Do: "ok", MS: 5000}))(w)
				for _, at := range []time.Duration{2 * time.Second, 3 * time.Second, 10 * time.Second} {
					buryCopy(w, at, 0, "plain", 1)
					buryCopy(w, at, 0, "plain", 0)
				}
				w.client("waits", "beta", func(c *Client) { c.pause(15*time.Second, 15*time.Second) })
			},
			Want: map[task.State]int{task.Succeeded: 1},
		},
		{
			Name: "moving old messages back by hand runs a task twice",
			Script: func(w *World) {
				alone(time.Second, func(c *Client) {
					c.insist(c.submission("quick", work{Do: "ok"}, "key"))
					c.pause(40*time.Second, 40*time.Second)
				})(w)
				w.queues["quick"].down(6 * time.Second)
				for i := range 8 {
					w.after(time.Duration(3+4*i)*time.Second, w.queues["quick"].moveBack)
				}
			},
			Want: map[task.State]int{task.Succeeded: 1},
		},
		{
			Name: "an unreadable body is lost when the store fails",
			Script: func(w *World) {
				alone(time.Second, one("quick", work{Do: "ok"}))(w)
				w.queues["quick"].inject(garbage[0])
			},
			Fates: []CallFate{{"park_body", 1, Throttle}, {"park_body", 2, AppliedError}},
		},
		{
			Name: "what nobody can read is in the way of others, or is lost, or is kept twice",
			Script: func(w *World) {
				alone(time.Second, func(c *Client) {
					c.pause(200*time.Millisecond, 200*time.Millisecond)
					id, _ := c.insist(c.submission("quick", work{Do: "ok"}, "key"))
					c.pause(3*time.Second, 3*time.Second)
					c.expect(id, task.Succeeded)
				})(w)
				for _, lane := range []string{"quick", "quick", "retry"} {
					for _, body := range garbage {
						w.queues[lane].inject(body)
					}
				}
			},
		},
	}
}

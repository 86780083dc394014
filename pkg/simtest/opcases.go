package simtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// with is a script of one who is a client of the large tenant and the operator.
func with(first time.Duration, script func(a *admin)) func(w *World) {
	return alone(first, func(c *Client) { script(&admin{Client: c}) })
}

// demand holds something to be so at this moment.
func (a *admin) demand(what string, is func(w *World) bool) {
	a.w.post("demand of "+a.name, func() {
		if !is(a.w) {
			a.w.violate("not so: %s", what)
		}
	})
	a.pause(time.Millisecond, time.Millisecond)
}

// told holds what a submission was told to what it should be.
func (a *admin) told(what string, code, want events.Code) {
	a.demand(what+" is answered with "+string(want)+", not "+string(code), func(*World) bool { return code == want })
}

// inQuarantine gets tasks into quarantine.
func (a *admin) inQuarantine(n int) (ids []string) {
	for range n {
		id, _ := a.insist(a.submission("plain", work{Do: "fail", N: 2, MS: 10}, ""))
		ids = append(ids, id)
		a.pause(50*time.Millisecond, 50*time.Millisecond)
	}
	for range 60 {
		var left bool
		a.look(func(*operations) { left = a.w.model.ends[task.Quarantined] < n })
		if !left {
			break
		}
		a.pause(time.Second, time.Second)
	}
	return ids
}

// replayed starts a replay and waits for its end.
func (a *admin) replayed(req intake.ReplayRequest) {
	a.until(func() events.Code {
		_, code := a.startReplay(req)
		return code
	})
	for range 100 {
		if len(a.running()) == 0 {
			break
		}
		a.pause(time.Second, time.Second)
	}
}

// took is how many tasks all replays have taken.
func took(w *World) (n int) {
	for _, job := range w.model.ops.replays {
		n += len(job.took)
	}
	return n
}

// bend tampers with the large tenant's ledger.
func bend(w *World, at time.Duration, attr string, by int64) {
	w.after(at, func() {
		w.note("tampering with a ledger: %s %+d", attr, by)
		w.put(op.Write{Name: "tamper", Key: taskop.LedgerKey("beta"), Action: op.Update, Changes: []op.Change{op.Add(attr, by)}})
	})
}

// repaired demands that one repair was made, and counted where it shows.
func (a *admin) repaired() {
	a.pause(90*time.Second, 90*time.Second)
	a.demand("the ledger was repaired once", func(w *World) bool { return w.model.ops.played.Repaired == 1 })
	a.demand("the repair is counted", func(w *World) bool {
		return taskop.Counts(w.table.Peek(tally.Group(tally.GroupSystem, tally.Ledgers)))["repaired"] == 1
	})
}

func operatorCases() []Case {
	return []Case{
		{
			Name: "a paused lane takes in or lets go what it should hold",
			Script: with(time.Second, func(a *admin) {
				fill(a.Client, 4000)
				behindMore(a.Client, 2)
				a.setPaused("plain", true)
				_, code := a.submit(a.submission("late", work{Do: "ok"}, ""))
				a.told("a submission to the paused lane", code, events.RejectLanePaused)
				_, code = a.submit(a.submission("quick", work{Do: "ok"}, ""))
				a.told("a submission to another lane", code, "")
				a.pause(20*time.Second, 20*time.Second)
				a.demand("what ran has finished, and what waited waits", func(w *World) bool {
					return w.model.ends[task.Succeeded] == 3 && w.model.ends[task.Waiting] == 2
				})
				a.setPaused("plain", false)
				_, code = a.submit(a.submission("late", work{Do: "ok"}, ""))
				a.told("a submission after the pause", code, "")
			}),
			Tight: true,
			Want:  map[task.State]int{task.Succeeded: 6},
		},
		{
			Name: "a retry gets a slot of the retry lane that was just paused",
			Script: with(time.Second, func(a *admin) {
				a.insist(a.submission("plain", work{Do: "fail", N: 1, MS: 10}, ""))
				a.pause(1200*time.Millisecond, 1200*time.Millisecond)
				a.setPaused("retry", true)
				a.pause(12*time.Second, 12*time.Second)
				a.setPaused("retry", false)
			}),
			Takes: func(c *Call) time.Duration { // the tick that saw no pause is slow
				if c.Name == "lane.enter_slot" && c.In.Function == Aggregator {
					return 3 * time.Second
				}
				return 0
			},
			Want: map[task.State]int{task.Succeeded: 1},
		},
		pausedTwin(),
		{
			Name: "a lane counts less work than a task has whose slot an earlier try took by another estimate",
			Script: with(time.Minute, func(a *admin) {
				sub := a.submission("plain", work{Do: "ok"}, "key")
				a.submit(sub)
				a.w.post("another estimate", func() {
					o := a.w.model.lanes["plain"].Tasks[0]
					entry := fmt.Sprintf("%s|%s|%s|%d|%d", o.Class, o.Bucket, o.Tenant, o.SinceMS, o.AmountMS-100)
					a.w.put(op.Write{Name: "tamper", Key: taskop.LaneKey("plain"), Action: op.Update,
						Changes: []op.Change{op.Set(taskop.QueuedEntry(o.ID), op.S(entry)), op.Add("work", -100)}})
				})
				sub.Traceparent += "'"
				_, code := a.submit(sub)
				a.told("a second try meanwhile", code, events.RejectLaneBacklog)
				a.pause(75*time.Second, 75*time.Second)
				sub.Traceparent += "'"
				_, code = a.submit(sub)
				a.told("a third one", code, "")
			}),
			Fates: []CallFate{{"accept", 1, KillBefore}},
			Want:  map[task.State]int{task.Succeeded: 1},
		},
		{
			Name: "a withdrawn key works on where it was used before",
			Script: with(time.Second, func(a *admin) {
				a.insist(a.submission("quick", work{Do: "ok"}, ""))
				a.makeKey("beta")
				for range 30 { // now and then in another instance
					a.useKey(0)
				}
				a.withdrawKey(0)
				a.pause(100*time.Second, 100*time.Second)
				for range 10 {
					a.useKey(0)
				}
			}),
		},
		{
			Name: "a replay whose run dies takes more than its limit",
			Script: with(time.Second, func(a *admin) {
				a.inQuarantine(4)
				a.replayed(intake.ReplayRequest{Rate: 50, Limit: 2})
				a.demand("two of four were taken", func(w *World) bool { return took(w) == 2 })
			}),
			Fates: []CallFate{{"readmit", 1, KillAfter}},
			Want:  map[task.State]int{task.Succeeded: 2, task.Quarantined: 2},
		},
		{
			Name: "a replay that was stopped goes on",
			Script: with(time.Second, func(a *admin) {
				a.inQuarantine(6)
				id, _ := a.startReplay(intake.ReplayRequest{Rate: 2, Limit: 100})
				a.pause(3500*time.Millisecond, 3500*time.Millisecond)
				a.stopReplay(id)
				a.pause(10*time.Second, 10*time.Second)
				a.demand("some of six were taken", func(w *World) bool { return took(w) > 0 && took(w) < 6 })
			}),
			Takes: func(c *Call) time.Duration { // so that the stop comes in between
				if c.Name == "readmit" {
					return 700 * time.Millisecond
				}
				return 0
			},
		},
		{
			Name: "a replay takes what fails again, by a worker whose clock is behind",
			Script: func(w *World) {
				w.behind = map[string]time.Duration{Worker: 8 * time.Second}
				with(time.Second, func(a *admin) {
					for range 3 {
						a.insist(a.submission("plain", work{Do: "fail", N: 4, MS: 10}, ""))
					}
					a.pause(20*time.Second, 20*time.Second)
					a.replayed(intake.ReplayRequest{Rate: 0.3, Limit: 100})
					a.demand("three were taken", func(w *World) bool { return took(w) == 3 })
				})(w)
			},
			Want: map[task.State]int{task.Quarantined: 3},
		},
		{
			Name: "a replay takes what has left the quarantine, since the index is behind",
			Script: with(time.Second, func(a *admin) {
				id, _ := a.insist(a.submission("plain", work{Do: "fail", N: 2, MS: 3000}, ""))
				a.pause(30*time.Second, 30*time.Second)
				a.w.post("lag", func() { a.w.faults.Lag, a.w.faults.LagMost = 1, 2*time.Minute })
				a.retry(id)
				a.replayed(intake.ReplayRequest{Rate: 50, Limit: 10})
				a.demand("none was taken", func(w *World) bool { return took(w) == 0 })
			}),
			Want: map[task.State]int{task.Succeeded: 1},
		},
		{
			Name: "a replay takes more in one tick than its limit, or than its rate",
			Script: with(time.Second, func(a *admin) {
				for range 14 { // a lane with slots to spare
					a.insist(a.submission("quick", work{Do: "fail", N: 3, MS: 10}, ""))
					a.pause(600*time.Millisecond, 600*time.Millisecond)
				}
				a.pause(20*time.Second, 20*time.Second)
				a.replayed(intake.ReplayRequest{Rate: 50, Limit: 1})
				a.demand("one was taken", func(w *World) bool { return took(w) == 1 })
				a.replayed(intake.ReplayRequest{Rate: 0.5, Limit: 100})
				a.demand("all were taken", func(w *World) bool { return took(w) == 14 })
			}),
			Want: map[task.State]int{task.Succeeded: 14},
		},
		{
			Name: "a replay takes what its filter does not mean, or not all that it means",
			Script: with(time.Second, func(a *admin) {
				a.inQuarantine(2)
				a.insist(a.submission("late", work{Do: "fail", N: 2, MS: 10}, ""))
				a.pause(20*time.Second, 20*time.Second)
				a.startReplay(intake.ReplayRequest{Filter: events.ReplayFilter{Class: "plain"}, Rate: 50, Limit: 100, DryRun: true})
				a.replayed(intake.ReplayRequest{Filter: events.ReplayFilter{Class: "plain", Tenant: "beta", Lane: "plain", MinAge: 1000}, Rate: 50, Limit: 100})
				a.replayed(intake.ReplayRequest{Filter: events.ReplayFilter{Tenant: "alpha"}, Rate: 50, Limit: 100})
				a.replayed(intake.ReplayRequest{Filter: events.ReplayFilter{MinAge: 3_600_000}, Rate: 50, Limit: 100})
				a.demand("two were taken", func(w *World) bool { return took(w) == 2 })
			}),
			Want: map[task.State]int{task.Succeeded: 2, task.Quarantined: 1},
		},
		{
			Name: "a fault that a whole class has in common uses its attempts up",
			Script: with(time.Second, func(a *admin) {
				storm(a.Client, "broken", 45, 70*time.Second)
				a.pause(60*time.Second, 60*time.Second)
				a.demand("the class was halted, and one canary let through at a time", func(w *World) bool {
					return w.model.ops.played.Halted > 0 && w.model.ops.circuit.most == 1
				})
			}),
			Want: map[task.State]int{},
		},
		{
			Name: "a halted class whose canaries fail for good is let through",
			Script: with(time.Second, func(a *admin) {
				storm(a.Client, "useless", 45, 90*time.Second)
				a.demand("the class was halted", func(w *World) bool { return w.model.ops.played.Halted > 0 })
				var before int
				a.look(func(*operations) { before = a.w.model.ends[task.Failed] })
				a.pause(20*time.Second, 20*time.Second)
				a.demand("few more have failed in 20 s", func(w *World) bool { return w.model.ends[task.Failed] <= before+4 })
			}),
		},
		{
			Name: "a ledger that holds too much stays so",
			Script: func(w *World) {
				with(time.Second, func(a *admin) {
					a.insist(a.submission("plain", work{Do: "ok", MS: 30_000}, ""))
					a.repaired()
				})(w)
				bend(w, 5*time.Second, "work", 700)
			},
		},
		{
			Name: "a ledger that holds too little stays so, and its tasks never begin",
			Script: func(w *World) {
				with(time.Second, func(a *admin) {
					fill(a.Client, 8000)
					behindMore(a.Client, 1)
					a.repaired()
				})(w)
				bend(w, 5*time.Second, "work", -200)
			},
			Want: map[task.State]int{task.Succeeded: 3},
		},
		{
			Name: "an attempt that never was keeps its tenant from running another",
			Script: func(w *World) {
				with(time.Second, func(a *admin) {
					a.pause(6*time.Second, 6*time.Second)
					fill(a.Client, 300)
					a.repaired()
				})(w)
				bend(w, 5*time.Second, "active", 2)
			},
			Want: map[task.State]int{task.Succeeded: 2},
		},
		{
			Name: "a ledger that changes while it is counted is overwritten",
			Script: func(w *World) {
				with(time.Second, func(a *admin) {
					a.insist(a.submission("plain", work{Do: "ok", MS: 20_000}, ""))
					for range 40 {
						a.submit(a.submission("quick", work{Do: "ok"}, ""))
						a.pause(500*time.Millisecond, time.Second)
					}
					a.repaired()
				})(w)
				bend(w, 5*time.Second, "work", 700)
			},
			Takes: func(c *Call) time.Duration {
				if c.Name == "ledger.repair" {
					return 700 * time.Millisecond
				}
				return 0
			},
		},
		{
			Name: "a ledger is taken for wrong since the index is behind",
			Script: func(w *World) {
				w.after(2*time.Second, func() { w.faults.Lag, w.faults.LagMost = 1, 2*time.Minute })
				alone(time.Second, func(c *Client) {
					c.insist(c.submission("quick", work{Do: "ok"}, "")) // from then on the ledger is listed
					c.pause(4*time.Second, 4*time.Second)
					c.insist(c.submission("plain", work{Do: "ok", MS: 39_000}, ""))
					c.pause(35*time.Second, 35*time.Second)
				})(w)
			},
		},
		{
			Name: "what a killed process left is found only when its leases run out",
			Script: with(time.Minute, func(a *admin) {
				a.insist(a.submission("plain", work{Do: "ok", MS: 20_000}, ""))
				a.insist(a.submission("plain", work{Do: "ok", MS: 10}, ""))
				a.pause(2*time.Second, 2*time.Second)
				a.w.post("restart", a.w.restart)
				a.pause(6*time.Second, 6*time.Second)
				a.demand("the interrupted attempt was taken up", func(w *World) bool { return w.model.ends[task.Running] == 0 || took2(w) })
			}),
			Want: map[task.State]int{task.Succeeded: 2},
		},
	}
}

// took2 says whether a task runs in its second attempt.
func took2(w *World) bool {
	for _, t := range w.model.tasks {
		if t.Attempt == 2 {
			return true
		}
	}
	return false
}

// pausedTwin: an admission that keeps an empty copy of a lane meets its own key's
// entry there, which another one made before the lane was paused.
func pausedTwin() Case {
	return Case{
		Name: "a submission whose slot was taken before the pause is accepted in the paused lane",
		Script: func(w *World) {
			w.schedule(time.Minute)
			w.client("first", "beta", func(c *Client) { // its admission sees the lane empty, and keeps that copy
				sub := c.submission("plain", work{Do: "ok"}, "too late")
				sub.DeadlineMS = 100
				c.submit(sub)
			})
			w.operator("second", func(a *admin) {
				a.tenant = "beta"
				a.pause(500*time.Millisecond, 500*time.Millisecond)
				sub := a.submission("plain", work{Do: "ok"}, "key")
				a.submit(sub)
				a.setPaused("plain", true)
				a.pause(3*time.Second, 3*time.Second)
				for range 6 {
					a.n++
					sub.Traceparent += "'"
					_, code := a.submit(sub)
					a.told("a submission to the paused lane", code, events.RejectLanePaused)
				}
				a.setPaused("plain", false)
			})
		},
		Fates: []CallFate{{"accept", 1, KillBefore}},
		Takes: func(c *Call) time.Duration {
			if c.Name == "get" && c.Where[:2] == "T#" {
				return 2500 * time.Millisecond
			}
			return 0
		},
	}
}

func operatorScenarios() []Scenario {
	return []Scenario{
		{Name: "replay", Script: with(500*time.Millisecond, func(a *admin) {
			a.inQuarantine(3)
			a.enter("replay")
			var id string
			a.until(func() (code events.Code) {
				id, code = a.startReplay(intake.ReplayRequest{Filter: events.ReplayFilter{Class: "plain"}, Rate: 50, Limit: 2})
				return code
			})
			a.until(func() (code events.Code) { _, code = a.watchReplay(id); return code })
			for range 100 {
				if len(a.running()) == 0 {
					break
				}
				a.pause(time.Second, time.Second)
			}
			a.enter("")
			a.demand("two or, when the operator had to order it again, three were taken", func(w *World) bool { return took(w) >= 2 })
		}), Victim: func(w *World, c *Call) bool {
			return w.phase == "replay" && (c.In.Function == Admission || c.In.Function == Aggregator)
		}},
		{Name: "replay_stop", Script: with(500*time.Millisecond, func(a *admin) {
			a.inQuarantine(3)
			id, _ := a.startReplay(intake.ReplayRequest{Filter: events.ReplayFilter{Tenant: "beta"}, Rate: 1, Limit: 100})
			a.pause(1500*time.Millisecond, 1500*time.Millisecond)
			a.enter("stop")
			a.until(func() events.Code { return a.stopReplay(id) })
		}), Victim: during(Admission, "stop")},
		{Name: "pause_resume", Script: with(time.Second, func(a *admin) {
			fill(a.Client, 1000)
			behindMore(a.Client, 1)
			a.enter("pause")
			a.until(func() events.Code { return a.setPaused("plain", true) })
			a.pause(3*time.Second, 3*time.Second)
			a.submit(a.submission("late", work{Do: "ok"}, ""))
			a.until(func() events.Code { return a.setPaused("plain", false) })
		}), Victim: during(Admission, "pause"), Pairs: true},
		{Name: "tenant_and_key", Script: with(time.Second, func(a *admin) {
			a.insist(a.submission("quick", work{Do: "ok"}, ""))
			a.enter("tenant")
			for _, tier := range []string{"small", "large"} {
				a.until(func() events.Code { return a.putTenant("gamma", tier) })
			}
			a.until(func() events.Code { return a.makeKey("gamma") })
			a.useKey(0)
			a.until(func() events.Code { return a.withdrawKey(0) })
			a.useKey(0)
		}), Victim: during(Admission, "tenant"), Pairs: true},
		{Name: "restart", Script: func(w *World) {
			w.faults.MessageLost = 1
			w.after(1500*time.Millisecond, func() { w.faults.MessageLost = 0 })
			w.schedule(time.Second)
			w.client("c", "beta", func(c *Client) {
				c.insist(c.submission("quick", work{Do: "ok"}, "")) // its message is lost
				c.pause(2*time.Second, 2*time.Second)
				fill(c, 20_000)
				c.w.post("restart", c.w.restart)
				c.pause(2*time.Second, 2*time.Second)
			})
		}, Victim: of(Recovery)},
		{Name: "circuit", Script: func(w *World) {
			w.schedule(time.Second)
			w.client("c", "beta", func(c *Client) { storm(c, "broken", 45, 45*time.Second) })
		}, Victim: func(w *World, c *Call) bool {
			return c.In.Function == Aggregator && (w.model.ops.played.Halted > 0 || c.Name == "lane.halt" || c.Name == "audit") &&
				(c.Name == "lane.halt" || c.Name == "audit" || c.Name == "circuits.put" || c.Name == "halt.row" || c.Name == "lane.park_ready" ||
					c.Name == "lane.release_slot" || c.Name == "release.row" || c.Name == "send" || c.Name == "lane.unpark" || c.Name == "unpark.row")
		}},
		{Name: "ledger_repair", Script: func(w *World) {
			alone(time.Second, func(c *Client) {
				c.insist(c.submission("plain", work{Do: "ok", MS: 25_000}, ""))
				c.pause(30*time.Second, 30*time.Second)
			})(w)
			bend(w, 2*time.Second, "work", 700)
		}, Victim: func(w *World, c *Call) bool {
			return c.In.Function == Aggregator && (c.Name == "ledger.repair" || strings.HasPrefix(c.Where, "L#") || c.Name == "query" && strings.HasPrefix(c.Where, ":T#"))
		}},
	}
}

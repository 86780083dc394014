package e2e

import (
	"fmt"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
)

// burstCases are the steps of the burst test, one case each; they build on one
// another.
func burstCases() []Case {
	const short = `{"class": "burst.short", "payload": {"sleep_ms": 200}}`
	var ids [][2]string // key, id
	var began time.Time
	var refused answer
	note := func(key string, t events.Task) { ids = append(ids, [2]string{key, t.ID}) }
	return []Case{
		{"burst 1: a pool of two workers", func(c *C) {
			c.idle("burst")
			if l := c.lane("burst"); l.Slots != 2 {
				c.Failf("%+v", l)
			}
		}},
		{"burst 2: two long tasks from tenant A take them", func(c *C) {
			for range 2 {
				note(burstA, c.Submit(burstA, "burst.long", `{"sleep_ms": 20000}`))
			}
			for _, one := range ids {
				c.Until(one[0], one[1], events.StateRunning)
			}
			began = c.cfg.Now()
		}},
		{"burst 3: a burst of short tasks from A and B", func(c *C) {
			note(burstB, c.Submit(burstB, "burst.short", `{"sleep_ms": 200}`))
			for range 3 {
				note(burstA, c.Submit(burstA, "burst.short", `{"sleep_ms": 200}`))
			}
		}},
		{"burst 4: A reaches its budget, B is not blocked", func(c *C) {
			accepted := 0
			for range 10 {
				a := c.call(http.MethodPost, "/v1/tasks", burstA, short)
				if a.status != http.StatusAccepted {
					p := c.wantCode(a, events.RejectTenantLimit)
					c.retryAfter(a)
					if p.Decision == nil || p.Decision.TenantLimit == 0 {
						c.Failf("no figures in %s", a)
					}
					break
				}
				accepted++
				var t events.Task
				c.want(a, http.StatusAccepted, &t)
				note(burstA, t)
			}
			if accepted > 5 { // 42 s hold eight of 5 s, three of which are in
				c.Failf("%d more were accepted", accepted)
			}
			note(burstB, c.Submit(burstB, "burst.short", `{"sleep_ms": 200}`))
		}},
		{"burst 5: a deadline shorter than the predicted wait is refused", func(c *C) {
			if busy := c.cfg.Now().Sub(began); busy > 15*time.Second {
				c.Failf("this machine is too slow for the test: the long tasks began %v ago", busy)
			}
			refused = c.call(http.MethodPost, "/v1/tasks", burstB, `{"class": "burst.short", "payload": {"sleep_ms": 200}, "deadline_seconds": 12}`)
			p := c.wantCode(refused, events.RejectDeadline)
			if p.Decision == nil || p.Decision.PredictedWait == 0 {
				c.Failf("no figures in %s", refused)
			}
		}},
		{"burst 6: obeying its Retry-After works", func(c *C) {
			if refused.status == 0 {
				c.Failf("nothing was refused")
			}
			n := c.retryAfter(refused)
			c.Sayf("waiting %d s as told", n)
			c.Pause(time.Duration(n) * time.Second)
			note(burstB, c.Submit(burstB, "burst.short", `{"sleep_ms": 200}`, `, "deadline_seconds": 12`))
		}},
		{"burst 7: the queue drains and admission recovers", func(c *C) {
			for _, one := range ids {
				c.Until(one[0], one[1], events.StateSucceeded)
			}
			c.idle("burst")
			c.succeed(burstA, "burst.short", `{"sleep_ms": 10}`)
			c.Sayf("%s", fmt.Sprint(len(ids), " tasks were accepted and all of them succeeded"))
		}},
	}
}

func estimateCases() []Case {
	return []Case{{"a run of the aggregator publishes estimates, which admission then uses", func(c *C) {
		for range 25 {
			c.succeed(gamma, "mail.send", `{"sleep_ms": 20}`)
		}
		c.Eventually("estimates of what ran", func() (bool, string) {
			a := c.call(http.MethodPost, "/v1/quotes", gamma, `{"class": "mail.send"}`)
			var q events.Quote
			c.want(a, http.StatusOK, &q)
			// An outcome more, so that workers which flush late have a reason to.
			c.succeed(gamma, "mail.send", `{"sleep_ms": 20}`)
			return q.Decision.Samples > 0, a.String()
		})
	}}}
}

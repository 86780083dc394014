package e2e

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/lanekeeper/lanekeeper/events"
)

func basicCases() []Case {
	list := []Case{{"the service is healthy and shows its configuration's hash", func(c *C) {
		var h events.Health
		c.want(c.call(http.MethodGet, "/healthz", "", ""), http.StatusOK, &h)
		if h.Status != "ok" || len(h.ConfigHash) != 64 {
			c.Failf("%+v", h)
		}
	}}}
	for _, class := range []string{"mail.send", "agent.lint", "report.export", "agent.migration"} {
		list = append(list, Case{"a task of class " + class + " succeeds", func(c *C) {
			t := c.succeed(alpha, class, `{"sleep_ms": 50}`)
			if t.Attempt != 1 || len(t.Attempts) != 1 || !strings.Contains(string(t.Result), "slept_ms") || t.Tenant != "alpha" {
				c.Failf("%+v", t)
			}
			if t.StartedAt < t.SubmittedAt || t.FinishedAt < t.StartedAt {
				c.Failf("times: %v, %v, %v", t.SubmittedAt, t.StartedAt, t.FinishedAt)
			}
		}})
	}
	return append(list,
		Case{"a large export goes to the heavy lane by its hint", func(c *C) {
			t := c.succeed(alpha, "report.export", `{"sleep_ms": 10}`, `, "hints": {"rows": 200000}`)
			if t.Lane != "heavy" || t.Bucket != "large" {
				c.Failf("lane %s, bucket %s", t.Lane, t.Bucket)
			}
		}},
		Case{"the same key and body give one task, another body 409", func(c *C) {
			key := fmt.Sprintf("e2e-%d", c.cfg.Now().UnixNano())
			body := `{"class": "mail.send", "payload": {"sleep_ms": 10}}`
			var first, again events.Task
			c.want(c.call(http.MethodPost, "/v1/tasks", alpha, body, "Idempotency-Key", key), http.StatusAccepted, &first)
			second := c.call(http.MethodPost, "/v1/tasks", alpha, body, "Idempotency-Key", key)
			c.want(second, http.StatusAccepted, &again)
			if again.ID != first.ID || second.header.Get("Idempotency-Replayed") != "true" {
				c.Failf("%s and %s", first.ID, second)
			}
			c.wantCode(c.call(http.MethodPost, "/v1/tasks", alpha, `{"class": "mail.send", "payload": {"sleep_ms": 11}}`, "Idempotency-Key", key), events.IdempotencyConflict)
			c.Until(alpha, first.ID, events.StateSucceeded)
		}},
		Case{"a running task is cancelled", func(c *C) {
			t := c.Submit(alpha, "agent.migration", `{"sleep_ms": 6000}`)
			c.Until(alpha, t.ID, events.StateRunning)
			a := c.call(http.MethodPost, "/v1/tasks/"+t.ID+"/cancel", alpha, "")
			if a.status != http.StatusAccepted && a.status != http.StatusOK {
				c.Failf("%s", a)
			}
			c.Eventually("its end", func() (bool, string) {
				now := c.get(alpha, t.ID, "?wait=5")
				// A cancel is asked for at a renewal; an attempt that ends before has succeeded.
				return now.State == events.StateCancelled || now.State == events.StateSucceeded, string(now.State)
			})
			c.idle("heavy")
		}},
		Case{"tasks are listed, and only one's own", func(c *C) {
			t := c.succeed(beta, "mail.send", `{"sleep_ms": 10}`)
			var mine, others events.TaskPage
			c.want(c.call(http.MethodGet, "/v1/tasks?state=succeeded&limit=100", beta, ""), http.StatusOK, &mine)
			c.want(c.call(http.MethodGet, "/v1/tasks?limit=100", gamma, ""), http.StatusOK, &others)
			found := false
			for _, one := range mine.Items {
				found = found || one.ID == t.ID
			}
			if !found {
				c.Failf("%s is not among %d tasks", t.ID, len(mine.Items))
			}
			for _, one := range others.Items {
				if one.ID == t.ID || one.Tenant != "gamma" {
					c.Failf("gamma sees %s of %s", one.ID, one.Tenant)
				}
			}
		}},
	)
}

package e2e

import (
	"net/http"

	"github.com/lanekeeper/lanekeeper/events"
)

func refusalCases() []Case {
	submit := func(key, body string, code events.Code) func(*C) {
		return func(c *C) { c.wantCode(c.call(http.MethodPost, "/v1/tasks", key, body), code) }
	}
	return []Case{
		{"without credentials: 401", submit("", `{"class": "mail.send"}`, events.Unauthenticated)},
		{"with an unknown key: 401", submit("nobody-knows-this", `{"class": "mail.send"}`, events.Unauthenticated)},
		{"an unknown class: 422", submit(alpha, `{"class": "no.such"}`, events.UnknownClass)},
		{"no JSON: 400", submit(alpha, `{"class": `, events.InvalidRequest)},
		{"an unknown field: 400", submit(alpha, `{"class": "mail.send", "tenant": "beta"}`, events.InvalidRequest)},
		{"a deadline that no empty lane could keep: 422", submit(alpha, `{"class": "agent.migration", "deadline_seconds": 1}`, events.DeadlineInfeasible)},
		{"a priority above the tier's: 403", submit(alpha, `{"class": "mail.send", "priority": "critical"}`, events.ForbiddenPriority)},
		{"a foreign id is the same 404 as an unknown one", func(c *C) {
			t := c.Submit(alpha, "mail.send", `{"sleep_ms": 10}`)
			foreign := c.call(http.MethodGet, "/v1/tasks/"+t.ID, beta, "")
			unknown := c.call(http.MethodGet, "/v1/tasks/00000000-0000-4000-8000-000000000000", beta, "")
			c.wantCode(foreign, events.NotFound)
			if string(foreign.body) != string(unknown.body) {
				c.Failf("%s and %s", foreign, unknown)
			}
			c.Until(alpha, t.ID, events.StateSucceeded)
		}},
		{"an operator's call with a tenant's key: 403", func(c *C) {
			c.wantCode(c.call(http.MethodGet, "/v1/admin/quarantine", alpha, ""), events.Forbidden)
		}},
		{"a paused lane refuses, and takes work again once resumed", func(c *C) {
			c.want(c.call(http.MethodPost, "/v1/admin/lanes/heavy/pause", operator, ""), http.StatusOK, nil)
			c.Eventually("the pause", func() (bool, string) {
				a := c.call(http.MethodPost, "/v1/quotes", alpha, `{"class": "agent.migration"}`)
				var q events.Quote
				c.want(a, http.StatusOK, &q)
				return q.Outcome == events.RejectLanePaused, a.String()
			})
			a := c.call(http.MethodPost, "/v1/tasks", alpha, `{"class": "agent.migration", "payload": {"sleep_ms": 10}}`)
			c.wantCode(a, events.RejectLanePaused)
			c.retryAfter(a)
			c.want(c.call(http.MethodPost, "/v1/admin/lanes/heavy/resume", operator, ""), http.StatusOK, nil)
			c.Eventually("the resumption", func() (bool, string) {
				a := c.call(http.MethodPost, "/v1/tasks", alpha, `{"class": "agent.migration", "payload": {"sleep_ms": 10}}`)
				return a.status == http.StatusAccepted, a.String()
			})
			c.idle("heavy")
		}},
	}
}

package e2e

import (
	"fmt"
	"net/http"

	"github.com/lanekeeper/lanekeeper/events"
)

func failureCases() []Case {
	return []Case{
		{"a task that fails once is retried and succeeds", func(c *C) {
			t := c.succeed(alpha, "e2e.fail", `{"sleep_ms": 10, "fail": "not yet", "fail_times": 1}`)
			if t.Attempt != 2 || len(t.Attempts) != 2 || t.Attempts[0].Outcome == t.Attempts[1].Outcome {
				c.Failf("%d attempts: %+v", t.Attempt, t.Attempts)
			}
		}},
		{"a task that keeps failing is quarantined, listed, and replayed", func(c *C) {
			// Attempts are counted on, so the handler succeeds at the first one after the replay.
			t := c.Submit(alpha, "e2e.fail", `{"sleep_ms": 10, "fail": "needs mending", "fail_times": 3}`)
			got := c.Until(alpha, t.ID, events.StateQuarantined)
			if got.Error == nil || got.Error.Signature == "" || got.Attempt != 3 {
				c.Failf("%+v, error %+v", got, got.Error)
			}
			var page events.QuarantinePage
			c.Eventually("the quarantine's list", func() (bool, string) {
				c.want(c.call(http.MethodGet, "/v1/admin/quarantine?class=e2e.fail&limit=100", operator, ""), http.StatusOK, &page)
				for _, q := range page.Items {
					if q.ID == t.ID && q.Tenant == "alpha" && q.Error.Signature == got.Error.Signature {
						return true, ""
					}
				}
				return false, fmt.Sprintf("%d others", len(page.Items))
			})
			var r events.Replay
			body := fmt.Sprintf(`{"filter": {"signature": %q, "class": "e2e.fail"}, "rate": 5, "limit": 10}`, got.Error.Signature)
			a := c.call(http.MethodPost, "/v1/admin/replays", operator, body)
			if a.status != http.StatusAccepted && a.status != http.StatusCreated {
				c.Failf("%s", a)
			}
			c.want(a, a.status, &r)
			after := c.Until(alpha, t.ID, events.StateSucceeded)
			if after.ID != t.ID || after.Attempt < 4 {
				c.Failf("after the replay: %+v", after)
			}
			c.Eventually("the replay's end", func() (bool, string) {
				a := c.call(http.MethodGet, "/v1/admin/replays/"+r.ID, operator, "")
				c.want(a, http.StatusOK, &r)
				return r.FinishedAt != 0 && r.Admitted >= 1, a.String()
			})
		}},
	}
}

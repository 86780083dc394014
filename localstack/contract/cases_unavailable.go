package contract

import (
	"net/http"
	"strconv"

	"github.com/lanekeeper/lanekeeper/events"
)

func unavailableCases() []testCase {
	return []testCase{
		{name: "unavailable/every call is 503 with Retry-After while the store fails, and nothing is left of it", fails: true, run: unavailable},
	}
}

func unavailable(c *C) {
	failing, err := c.cfg.StartFailing(c.ctx, limits{}.yaml())
	c.must(err)
	defer failing.Stop()
	c.at(&failing.Stack, func(c *C) {
		id := c.submit(unit).ID // the server knows A's key now, and not yet the others'
		c.await("", id)
		before := c.quote(unit).Decision.TenantQueuedWork
		key := http.Header{"Idempotency-Key": {c.unique("unavailable")}}
		calls := []request{
			{method: http.MethodPost, path: "/v1/tasks", body: []byte(unit), header: key},
			{method: http.MethodPost, path: "/v1/quotes", body: []byte(unit)},
			{path: "/v1/tasks"}, {path: "/v1/tasks/" + id}, {path: "/v1/tasks/" + id + "?wait=5"}, {path: explanation(id)}, {path: "/v1/lanes"},
			{method: http.MethodPost, path: "/v1/tasks/" + id + "/cancel"},
			{method: http.MethodPost, path: "/v1/tasks/" + id + "/retry"},
			{path: "/v1/tasks", key: c.cfg.Keys.B}, // nobody is 401 because nobody can look
			{path: "/v1/admin/quarantine", key: c.cfg.Keys.Admin},
		}
		failing.Down(true)
		for _, r := range calls {
			got := c.send(r)
			p := got.wantCode(c, events.Unavailable)
			if n, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || n < 1 || int64(n) != p.RetryAfterSeconds {
				c.errorf("%s: Retry-After %q", got, got.header.Get("Retry-After"))
			}
		}
		c.send(request{path: "/healthz", key: noKey}).want(c, http.StatusOK) // it knows no store
		failing.Down(false)
		if after := c.quote(unit).Decision.TenantQueuedWork; after != before {
			c.errorf("queued work was %s s and is %s s", before, after)
		}
		again := c.send(calls[0])
		again.want(c, http.StatusAccepted)
		if again.header.Get("Idempotency-Replayed") != "" {
			c.errorf("what was answered with 503 was accepted all the same")
		}
		t, err := again.task()
		c.must(err)
		if end := c.await("", t.ID); end.State != events.StateSucceeded {
			c.errorf("afterwards a task ended %s", end.State)
		}
	})
}

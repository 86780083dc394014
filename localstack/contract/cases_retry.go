package contract

import (
	"net/http"

	"github.com/lanekeeper/lanekeeper/events"
)

func retrySucceeded(c *C) {
	t := c.await("", c.submit(unit).ID)
	c.retry("", t.ID).wantCode(c, events.AlreadyFinished)
	if now := c.await("", t.ID); now.State != events.StateSucceeded || now.Attempt != t.Attempt || now.FinishedAt != t.FinishedAt {
		c.errorf("it was %+v and is %+v", t, now)
	}
}

// retryLowered: a retry goes through admission under the contract of now.
func retryLowered(c *C) {
	was := c.poisoned(1)[0]
	admin[events.Tenant](c, "PUT", "/v1/admin/tenants/main", `{"tier":"least"}`, http.StatusOK)
	c.eventually("the new tier is in force", func() (bool, string) {
		d := c.quote(unit).Decision
		return d.TenantLimit == 1, string(mustJSON(d))
	})
	if p := c.retry("", was.ID).wantCode(c, events.RejectTenantLimit); p.Decision == nil || p.Decision.BindingLimit != "tenant_queued_work" {
		c.errorf("decision %+v", p.Decision)
	}
	if now := c.untilState(was.ID, events.StateQuarantined); now.Attempt != was.Attempt {
		c.errorf("a refused retry changed it: %+v", now)
	}
}

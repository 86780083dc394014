package contract

import (
	"fmt"
	"net/http"

	"github.com/lanekeeper/lanekeeper/events"
)

func ownCases() []testCase {
	return []testCase{
		{name: "limits/100 parallel submissions accept exactly 10", own: true, run: exactlyTen},
		{name: "limits/reject_rate_limit", own: true, run: rateLimit},
		{name: "limits/reject_lane_backlog", own: true, run: laneBacklog},
		{name: "limits/reject_deadline, in the quote too", own: true, run: deadline},
	}
}

// unit is a task of the class whose budget is tested; nothing of it ever runs while the slots are held.
const unit = `{"class":"unit","payload":{"sleep_ms":1}}`

// on starts a server with its own configuration and runs f as a case against it.
func (c *C) on(l limits, f func(*C)) {
	stack, err := c.cfg.Start(c.ctx, l.yaml())
	c.must(err)
	defer stack.Stop()
	c.at(stack, f)
}

// at runs f as a case against another server with such a configuration.
func (c *C) at(stack *Stack, f func(*C)) {
	cfg := c.cfg
	cfg.Base, cfg.Keys = stack.Base, Keys{A: "key-main", B: "key-holder", Admin: "key-admin"}
	inner := &C{suite: newSuite(c.ctx, cfg, c.v)}
	defer func() { c.faults = append(c.faults, inner.faults...) }()
	f(inner) // what it leaves goes with the server
}

// hold takes both slots of the lane with tasks of another tenant and class, for longer than the case takes.
func (c *C) hold() {
	for range 2 {
		t := c.submitAs(c.cfg.Keys.B, `{"class":"hold","payload":{"sleep_ms":120000}}`, nil)
		c.eventually("the holder runs", func() (bool, string) {
			got := c.send(request{path: "/v1/tasks/" + t.ID, key: c.cfg.Keys.B})
			now, err := got.task()
			c.must(err)
			if now.State != events.StateRunning {
				return false, "it is " + string(now.State)
			}
			for _, l := range c.lanes() { // a lane learns of a claim a moment after the row
				if l.QueuedWork != 0 {
					return false, "lane " + l.Lane + " still counts it as queued"
				}
			}
			return true, ""
		})
	}
}

// exactlyTen: no deadline or lane limit binds, every slot is another tenant's, and the budget is ten times what a
// quote says one task costs. What runs in parallel changes nothing about the sum.
func exactlyTen(c *C) {
	var estimate events.Seconds
	c.on(limits{}, func(c *C) { estimate = c.quote(unit).Decision.Estimate })
	if estimate <= 0 {
		c.fatalf("the quote's estimate is %s s", estimate)
	}
	c.on(limits{queuedWorkMS: 10 * int64(estimate)}, func(c *C) {
		c.hold()
		if d := c.quote(unit).Decision; d.Estimate != estimate || d.TenantLimit != 10*estimate {
			c.fatalf("estimate %s s, was %s s; limit %s s", d.Estimate, estimate, d.TenantLimit)
		}
		replies, err := c.parallel(100, func(int) request {
			return request{method: http.MethodPost, path: "/v1/tasks", body: []byte(unit)}
		})
		c.must(err)
		accepted := 0
		for _, r := range replies {
			if r.status == http.StatusAccepted {
				accepted++
				continue
			}
			p := r.wantCode(c, events.RejectTenantLimit)
			if p.Decision != nil && (p.Decision.BindingLimit != "tenant_queued_work" || p.Decision.TenantLimit != 10*estimate) {
				c.errorf("decision %+v", *p.Decision)
			}
		}
		if accepted != 10 {
			c.errorf("%d accepted, want exactly 10", accepted)
		}
		if d := c.quote(unit).Decision; d.TenantQueuedWork != 10*estimate {
			c.errorf("queued work is %s s after ten of %s s", d.TenantQueuedWork, estimate)
		}
		// Room for one is room for exactly one.
		c.send(request{method: http.MethodPost, path: "/v1/tasks/" + c.mine[len(c.mine)-1].id + "/cancel"}).want(c, http.StatusAccepted)
		c.post("/v1/tasks", unit).want(c, http.StatusAccepted)
		c.post("/v1/tasks", unit).wantCode(c, events.RejectTenantLimit)
	})
}

func rateLimit(c *C) {
	c.on(limits{rate: 1, burst: 3}, func(c *C) {
		replies, err := c.parallel(20, func(int) request {
			return request{method: http.MethodPost, path: "/v1/tasks", body: []byte(unit)}
		})
		c.must(err)
		accepted := 0
		var refused reply
		for _, r := range replies {
			if r.status == http.StatusAccepted {
				accepted++
				continue
			}
			p := r.wantCode(c, events.RejectRateLimit)
			if p.Decision != nil && p.Decision.BindingLimit != "tenant_rate" {
				c.errorf("binding_limit %q", p.Decision.BindingLimit)
			}
			refused = r
		}
		if accepted < 3 || accepted > 10 || refused.status == 0 {
			c.fatalf("%d of 20 accepted at once; the burst is 3, the rate one a second", accepted)
		}
		c.pause(refused)
		c.post("/v1/tasks", unit).want(c, http.StatusAccepted)
	})
}

func laneBacklog(c *C) {
	const most = 140_000 // more than one holder's estimate, which has to fit in as well
	c.on(limits{laneWorkMS: most}, func(c *C) {
		c.hold()
		for i := range 200 {
			got := c.post("/v1/tasks", unit)
			if got.status == http.StatusAccepted {
				continue
			}
			p := got.wantCode(c, events.RejectLaneBacklog)
			if p.Decision == nil {
				return
			}
			if d := p.Decision; d.BindingLimit != "lane_max_work" || d.QueuedWork > most || d.QueuedWork+d.Estimate <= most || i == 0 {
				c.errorf("after %d accepted: %+v", i, *d)
			}
			return
		}
		c.errorf("200 tasks accepted into a backlog of %d s", most/1000)
	})
}

func deadline(c *C) {
	c.on(limits{}, func(c *C) {
		const body = `{"class":"unit","payload":{"sleep_ms":1},"deadline_seconds":8}`
		c.submit(body) // an empty lane can keep it
		c.hold()
		got := c.post("/v1/tasks", body)
		p := got.wantCode(c, events.RejectDeadline)
		if d := p.Decision; d != nil && (d.PredictedWait+d.ServiceP95+d.Margin < d.Deadline || d.BindingLimit != "lane_deadline" || d.Deadline != 8000) {
			c.errorf("decision %+v", *d)
		}
		if q := c.quote(body); q.Outcome != events.RejectDeadline || q.RetryAfterSeconds < 1 {
			c.errorf("quote %+v", q)
		}
		c.submit(fmt.Sprintf(`{"class":"unit","payload":{"sleep_ms":1},"deadline_seconds":%d}`, 3600)) // a later deadline fits
	})
}

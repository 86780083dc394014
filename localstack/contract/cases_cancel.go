package contract

import (
	"net/http"
	"strings"

	"github.com/lanekeeper/lanekeeper/events"
)

func (c *C) cancel(id string) reply {
	return c.send(request{method: http.MethodPost, path: "/v1/tasks/" + id + "/cancel"})
}

func cancelCases() []testCase {
	return []testCase{
		{name: "cancel/a task that waits: 202, then 200", run: func(c *C) {
			id := c.blocked()
			first := c.cancel(id)
			first.want(c, http.StatusAccepted)
			t, err := first.task()
			c.must(err)
			if t.State != events.StateCancelled {
				c.errorf("it is %s", t.State)
			}
			again := c.cancel(id)
			again.want(c, http.StatusOK)
			if got, err := again.task(); err != nil || got.FinishedAt != t.FinishedAt {
				c.errorf("finished at %s, then %s (%v)", t.FinishedAt, got.FinishedAt, err)
			}
			if now := c.await("", id); now.State != events.StateCancelled || now.Attempt != 0 {
				c.errorf("read again it is %s, attempt %d", now.State, now.Attempt)
			}
		}},
		{name: "cancel/a running task: 202 with cancel_requested", run: func(c *C) {
			id := c.submit(`{"class":"agent.lint","payload":{"sleep_ms":1500}}`).ID
			c.untilState(id, events.StateRunning)
			got := c.cancel(id)
			got.want(c, http.StatusAccepted)
			t, err := got.task()
			c.must(err)
			if !t.CancelRequested {
				c.errorf("cancel_requested is false")
			}
			if end := c.await("", id); end.State != events.StateCancelled && end.State != events.StateSucceeded {
				c.errorf("it ended %s", end.State)
			}
		}},
		{name: "cancel/a finished task: 409 already_finished", run: func(c *C) {
			id := c.submit(short).ID
			c.await("", id)
			c.cancel(id).wantCode(c, events.AlreadyFinished)
			if t := c.await("", id); t.State != events.StateSucceeded || t.CancelRequested {
				c.errorf("it is %s, cancel_requested %v", t.State, t.CancelRequested)
			}
		}},
		{name: "cancel/an unknown task: 404", run: func(c *C) { c.cancel("01234567-89ab-cdef").wantCode(c, events.NotFound) }},
		{name: "cancel/a body is ignored", run: func(c *C) {
			id := c.submit(short).ID
			c.await("", id)
			c.send(request{method: http.MethodPost, path: "/v1/tasks/" + id + "/cancel", body: []byte("{not json"),
				header: http.Header{"Content-Type": {"text/plain"}}}).wantCode(c, events.AlreadyFinished)
		}},
	}
}

// blocked submits a task that cannot start yet: its tenant's two active attempts are taken.
func (c *C) blocked() string {
	for range 2 {
		id := c.submit(`{"class":"agent.lint","payload":{"sleep_ms":5000}}`).ID
		c.untilState(id, events.StateRunning)
	}
	return c.submit(short).ID
}

func quoteCases() []testCase {
	return []testCase{
		{name: "quote/accept with all figures", run: func(c *C) {
			q := c.quote(`{"class":"report.export","payload":{"sleep_ms":1},"deadline_seconds":600}`)
			d := q.Decision
			if q.Outcome != events.Accept || d.Lane != "standard" || d.Estimate <= 0 || d.ServiceP95 <= 0 || d.Slots < 1 ||
				d.Deadline != 600_000 || d.TenantLimit <= 0 || d.Probe {
				c.errorf("quote %+v", q)
			}
		}},
		{name: "quote/deadline_infeasible is an outcome", run: func(c *C) {
			if q := c.quote(`{"class":"agent.migration","deadline_seconds":0.5}`); q.Outcome != events.DeadlineInfeasible || q.Decision.BindingLimit != "service_time" {
				c.errorf("quote %+v", q)
			}
		}},
		{name: "quote/hints change the figures", run: func(c *C) {
			small := c.quote(`{"class":"report.export","hints":{"rows":10}}`).Decision
			large := c.quote(`{"class":"report.export","hints":{"rows":200000}}`).Decision
			if large.Estimate <= small.Estimate || large.Lane == small.Lane {
				c.errorf("small %+v, large %+v", small, large)
			}
		}},
		{name: "quote/reserves nothing", run: func(c *C) {
			const body = `{"class":"report.export","payload":{"sleep_ms":1}}`
			first := c.quote(body).Decision
			for range 40 { // far more work than the tenant may queue, were it reserved
				c.quote(body)
			}
			last := c.quote(body)
			if last.Outcome != events.Accept || last.Decision.TenantQueuedWork != first.TenantQueuedWork || last.Decision.QueuedWork != first.QueuedWork {
				c.errorf("first %+v, last %+v", first, last.Decision)
			}
		}},
		{name: "quote/a submission reserves what the quote says", run: func(c *C) {
			c.blocked()
			before := c.quote(short).Decision
			c.submit(short)
			after := c.quote(short).Decision
			if got := after.TenantQueuedWork - before.TenantQueuedWork; got != before.Estimate {
				c.errorf("the tenant's queued work rose by %s s, the estimate is %s s", got, before.Estimate)
			}
		}},
	}
}

func (c *C) quote(body string) events.Quote {
	got := c.post("/v1/quotes", body)
	got.want(c, http.StatusOK)
	return decodeAs[events.Quote](c, got)
}

func laneCases() []testCase {
	return []testCase{
		{name: "lanes/each lane, by name", run: func(c *C) {
			last := ""
			seen := map[string]bool{}
			for _, l := range c.lanes() {
				if l.Lane <= last || l.Paused || l.Slots < 1 {
					c.errorf("lane %+v after %q", l, last)
				}
				last = l.Lane
				seen[l.Lane] = true
			}
			for _, want := range []string{"critical", "standard", "heavy", "retry"} {
				if !seen[want] {
					c.errorf("no lane %s", want)
				}
			}
		}},
		{name: "lanes/show what runs", run: func(c *C) {
			t := c.submit(`{"class":"agent.lint","payload":{"sleep_ms":4000}}`)
			c.untilState(t.ID, events.StateRunning)
			c.eventually("the lane shows a running task", func() (bool, string) {
				for _, l := range c.lanes() {
					if l.Lane == t.Lane {
						return l.Running >= 1, string(mustJSON(l))
					}
				}
				return false, "no such lane"
			})
		}},
	}
}

func (c *C) lanes() []events.Lane {
	got := c.get("/v1/lanes")
	got.want(c, http.StatusOK)
	return decodeAs[events.LaneList](c, got).Items
}

func laterCases() []testCase {
	var list []testCase
	for _, name := range []string{
		"refusal/reject_dependency (needs dependencies)",
	} {
		list = append(list, testCase{name: strings.TrimSpace(name), later: true})
	}
	return list
}

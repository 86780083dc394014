package contract

import (
	"fmt"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
)

// explainCases have servers of their own, whose slots they hold.
func explainCases() []testCase {
	list := own(limits{}, []testCase{
		{name: "explanation/unknown, foreign and impossible ids: the same 404", run: explainForeign},
		{name: "explanation/an operator's key is 403, none is 401", run: func(c *C) {
			id := c.submit(unit).ID
			c.send(request{path: explanation(id), key: c.cfg.Keys.Admin}).wantCode(c, events.Forbidden)
			c.send(request{path: explanation(id), key: noKey}).wantCode(c, events.Unauthenticated)
			c.send(request{method: http.MethodPost, path: explanation(id)}).wantCode(c, events.MethodNotAllowed)
		}},
		{name: "explanation/waiting behind others: slot, with the work ahead", run: explainWaiting},
		{name: "explanation/an ordering key waits for the task ahead", run: explainOrderingKey},
		{name: "explanation/running and over: nothing", run: explainRunning},
		{name: "explanation/between two attempts: not_before", run: explainRetryWait},
		{name: "explanation/quarantined: operator", run: explainQuarantined},
		{name: "explanation/in a paused lane: lane_paused", run: explainPaused},
	})
	return append(list, own(limits{maxActive: 1}, []testCase{{name: "explanation/a tenant at its max_active: tenant_active", run: explainActive}})...)
}

func explanation(id string) string { return "/v1/tasks/" + id + "/explanation" }

// explain asks why a task of tenant A waits; the figures of its admission are there whatever the answer.
func (c *C) explain(id string) events.Explanation {
	got := c.get(explanation(id))
	got.want(c, http.StatusOK)
	e := decodeAs[events.Explanation](c, got)
	if d := e.Decision; e.ID != id || e.Detail == "" || d.Code != events.Accept || d.Lane != "main" || d.Slots != 2 || d.Estimate < 1 || d.ServiceP95 < 1 || d.Deadline < 1 {
		c.errorf("%s", got)
	}
	return e
}

// wants asks until a task waits for what; a lane learns of a claim a moment after its row.
func (c *C) wants(id string, what events.WaitsFor) events.Explanation {
	var e events.Explanation
	c.eventually(fmt.Sprintf("task %s waits for %s", id, what), func() (bool, string) {
		e = c.explain(id)
		return e.WaitsFor == what, string(mustJSON(e))
	})
	return e
}

func explainForeign(c *C) {
	foreign := c.submitAs(c.cfg.Keys.B, unit, nil).ID
	f, u := c.get(explanation(foreign)), c.get(explanation(unknownID))
	f.wantCode(c, events.NotFound)
	u.wantCode(c, events.NotFound)
	if string(f.body) != string(u.body) {
		c.errorf("foreign %s, unknown %s", f.body, u.body)
	}
	for _, id := range []string{"x", "..%2F..", "%00", flipped(foreign)} {
		c.get(explanation(id)).wantCode(c, events.NotFound)
	}
}

func explainWaiting(c *C) {
	c.hold()
	first, second := c.submit(unit), c.submit(unit)
	var near, far events.Explanation
	c.eventually("the second stands behind the first", func() (bool, string) { // at first what came since the last summary counts as ahead
		near, far = c.wants(first.ID, events.WaitsSlot), c.wants(second.ID, events.WaitsSlot)
		return near.WorkAhead < far.WorkAhead, fmt.Sprintf("first %+v, second %+v", near, far)
	})
	if near.State != events.StateWaiting || near.AtLane != "main" || near.Name != "" || far.WorkAhead < far.Decision.Estimate {
		c.errorf("first %+v, second %+v", near, far)
	}
	// The slots are held for two minutes.
	if near.PredictedWait < 10_000 || far.PredictedWait < near.PredictedWait || near.Decision.PredictedWait < 10_000 {
		c.errorf("waits: first %+v, second %+v", near, far)
	}
	if t := decodeAs[events.Task](c, c.get("/v1/tasks/"+second.ID)); t.Position == nil || *t.Position != far.WorkAhead {
		c.errorf("position %v, work ahead %s s", t.Position, far.WorkAhead)
	}
}

func explainOrderingKey(c *C) {
	const keyed = `{"class":"unit","payload":{"sleep_ms":60000},"ordering_key":"k"}`
	ahead := c.submit(keyed)
	c.untilState(ahead.ID, events.StateRunning)
	held := c.submit(keyed)
	e := c.wants(held.ID, events.WaitsOrderingKey)
	if e.Name != ahead.ID || e.State != events.StateWaiting || e.WorkAhead < 1 {
		c.errorf("%+v", e)
	}
	c.cancel(ahead.ID).want(c, http.StatusAccepted) // it is running: its turn ends with its attempt
	if e := c.explain(held.ID); e.WaitsFor != events.WaitsOrderingKey && e.WaitsFor != events.WaitsNothing {
		c.errorf("after a cancel %+v", e)
	}
}

func explainActive(c *C) {
	c.untilState(c.submit(`{"class":"unit","payload":{"sleep_ms":60000}}`).ID, events.StateRunning)
	if e := c.wants(c.submit(unit).ID, events.WaitsTenantActive); e.State != events.StateWaiting || e.PredictedWait < 1 {
		c.errorf("%+v", e)
	}
}

func explainRunning(c *C) {
	id := c.submit(`{"class":"unit","payload":{"sleep_ms":2000}}`).ID
	c.untilState(id, events.StateRunning)
	if e := c.wants(id, events.WaitsNothing); e.State != events.StateRunning && e.State != events.StateSucceeded || e.WorkAhead != 0 {
		c.errorf("running: %+v", e)
	}
	c.await("", id)
	if e := c.explain(id); e.WaitsFor != events.WaitsNothing || e.State != events.StateSucceeded || e.PredictedWait != 0 || e.WorkAhead != 0 {
		c.errorf("over: %+v", e)
	}
}

// explainRetryWait: the pauses between attempts are random, but hardly all of six are too short to be seen.
func explainRetryWait(c *C) {
	var ids []string
	for i := range 3 {
		ids = append(ids, c.submit(fmt.Sprintf(`{"class":"unit","payload":{"sleep_ms":1,"fail":"not yet %c","fail_times":2}}`, 'a'+i)).ID)
	}
	seen := false
	c.eventually("the tasks are over", func() (bool, string) {
		live := 0
		for _, id := range ids {
			e := c.explain(id)
			if e.State.Live() {
				live++
			}
			if e.State != events.StateRetryWait {
				continue
			}
			if seen = true; e.WaitsFor != events.WaitsNotBefore || e.Until == 0 {
				c.errorf("%+v", e)
			}
		}
		return live == 0, fmt.Sprintf("%d are live", live)
	})
	if !seen {
		c.errorf("no pause between two attempts was seen")
	}
}

func explainQuarantined(c *C) {
	id := c.poisoned(1)[0].ID
	if e := c.explain(id); e.WaitsFor != events.WaitsOperator || e.State != events.StateQuarantined {
		c.errorf("%+v", e)
	}
	began := c.cfg.Now()
	c.get("/v1/tasks/"+id+"?wait=25").want(c, http.StatusOK)
	if took := c.cfg.Now().Sub(began); took > 10*time.Second {
		c.errorf("a wait for a quarantined task took %v", took)
	}
}

func explainPaused(c *C) {
	c.hold()
	id := c.submit(unit).ID
	admin[events.Lane](c, "POST", "/v1/admin/lanes/main/pause", "", http.StatusOK)
	c.wants(id, events.WaitsLanePaused)
	admin[events.Lane](c, "POST", "/v1/admin/lanes/main/resume", "", http.StatusOK)
	c.wants(id, events.WaitsSlot)
}

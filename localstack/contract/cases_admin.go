package contract

import (
	"net/http"
	"strings"

	"github.com/lanekeeper/lanekeeper/events"
)

// adminCases change what all tenants see, so each has a server of its own.
func adminCases() []testCase {
	list := []testCase{
		{name: "admin/a tenant's key is 403 on every operator call", run: adminForbidden},
		{name: "admin/pause refuses with reject_lane_paused, resume takes work again", run: adminPause},
		{name: "admin/placements are listed", run: adminPlacements},
		{name: "admin/tenants are created, changed and read", run: adminTenants},
		{name: "admin/a key is shown once, works, and is withdrawn", run: adminKeys},
		{name: "admin/quarantine is listed, filtered and paged", run: adminQuarantine},
		{name: "admin/replays: dry run, start, watch, stop", run: adminReplays},
		{name: "admin/faults of requests are all listed", run: adminFaults},
		{name: "retry/a quarantined task goes on under its id", run: retryQuarantined},
		{name: "retry/a failed task becomes a new one, once", run: retryFailed},
		{name: "retry/a succeeded task: 409 already_finished", run: retrySucceeded},
		{name: "retry/with the reach of a tier that was lowered: refused as a submission is", run: retryLowered},
		{name: "retry/live: 200, finished: 409, unknown and foreign: 404", run: retryOthers},
	}
	return own(limits{}, list)
}

// own gives each case a server of its own.
func own(l limits, list []testCase) []testCase {
	for i := range list {
		run := list[i].run
		list[i].own = true
		list[i].run = func(c *C) { c.on(l, run) }
	}
	return list
}

const unknownID = "01234567-89ab-7def-8123-456789abcdef"

// poison fails for as long as it is tried, hopeless fails at once for good.
const (
	poison   = `{"class":"unit","payload":{"sleep_ms":1,"fail":"poison"}}`
	hopeless = `{"class":"unit","payload":{"sleep_ms":-1}}`
)

// admin makes an operator's call and decodes its answer.
func admin[T any](c *C, method, path, body string, status int) T {
	r := request{method: method, path: path, key: c.cfg.Keys.Admin}
	if body != "" {
		r.body = []byte(body)
	}
	got := c.send(r)
	got.want(c, status)
	if status == http.StatusNoContent {
		var none T
		return none
	}
	return decodeAs[T](c, got)
}

func (c *C) adminRefused(method, path, body string, code events.Code) {
	r := request{method: method, path: path, key: c.cfg.Keys.Admin}
	if body != "" {
		r.body = []byte(body)
	}
	c.send(r).wantCode(c, code)
}

func adminForbidden(c *C) {
	for _, call := range []string{
		"GET /v1/admin/quarantine", "POST /v1/admin/replays", "GET /v1/admin/replays", "GET /v1/admin/replays/" + unknownID,
		"DELETE /v1/admin/replays/" + unknownID, "POST /v1/admin/lanes/main/pause", "POST /v1/admin/lanes/main/resume",
		"GET /v1/admin/placements", "GET /v1/admin/tenants/main", "PUT /v1/admin/tenants/main", "POST /v1/admin/tenants/main/keys", "DELETE /v1/admin/tenants/main/keys/key_1",
	} {
		method, path, _ := strings.Cut(call, " ")
		c.send(request{method: method, path: path, body: []byte(`{}`)}).wantCode(c, events.Forbidden)
		c.send(request{method: method, path: path, key: noKey}).wantCode(c, events.Unauthenticated)
	}
	c.send(request{method: http.MethodPost, path: "/v1/tasks/" + unknownID + "/retry", key: c.cfg.Keys.Admin}).wantCode(c, events.Forbidden)
}

func adminPause(c *C) {
	c.submit(unit)
	if l := admin[events.Lane](c, "POST", "/v1/admin/lanes/main/pause", "", 200); !l.Paused || l.Lane != "main" {
		c.errorf("lane %+v", l)
	}
	admin[events.Lane](c, "POST", "/v1/admin/lanes/main/pause", "", 200)
	p := c.post("/v1/tasks", unit).wantCode(c, events.RejectLanePaused)
	if p.Decision == nil || p.Decision.BindingLimit != "lane_paused" {
		c.errorf("decision %+v", p.Decision)
	}
	if q := c.quote(unit); q.Outcome != events.RejectLanePaused {
		c.errorf("quote %+v", q)
	}
	for _, l := range c.lanes() {
		if l.Paused != (l.Lane == "main") {
			c.errorf("lane %+v", l)
		}
	}
	if l := admin[events.Lane](c, "POST", "/v1/admin/lanes/main/resume", "", 200); l.Paused {
		c.errorf("lane %+v", l)
	}
	c.await("", c.submit(unit).ID)
	c.adminRefused("POST", "/v1/admin/lanes/nowhere/pause", "", events.NotFound)
	c.adminRefused("POST", "/v1/admin/lanes/nowhere/resume", "", events.NotFound)
}

// adminPlacements: the server under test need not have classes that may move.
func adminPlacements(c *C) {
	list := admin[events.PlacementList](c, "GET", "/v1/admin/placements", "", 200)
	for i, p := range list.Items {
		if i > 0 && (list.Items[i-1].Class+"\x00"+list.Items[i-1].Bucket) >= p.Class+"\x00"+p.Bucket {
			c.errorf("%s/%s is not in order", p.Class, p.Bucket)
		}
	}
}

func adminTenants(c *C) {
	c.adminRefused("GET", "/v1/admin/tenants/fresh", "", events.NotFound)
	created := admin[events.Tenant](c, "PUT", "/v1/admin/tenants/fresh", `{"tier":"tested"}`, 201)
	same := admin[events.Tenant](c, "PUT", "/v1/admin/tenants/fresh", `{"tier":"tested"}`, 200)
	moved := admin[events.Tenant](c, "PUT", "/v1/admin/tenants/fresh", `{"tier":"holder"}`, 200)
	read := admin[events.Tenant](c, "GET", "/v1/admin/tenants/fresh", "", 200)
	if created.Tier != "tested" || same.Tier != "tested" || moved.Tier != "holder" || read.Tier != "holder" || read.ID != "fresh" || len(read.Keys) != 0 {
		c.errorf("%+v, %+v, %+v, %+v", created, same, moved, read)
	}
	if seeded := admin[events.Tenant](c, "GET", "/v1/admin/tenants/main", "", 200); len(seeded.Keys) != 1 {
		c.errorf("seeded %+v", seeded)
	}
}

func adminKeys(c *C) {
	key := admin[events.NewKey](c, "POST", "/v1/admin/tenants/holder/keys", "", 201)
	if t := c.submitAs(key.Key, unit, nil); t.Tenant != "holder" {
		c.errorf("the key stands for %s", t.Tenant)
	}
	listed := false
	for _, k := range admin[events.Tenant](c, "GET", "/v1/admin/tenants/holder", "", 200).Keys {
		listed = listed || k.ID == key.ID && k.CreatedAt == key.CreatedAt
	}
	if !listed {
		c.errorf("key %s is not listed", key.ID)
	}
	admin[struct{}](c, "DELETE", "/v1/admin/tenants/holder/keys/"+key.ID, "", 204)
	c.eventually("the withdrawn key stops working", func() (bool, string) {
		got := c.send(request{path: "/v1/lanes", key: key.Key})
		return got.status == http.StatusUnauthorized, got.String()
	})
	c.adminRefused("DELETE", "/v1/admin/tenants/holder/keys/"+key.ID, "", events.NotFound)
	c.adminRefused("DELETE", "/v1/admin/tenants/main/keys/"+key.ID, "", events.NotFound)
	c.adminRefused("POST", "/v1/admin/tenants/nobody/keys", "", events.NotFound)
}

// poisoned submits tasks and waits until they are quarantined.
func (c *C) poisoned(n int) []events.Task {
	tasks := make([]events.Task, n)
	for i := range tasks {
		tasks[i] = c.submit(poison)
	}
	for i := range tasks {
		tasks[i] = c.untilState(tasks[i].ID, events.StateQuarantined)
	}
	return tasks
}

func (c *C) quarantine(query string) []events.QuarantinedTask {
	var all []events.QuarantinedTask
	path := "/v1/admin/quarantine?" + query
	for {
		page := admin[events.QuarantinePage](c, "GET", path, "", 200)
		all = append(all, page.Items...)
		if page.NextCursor == "" {
			return all
		}
		path = "/v1/admin/quarantine?" + query + "&cursor=" + string(page.NextCursor)
	}
}

func adminQuarantine(c *C) {
	tasks := c.poisoned(2)
	for query, want := range map[string]int{
		"": 2, "limit=1": 2, "lane=main": 2, "lane=retry": 0, "class=unit&tenant=main": 2, "class=hold": 0, "tenant=holder": 0,
		"signature=" + tasks[0].Error.Signature: 2, "signature=0000": 0, "min_age_seconds=0": 2, "min_age_seconds=3600": 0,
	} {
		got := c.quarantine(query)
		if len(got) != want {
			c.errorf("%s lists %d, want %d", query, len(got), want)
		}
		for i, q := range got {
			if q.Tenant != "main" || q.Class != "unit" || q.Attempt != 3 || q.Error.Signature != tasks[0].Error.Signature || i > 0 && q.QuarantinedAt < got[i-1].QuarantinedAt {
				c.errorf("%s lists %+v", query, q)
			}
		}
	}
	c.cancel(tasks[0].ID).want(c, http.StatusAccepted)
	if got := c.quarantine(""); len(got) != 1 || got[0].ID != tasks[1].ID {
		c.errorf("after a cancel: %+v", got)
	}
}

func adminReplays(c *C) {
	tasks := c.poisoned(1)
	const filter = `{"filter":{"class":"unit","tenant":"main"}`
	// Of any age is a filter too, and is shown as one.
	admin[events.Replay](c, "POST", "/v1/admin/replays", `{"filter":{"min_age_seconds":0},"dry_run":true}`, 200)
	if dry := admin[events.Replay](c, "POST", "/v1/admin/replays", filter+`,"dry_run":true}`, 200); dry.Matched != 1 || dry.State != events.ReplayDryRun {
		c.errorf("dry run %+v", dry)
	}
	r := admin[events.Replay](c, "POST", "/v1/admin/replays", filter+`,"rate":50,"limit":10}`, 202)
	c.eventually("the replay is finished", func() (bool, string) {
		r = admin[events.Replay](c, "GET", "/v1/admin/replays/"+r.ID, "", 200)
		return r.State == events.ReplayFinished, string(mustJSON(r))
	})
	if r.Admitted != 1 || r.Matched != 1 || r.Limit != 10 || r.Rate != 50 {
		c.errorf("replay %+v", r)
	}
	// It fails again, three times more, and the finished replay lets it lie.
	if t := c.untilState(tasks[0].ID, events.StateQuarantined); t.Attempt != 6 {
		c.errorf("attempt %d after a replay of three", t.Attempt)
	}
	slow := admin[events.Replay](c, "POST", "/v1/admin/replays", filter+`,"rate":0.001}`, 202)
	if got := admin[events.Replay](c, "DELETE", "/v1/admin/replays/"+slow.ID, "", 200); got.State != events.ReplayStopped {
		c.errorf("stopped %+v", got)
	}
	admin[events.Replay](c, "DELETE", "/v1/admin/replays/"+r.ID, "", 200)
	page := admin[events.ReplayPage](c, "GET", "/v1/admin/replays?limit=100", "", 200)
	if len(page.Items) != 2 || page.Items[0].ID != slow.ID || page.Items[1].ID != r.ID {
		c.errorf("replays %+v", page.Items)
	}
	c.adminRefused("GET", "/v1/admin/replays/"+unknownID, "", events.NotFound)
	c.adminRefused("DELETE", "/v1/admin/replays/"+unknownID, "", events.NotFound)
	c.adminRefused("GET", "/v1/admin/replays/x", "", events.NotFound)
}

func adminFaults(c *C) {
	for _, f := range []struct{ method, path, body, at string }{
		{"PUT", "/v1/admin/tenants/Main", `{"tier":"tested"}`, ""},
		{"PUT", "/v1/admin/tenants/main", `{}`, "/tier"},
		{"PUT", "/v1/admin/tenants/main", `{"tier":"none"}`, "/tier"},
		{"PUT", "/v1/admin/tenants/main", `{"tier":7,"name":"x"}`, "/name"},
		{"PUT", "/v1/admin/tenants/main", `not json`, ""},
		{"POST", "/v1/admin/replays", `{}`, "/filter"},
		{"POST", "/v1/admin/replays", `{"filter":{}}`, "/filter"},
		{"POST", "/v1/admin/replays", `{"filter":{"lane":7},"rate":0,"limit":1.5,"dry_run":1}`, "/limit"},
		{"POST", "/v1/admin/replays", `{"filter":{"what":"ever"}}`, "/filter/what"},
		{"GET", "/v1/admin/quarantine?limit=101", "", "query:limit"},
		{"GET", "/v1/admin/quarantine?cursor=garbage", "", "query:cursor"},
		{"GET", "/v1/admin/quarantine?lane=A", "", "query:lane"},
		{"GET", "/v1/admin/quarantine?min_age_seconds=-1", "", "query:min_age_seconds"},
		{"GET", "/v1/admin/replays?limit=0", "", "query:limit"},
		{"GET", "/v1/admin/replays?cursor=garbage", "", "query:cursor"},
		{"GET", "/v1/admin/replays?cursor=", "", "query:cursor"},
		{"GET", "/v1/admin/quarantine?cursor=", "", "query:cursor"},
		{"GET", "/v1/admin/quarantine?lane=a&lane=b", "", "query:lane"},
	} {
		r := request{method: f.method, path: f.path, key: c.cfg.Keys.Admin}
		if f.body != "" {
			r.body = []byte(f.body)
		}
		c.send(r).wantFaults(c, f.at)
	}
	for _, path := range []string{"/v1/admin/tenants/main", "/v1/admin/replays"} {
		method := map[bool]string{true: "PUT", false: "POST"}[strings.Contains(path, "tenants")]
		c.send(request{method: method, path: path, key: c.cfg.Keys.Admin, body: []byte(`{"tier":"tested"}`),
			header: http.Header{"Content-Type": {"text/plain"}}}).wantCode(c, events.UnsupportedMediaType)
		c.send(request{method: method, path: path, key: c.cfg.Keys.Admin, body: padded(1<<20 + 1)}).wantCode(c, events.PayloadTooLarge)
		c.adminRefused("PATCH", path, "", events.MethodNotAllowed)
	}
}

func (c *C) retry(key, id string) reply {
	return c.send(request{method: http.MethodPost, path: "/v1/tasks/" + id + "/retry", key: key})
}

func retryQuarantined(c *C) {
	was := c.poisoned(1)[0]
	got := c.retry("", was.ID)
	got.want(c, http.StatusAccepted)
	t, err := got.task()
	c.must(err)
	if t.ID != was.ID || !t.State.Live() || t.Error != nil || t.DeadlineAt <= was.DeadlineAt || t.SubmittedAt != was.SubmittedAt {
		c.errorf("retried %+v", t)
	}
	if end := c.untilState(was.ID, events.StateQuarantined); end.Attempt != 6 {
		c.errorf("attempts are not afresh: %d", end.Attempt)
	}
}

func retryFailed(c *C) {
	failed := c.await("", c.submit(hopeless).ID)
	if failed.State != events.StateFailed {
		c.fatalf("it is %s", failed.State)
	}
	got := c.retry("", failed.ID)
	got.want(c, http.StatusAccepted)
	t, err := got.task()
	c.must(err)
	if t.ID == failed.ID || t.Class != failed.Class || t.Attempt != 0 {
		c.errorf("retried %+v", t)
	}
	again := c.retry("", failed.ID)
	again.want(c, http.StatusOK)
	if twice, err := again.task(); err != nil || twice.ID != t.ID {
		c.errorf("retried again: %s, %v", twice.ID, err)
	}
	if now := c.await("", failed.ID); now.State != events.StateFailed || now.FinishedAt != failed.FinishedAt {
		c.errorf("the failed task is %s", now.State)
	}
	c.await("", t.ID)
}

func retryOthers(c *C) {
	c.hold()
	live := c.submit(unit)
	got := c.retry("", live.ID)
	got.want(c, http.StatusOK)
	if t, err := got.task(); err != nil || t.ID != live.ID {
		c.errorf("%s, %v", t.ID, err)
	}
	c.retry(c.cfg.Keys.B, live.ID).wantCode(c, events.NotFound)
	c.retry("", unknownID).wantCode(c, events.NotFound)
	c.retry("", "x").wantCode(c, events.NotFound)
	c.cancel(live.ID).want(c, http.StatusAccepted)
	c.retry("", live.ID).wantCode(c, events.AlreadyFinished)
}

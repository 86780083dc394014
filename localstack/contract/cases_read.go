package contract

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
)

func readCases() []testCase {
	var list []testCase
	for _, odd := range [][2]string{
		{"unknown", "01234567-89ab-cdef"}, {"with ../ escaped", "..%2F..%2Fetc%2Fpasswd"}, {"with ../ as sent", "../../etc/passwd"},
		{"two dots", ".."}, {"one character", "x"}, {"300 characters", strings.Repeat("a", 300)}, {"a NUL", "abc%00defgh"},
		{"beyond ASCII", "%C3%A4%F0%9F%9A%80aaaa"}, {"bytes that are not UTF-8", "aaaa%FF%FEaaaa"}, {"a hash", "abcd%23efgh"},
		{"a space", "abcd%20efgh"},
	} {
		list = append(list, testCase{name: "read/an id: " + odd[0] + ": is 404", run: func(c *C) {
			c.get("/v1/tasks/"+odd[1]).wantCode(c, events.NotFound)
			c.send(request{method: http.MethodPost, path: "/v1/tasks/" + odd[1] + "/cancel"}).wantCode(c, events.NotFound)
		}})
	}
	for _, wait := range []string{"26", "-1", "abc", "1e400", "NaN", "99999999999999999999", "5s"} {
		list = append(list, testCase{name: "read/wait=" + wait + " is 400", run: func(c *C) {
			id := c.submit(short).ID
			c.get("/v1/tasks/"+id+"?wait="+wait).wantFaults(c, "query:wait")
		}})
	}
	return append(list,
		testCase{name: "read/a foreign id is the same 404 as an unknown one", run: foreignIsUnknown},
		testCase{name: "read/wait=25 answers as soon as it is terminal", run: func(c *C) {
			id := c.submit(`{"class":"mail.send","payload":{"sleep_ms":300}}`).ID
			begun := c.cfg.Now()
			got := c.get("/v1/tasks/" + id + "?wait=25")
			t, err := got.task()
			c.must(err)
			if took := c.cfg.Now().Sub(begun); !t.State.Terminal() || took > 20*time.Second {
				c.errorf("after %v it is %s", took, t.State)
			}
		}},
		testCase{name: "read/wait=1 answers after a second with what there is", run: func(c *C) {
			id := c.submit(`{"class":"agent.lint","payload":{"sleep_ms":4000}}`).ID
			begun := c.cfg.Now()
			got := c.get("/v1/tasks/" + id + "?wait=1")
			t, err := got.task()
			c.must(err)
			if took := c.cfg.Now().Sub(begun); !t.State.Live() || took < 900*time.Millisecond || took > 3500*time.Millisecond {
				c.errorf("after %v it is %s", took, t.State)
			}
		}},
		testCase{name: "read/wait=0 answers at once", run: func(c *C) {
			id := c.submit(`{"class":"agent.lint","payload":{"sleep_ms":2000}}`).ID
			begun := c.cfg.Now()
			if c.get("/v1/tasks/"+id+"?wait=0").want(c, http.StatusOK); c.cfg.Now().Sub(begun) > time.Second {
				c.errorf("took %v", c.cfg.Now().Sub(begun))
			}
		}},
		testCase{name: "read/a running task shows its attempt", run: func(c *C) {
			id := c.submit(`{"class":"agent.lint","payload":{"sleep_ms":2000}}`).ID
			t := c.untilState(id, events.StateRunning)
			if t.Attempt != 1 || len(t.Attempts) != 1 || t.Attempts[0].Outcome != events.AttemptRunning {
				c.errorf("attempt %d, attempts %+v", t.Attempt, t.Attempts)
			}
		}},
	)
}

// foreignIsUnknown: not a byte tells a tenant whether another tenant has a task of that id.
func foreignIsUnknown(c *C) {
	foreign := c.submitAs(c.cfg.Keys.B, short, nil).ID
	unknown := flipped(foreign)
	for _, r := range []request{
		{method: http.MethodGet, path: "/v1/tasks/%s"},
		{method: http.MethodGet, path: "/v1/tasks/%s?wait=1"},
		{method: http.MethodPost, path: "/v1/tasks/%s/cancel"},
	} {
		ask := func(id string) reply {
			r := r
			r.path = fmt.Sprintf(r.path, id)
			got := c.send(r)
			got.wantCode(c, events.NotFound)
			return got
		}
		f, u := ask(foreign), ask(unknown)
		if got, want := strings.ReplaceAll(string(f.body), foreign, "ID"), strings.ReplaceAll(string(u.body), unknown, "ID"); got != want {
			c.errorf("%s %s: foreign %s, unknown %s", r.method, r.path, got, want)
		}
		for _, h := range []http.Header{f.header, u.header} {
			h.Del("Date")
			h.Del("X-Request-Id")
			h.Del("Apigw-Requestid") // the gateway's own
		}
		if got, want := fmt.Sprint(f.header), fmt.Sprint(u.header); got != want {
			c.errorf("%s %s: headers foreign %s, unknown %s", r.method, r.path, got, want)
		}
	}
	if t := c.await(c.cfg.Keys.B, foreign); t.State != events.StateSucceeded || t.CancelRequested {
		c.errorf("a foreign cancel did something: %s, cancel_requested %v", t.State, t.CancelRequested)
	}
}

// flipped gives another id of the same form.
func flipped(id string) string {
	b := []byte(id)
	last := len(b) - 1
	if b[last] == '0' {
		b[last] = '1'
	} else {
		b[last] = '0'
	}
	return string(b)
}

func listCases() []testCase {
	var list []testCase
	for _, q := range [][2]string{
		{"limit", "0"}, {"limit", "101"}, {"limit", "-1"}, {"limit", "abc"}, {"limit", "1.5"}, {"limit", "99999999999999999999"},
		{"cursor", "garbage"}, {"cursor", "%00%FF"}, {"cursor", "e30="}, {"state", "pending"}, {"state", "SUCCEEDED"},
		{"class", ""}, {"class", "Mail.Send"}, {"class", "mail..send"}, {"class", "mail%20send"}, {"class", strings.Repeat("a", 65)},
	} {
		list = append(list, testCase{name: "list/" + q[0] + "=" + q[1] + " is 400", run: func(c *C) {
			c.get("/v1/tasks?"+q[0]+"="+q[1]).wantFaults(c, "query:"+q[0])
		}})
	}
	return append(list,
		testCase{name: "list/several wrong parameters are all listed", run: func(c *C) {
			c.get("/v1/tasks?limit=0&state=x&cursor=garbage").wantFaults(c, "query:limit", "query:state", "query:cursor")
		}},
		testCase{name: "list/a parameter given twice is 400", run: func(c *C) {
			c.get("/v1/tasks?state=queued&state=running").wantFaults(c, "query:state")
			c.get("/v1/tasks?class=a&class=a").wantFaults(c, "query:class")
		}},
		testCase{name: "list/paging by id, one at a time, finds each once", run: listPaging},
		testCase{name: "list/state and class filter", run: listFilter},
		testCase{name: "list/a class that is not configured has no tasks", run: func(c *C) {
			if tasks := c.all("", "class=no.such_class"); len(tasks) > 0 {
				c.errorf("%d tasks", len(tasks))
			}
		}},
		testCase{name: "list/only one's own, even with another's cursor", run: listForeign},
	)
}

// all pages through a list and gives its tasks.
func (c *C) all(key, query string) []events.Task {
	var tasks []events.Task
	cursor := ""
	for range 10_000 {
		path := "/v1/tasks?" + query
		if cursor != "" {
			path += "&cursor=" + url.QueryEscape(cursor)
		}
		p := c.page(key, path)
		tasks = append(tasks, p.Items...)
		if p.NextCursor == "" {
			return tasks
		}
		cursor = string(p.NextCursor)
	}
	c.fatalf("the list does not end")
	return nil
}

func (c *C) page(key, path string) events.TaskPage {
	got := c.send(request{path: path, key: key})
	got.want(c, http.StatusOK)
	return decodeAs[events.TaskPage](c, got)
}

func listPaging(c *C) {
	mine := map[string]bool{}
	for range 3 {
		mine[c.submit(short).ID] = true
	}
	c.eventually("the list shows what was submitted", func() (bool, string) {
		last, found := "", 0
		for _, t := range c.all("", "limit=1&class=mail.send") {
			if t.ID <= last {
				c.fatalf("id %s comes after %s", t.ID, last)
			}
			last = t.ID
			if mine[t.ID] {
				found++
			}
		}
		return found == len(mine), fmt.Sprintf("%d of %d there", found, len(mine))
	})
	if p := c.page("", "/v1/tasks?limit=2"); len(p.Items) > 2 {
		c.errorf("limit=2 gave %d", len(p.Items))
	}
}

func listFilter(c *C) {
	done := c.await("", c.submit(`{"class":"agent.lint","payload":{"sleep_ms":1}}`).ID)
	c.eventually("the list shows the finished task", func() (bool, string) {
		found := false
		for _, t := range c.all("", "state=succeeded&class=agent.lint&limit=100") {
			if t.State != events.StateSucceeded || t.Class != "agent.lint" {
				c.fatalf("%s of class %s is %s", t.ID, t.Class, t.State)
			}
			found = found || t.ID == done.ID
		}
		return found, "not there"
	})
	for _, t := range c.all("", "state=failed&limit=100") {
		if t.ID == done.ID {
			c.errorf("a succeeded task is listed as failed")
		}
	}
}

func listForeign(c *C) {
	own := c.submitAs(c.cfg.Keys.B, short, nil)
	c.submit(short)
	c.submit(short)
	for _, t := range c.all(c.cfg.Keys.B, "limit=100") {
		if t.Tenant != own.Tenant {
			c.errorf("a task of %s in the list of %s", t.Tenant, own.Tenant)
		}
	}
	cursor := string(c.page("", "/v1/tasks?limit=1").NextCursor)
	if cursor == "" {
		c.fatalf("no cursor after one of several tasks")
	}
	got := c.send(request{path: "/v1/tasks?limit=100&cursor=" + url.QueryEscape(cursor), key: c.cfg.Keys.B})
	if got.status != http.StatusOK {
		got.wantFaults(c, "query:cursor")
		return
	}
	for _, t := range decodeAs[events.TaskPage](c, got).Items {
		if t.Tenant != own.Tenant {
			c.errorf("another's cursor shows a task of %s", t.Tenant)
		}
	}
}

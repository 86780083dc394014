package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
)

// Keys of the configuration.
const (
	alpha    = "demo-alpha"
	beta     = "demo-beta"
	gamma    = "demo-gamma"
	burstA   = "demo-burst-a"
	burstB   = "demo-burst-b"
	operator = "demo-admin"
)

var client = &http.Client{Timeout: 60 * time.Second}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) String() string { return fmt.Sprintf("%d %.300s", a.status, a.body) }

func (a answer) problem() events.Problem {
	var p events.Problem
	_ = json.Unmarshal(a.body, &p)
	return p
}

// call sends one request. Errors of the connection end the case.
func (c *C) call(method, path, key, body string, header ...string) answer {
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(c.Context, method, c.cfg.Base+path, in)
	c.Must(err)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	c.Must(err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	c.Must(err)
	return answer{resp.StatusCode, resp.Header, bytes.TrimSpace(text)}
}

// want ends the case unless the status is right, and decodes the body into v.
func (c *C) want(a answer, status int, v any) {
	if a.status != status {
		c.Failf("%s; want %d", a, status)
	}
	if v != nil {
		if err := json.Unmarshal(a.body, v); err != nil {
			c.Failf("%s: %w", a, err)
		}
	}
}

// wantCode ends the case unless the answer is the problem with this code.
func (c *C) wantCode(a answer, code events.Code) events.Problem {
	p := a.problem()
	if p.Code != code || a.status != code.Status() {
		c.Failf("%s; want %d %s", a, code.Status(), code)
	}
	return p
}

// retryAfter is the answer's guidance in seconds, which the header and the body must agree on.
func (c *C) retryAfter(a answer) int64 {
	n, err := strconv.ParseInt(a.header.Get("Retry-After"), 10, 64)
	if err != nil || n < 1 || a.problem().RetryAfterSeconds != n {
		c.Failf("%s: Retry-After is %q", a, a.header.Get("Retry-After"))
	}
	return n
}

// Submit submits a task that must be accepted.
func (c *C) Submit(key, class, payload string, more ...string) events.Task {
	body := fmt.Sprintf(`{"class": %q, "payload": %s%s}`, class, payload, strings.Join(more, ""))
	var t events.Task
	c.want(c.call(http.MethodPost, "/v1/tasks", key, body), http.StatusAccepted, &t)
	return t
}

// TrySubmit is Submit for a task that may be refused; the error is the answer.
func (c *C) TrySubmit(key, class, payload string) (events.Task, error) {
	var t events.Task
	a := c.call(http.MethodPost, "/v1/tasks", key, fmt.Sprintf(`{"class": %q, "payload": %s}`, class, payload))
	if a.status != http.StatusAccepted {
		return t, fmt.Errorf("%s", a)
	}
	c.want(a, http.StatusAccepted, &t)
	return t, nil
}

func (c *C) get(key, id, query string) events.Task {
	var t events.Task
	c.want(c.call(http.MethodGet, "/v1/tasks/"+id+query, key, ""), http.StatusOK, &t)
	return t
}

// Until follows a task until it is in the state; an end in another one ends the case.
func (c *C) Until(key, id string, state events.State) events.Task {
	var t events.Task
	c.Eventually("task "+id+" "+string(state), func() (bool, string) {
		query := ""
		if !state.Live() {
			query = "?wait=5"
		}
		t = c.get(key, id, query)
		if t.State != state && !t.State.Live() && !(t.State == events.StateQuarantined && state == events.StateSucceeded) {
			c.Failf("task %s is %s (%+v); want %s", id, t.State, t.Error, state)
		}
		return t.State == state, "it is " + string(t.State)
	})
	return t
}

// succeed submits a task and waits until it has succeeded.
func (c *C) succeed(key, class, payload string, more ...string) events.Task {
	return c.Until(key, c.Submit(key, class, payload, more...).ID, events.StateSucceeded)
}

func (c *C) lane(name string) events.Lane {
	var list events.LaneList
	c.want(c.call(http.MethodGet, "/v1/lanes", alpha, ""), http.StatusOK, &list)
	for _, l := range list.Items {
		if l.Lane == name {
			return l
		}
	}
	c.Failf("no lane %s in %+v", name, list)
	return events.Lane{}
}

// idle waits until nothing is left in a lane.
func (c *C) idle(name string) {
	c.Eventually("lane "+name+" idle", func() (bool, string) {
		l := c.lane(name)
		return l.Waiting == 0 && l.Queued == 0 && l.Running == 0 && l.QueuedWork == 0, fmt.Sprintf("%+v", l)
	})
}

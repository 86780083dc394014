package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/apitest"
)

// suite is what the cases of one run share.
type suite struct {
	ctx    context.Context
	cfg    Config
	v      *apitest.Validator
	client *http.Client

	mu       sync.Mutex
	baseline float64 // resident bytes at the beginning; 0 unknown
}

func newSuite(ctx context.Context, cfg Config, v *apitest.Validator) *suite {
	return &suite{ctx: ctx, cfg: cfg, v: v, client: &http.Client{
		Timeout:       40 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 128},
	}}
}

// request is one call. The zero value of a field means the usual: GET, tenant A's key, JSON where there is a body.
type request struct {
	method, path string // path as sent, with query
	key          string // bearer key; noKey for none
	body         []byte
	header       http.Header // added last, replacing what is there
	noType       bool        // a body without Content-Type
	gateway      bool        // an answer of the gateway itself is right too
}

// noKey stands for a call without credentials.
const noKey = "\x00"

// reply is an answer that has been held against the document already.
type reply struct {
	method, path string
	status       int
	header       http.Header
	body         []byte
}

// do sends a request; an answer that violates the document is a fault of the case. Safe in several goroutines.
func (c *C) do(r request) (reply, error) {
	if r.method == "" {
		r.method = http.MethodGet
	}
	u, err := url.Parse(strings.TrimSuffix(c.cfg.Base, "/") + r.path)
	if err != nil {
		return reply{}, err
	}
	req := (&http.Request{Method: r.method, URL: u, Host: u.Host, Header: http.Header{}}).WithContext(c.ctx)
	if r.body != nil {
		req.Body = io.NopCloser(bytes.NewReader(r.body))
		req.ContentLength = int64(len(r.body))
		if !r.noType {
			req.Header.Set("Content-Type", events.MediaJSON)
		}
	}
	switch r.key {
	case noKey:
	case "":
		req.Header.Set("Authorization", "Bearer "+c.cfg.Keys.A)
	default:
		req.Header.Set("Authorization", "Bearer "+r.key)
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return reply{}, fmt.Errorf("%s %s: %w", r.method, shorten(r.path), err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return reply{}, fmt.Errorf("%s %s: reading the answer: %w", r.method, shorten(r.path), err)
	}
	v := c.v
	if r.gateway {
		v = v.ExemptGateway()
	}
	if err := v.Check(r.method, u.EscapedPath(), resp.StatusCode, resp.Header, body); err != nil {
		c.errorf("violates the document: %v; the body begins %.200q", err, body)
	}
	out := reply{r.method, r.path, resp.StatusCode, resp.Header, body}
	if r.method == http.MethodPost && u.Path == "/v1/tasks" && out.status == http.StatusAccepted {
		if t, err := out.task(); err == nil {
			key := r.key
			if key == "" {
				key = c.cfg.Keys.A
			}
			c.mu.Lock()
			c.mine = append(c.mine, owned{key, t.ID})
			c.mu.Unlock()
		}
	}
	return out, nil
}

// send is do for a case's own goroutine: without an answer the case ends.
func (c *C) send(r request) reply {
	out, err := c.do(r)
	c.must(err)
	return out
}

func (c *C) get(path string) reply { return c.send(request{path: path}) }

// post sends a text as a JSON body.
func (c *C) post(path, body string) reply {
	return c.send(request{method: http.MethodPost, path: path, body: []byte(body)})
}

// submit posts a task that is meant to be accepted, obeying a rate limit that it may run into, and gives the task.
func (c *C) submit(body string) events.Task { return c.submitAs("", body, nil) }

func (c *C) submitAs(key, body string, header http.Header) events.Task {
	for {
		got := c.send(request{method: http.MethodPost, path: "/v1/tasks", key: key, body: []byte(body), header: header})
		if p, err := got.problem(); err == nil && p.Code == events.RejectRateLimit {
			c.pause(got)
			continue
		}
		got.want(c, http.StatusAccepted)
		t, err := got.task()
		c.must(err)
		return t
	}
}

// pause obeys Retry-After.
func (c *C) pause(r reply) {
	seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
	if err != nil || seconds < 1 || seconds > 30 {
		c.fatalf("Retry-After %q is not a time to obey here", r.header.Get("Retry-After"))
	}
	select {
	case <-c.ctx.Done():
		c.fatalf("%v", c.ctx.Err())
	case <-time.After(time.Duration(seconds) * time.Second):
	}
}

// await follows a task of key's until it is not live any more.
func (c *C) await(key, id string) events.Task {
	deadline := c.cfg.Now().Add(c.cfg.Patience)
	for {
		got := c.send(request{path: "/v1/tasks/" + id + "?wait=20", key: key})
		got.want(c, http.StatusOK)
		t, err := got.task()
		c.must(err)
		if !t.State.Live() {
			return t
		}
		if c.cfg.Now().After(deadline) {
			c.fatalf("task %s is still %s after %v", id, t.State, c.cfg.Patience)
		}
	}
}

// untilState follows a task until it is in one of the states.
func (c *C) untilState(id string, states ...events.State) events.Task {
	var t events.Task
	c.eventually(fmt.Sprintf("task %s in %v", id, states), func() (bool, string) {
		got := c.get("/v1/tasks/" + id)
		got.want(c, http.StatusOK)
		var err error
		t, err = got.task()
		c.must(err)
		for _, s := range states {
			if t.State == s {
				return true, ""
			}
		}
		return false, "it is " + string(t.State)
	})
	return t
}

// cleanUp cancels what the case left and waits for its end, so that the next case finds an idle server.
func (c *C) cleanUp() {
	for _, o := range c.mine {
		got := c.send(request{method: http.MethodPost, path: "/v1/tasks/" + o.id + "/cancel", key: o.key})
		if got.status != http.StatusOK && got.status != http.StatusAccepted && got.status != http.StatusConflict {
			c.errorf("cancelling %s at the end: %d", o.id, got.status)
		}
	}
	for _, o := range c.mine {
		if t := c.await(o.key, o.id); t.State == events.StateQuarantined {
			c.errorf("task %s is quarantined although it was cancelled", o.id)
		}
	}
}

func (r reply) task() (events.Task, error) {
	var t events.Task
	if err := json.Unmarshal(r.body, &t); err != nil || t.ID == "" {
		return t, errors.Join(fmt.Errorf("%s: the answer is not a task", r), err)
	}
	return t, nil
}

func (r reply) problem() (events.Problem, error) {
	var p events.Problem
	if r.status < 400 {
		return p, fmt.Errorf("%s: not a problem", r)
	}
	if err := json.Unmarshal(r.body, &p); err != nil || p.Code == "" {
		return p, errors.Join(fmt.Errorf("%s: the answer is not a problem", r), err)
	}
	return p, nil
}

// String shows the answer on one line.
func (r reply) String() string {
	return fmt.Sprintf("%s %s → %d %.300s", r.method, shorten(r.path), r.status, bytes.TrimSpace(r.body))
}

func shorten(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

// want ends the case unless the status is right.
func (r reply) want(c *C, status int) {
	if r.status != status {
		c.fatalf("%s; want %d", r, status)
	}
}

// wantCode notes a fault unless the answer is the problem with this code, under its status.
func (r reply) wantCode(c *C, code events.Code) events.Problem {
	p, err := r.problem()
	if err != nil || p.Code != code || r.status != code.Status() {
		c.errorf("%s; want %d %s", r, code.Status(), code)
	}
	return p
}

// wantFaults is wantCode for invalid_request, with faults at these pointers at least.
func (r reply) wantFaults(c *C, pointers ...string) {
	p := r.wantCode(c, events.InvalidRequest)
	for _, want := range pointers {
		found := false
		for _, e := range p.Errors {
			found = found || e.Pointer == want
		}
		if !found && p.Code == events.InvalidRequest {
			c.errorf("%s; no fault at %q", r, want)
		}
	}
}

package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/prom"
)

// client speaks HTTP with the server under test.
type client struct {
	base string
	http *http.Client
}

func newClient(base string, transport http.RoundTripper) *client {
	// Longer than the longest wait a GET may ask for.
	return &client{strings.TrimSuffix(base, "/"), &http.Client{Timeout: 40 * time.Second, Transport: transport}}
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (c *client) do(ctx context.Context, method, path, key string, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if body != nil {
		req.Header.Set("Content-Type", events.MediaJSON)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	return answer{resp.StatusCode, resp.Header, text}, err
}

// get reads what a path holds into v.
func (c *client) get(ctx context.Context, path, key string, v any) error {
	a, err := c.do(ctx, http.MethodGet, path, key, nil)
	if err != nil {
		return err
	}
	return a.decode(http.StatusOK, v)
}

// decode reads the body of an answer that must have this status.
func (a answer) decode(status int, v any) error {
	if a.status != status {
		return fmt.Errorf("status %d, want %d: %.300s", a.status, status, bytes.TrimSpace(a.body))
	}
	return json.Unmarshal(a.body, v)
}

func (c *client) task(ctx context.Context, key, id, query string) (t events.Task, err error) {
	err = c.get(ctx, events.TaskPath(id)+query, key, &t)
	return t, err
}

// lane finds one lane in the list.
func (c *client) lane(ctx context.Context, key, name string) (events.Lane, error) {
	var list events.LaneList
	if err := c.get(ctx, "/v1/lanes", key, &list); err != nil {
		return events.Lane{}, err
	}
	for _, l := range list.Items {
		if l.Lane == name {
			return l, nil
		}
	}
	return events.Lane{}, fmt.Errorf("there is no lane %q", name)
}

func (c *client) quote(ctx context.Context, key string, body []byte) (q events.Quote, err error) {
	a, err := c.do(ctx, http.MethodPost, "/v1/quotes", key, body)
	if err != nil {
		return q, err
	}
	err = a.decode(http.StatusOK, &q)
	return q, err
}

// ids lists all tasks of a tenant.
func (c *client) ids(ctx context.Context, key string) ([]string, error) {
	var ids []string
	for cursor := ""; ; {
		var page events.TaskPage
		if err := c.get(ctx, "/v1/tasks?limit=100"+cursor, key, &page); err != nil {
			return nil, err
		}
		for _, t := range page.Items {
			ids = append(ids, t.ID)
		}
		if page.NextCursor == "" {
			return ids, nil
		}
		cursor = "&cursor=" + string(page.NextCursor)
	}
}

func (c *client) metrics(ctx context.Context) (prom.Families, error) {
	a, err := c.do(ctx, http.MethodGet, "/metrics", "", nil)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, fmt.Errorf("GET /metrics: status %d", a.status)
	}
	return prom.Parse(bytes.NewReader(a.body))
}

// sent is one submission and what was said to it.
type sent struct {
	tenant  tenant
	request request
	stray   bool // accepted although a step meant it to be refused: that step's matter

	answeredMS int64 // when the answer came, Unix milliseconds
	status     int
	header     http.Header
	task       events.Task     // accepted; later as last read
	problem    *events.Problem // refused
}

func (s *sent) accepted() bool { return s.problem == nil }

// request is the body of a submission.
type request struct {
	Class   string         `json:"class"`
	Payload payload        `json:"payload"`
	Within  events.Seconds `json:"deadline_seconds"`
}

type payload struct {
	SleepMS int64 `json:"sleep_ms"`
}

func (r request) body() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic("demo: " + err.Error()) // numbers and texts
	}
	return b
}

// submit sends a submission. Both answers, 202 and a problem, are no error.
func (c *client) submit(ctx context.Context, who tenant, r request) (*sent, error) {
	a, err := c.do(ctx, http.MethodPost, "/v1/tasks", who.key, r.body())
	if err != nil {
		return nil, err
	}
	s := &sent{tenant: who, request: r, status: a.status, header: a.header}
	if a.status == http.StatusAccepted {
		if err := json.Unmarshal(a.body, &s.task); err != nil || s.task.ID == "" {
			return nil, errors.Join(fmt.Errorf("status 202 without a task: %.300s", a.body), err)
		}
		return s, nil
	}
	s.problem = &events.Problem{}
	if err := json.Unmarshal(a.body, s.problem); err != nil || s.problem.Code == "" {
		return nil, errors.Join(fmt.Errorf("status %d without a problem: %.300s", a.status, a.body), err)
	}
	return s, nil
}

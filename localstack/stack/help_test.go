package stack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/stack"
	"github.com/lanekeeper/lanekeeper/pkg/apitest"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// config is one working lane and the retry lane, with short times. Class job is
// retried, class once is not.
const config = `version: 1
tasks: {retention: 24h, max_deadline: 336h, resend_after: 1s}
lanes:
  main:
    owner: test
    slo: {queue_wait_p95: 1m, oldest_age: 1m}
    workers: {max_concurrency: 4, reserved: 4}
    attempt_timeout: 5s
    safety_margin: 100ms
    backlog: {max_work: 24h}
    retry: {max_attempts: 5, immediate: 1, backoff_base: 50ms, backoff_cap: 100ms, quarantine_after: 2}
    dlq: {max_receives: 5}
    brakes: []
  side:
    owner: test
    slo: {queue_wait_p95: 1m, oldest_age: 1m}
    workers: {max_concurrency: 4, reserved: 4}
    attempt_timeout: 5s
    safety_margin: 100ms
    backlog: {max_work: 24h}
    retry: {max_attempts: 2, backoff_base: 50ms, backoff_cap: 100ms}
    dlq: {max_receives: 5}
    brakes: []
  retry:
    role: retry
    share: 0.2
    owner: test
    slo: {queue_wait_p95: 1m, oldest_age: 1m}
    attempt_timeout: 5s
    safety_margin: 100ms
    backlog: {max_work: 24h}
    retry: {max_attempts: 3}
    dlq: {max_receives: 5}
    brakes: []
classes:
  job: {lane: main, prior: {p50: 50ms, p95: 200ms}, cap: 1m}
  once: {lane: main, retry: none, prior: {p50: 50ms, p95: 200ms}, cap: 1m}
  aside: {lane: side, prior: {p50: 50ms, p95: 200ms}, cap: 1m}
tiers:
  basic: {max_queued_work: 1h, max_active: 50, max_priority: critical}
  small: {max_queued_work: 1s, max_active: 1}
priorities: {normal: {max_wait: 1h, max_duration: 2h}}
tenants:
  alpha: {tier: basic, keys: [key-alpha]}
  beta: {tier: basic, keys: [key-beta]}
operators: {keys: [key-admin]}
`

const (
	alpha = "key-alpha"
	beta  = "key-beta"
	admin = "key-admin"
)

// server is a stack under test. Every answer is held against the document.
type server struct {
	*stack.Stack
	t      *testing.T
	client *http.Client
}

func start(t *testing.T, mux *worker.Mux) *server {
	t.Helper()
	return startIn(t, t.TempDir(), mux)
}

func startIn(t *testing.T, dir string, mux *worker.Mux, set ...func(*stack.Options)) *server {
	t.Helper()
	cfg, err := policyfile.Parse("test.yaml", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	o := stack.Options{Config: cfg, DataDir: dir, Mux: mux}
	for _, f := range set {
		f(&o)
	}
	s, err := stack.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	v, err := apitest.New()
	if err != nil {
		t.Fatal(err)
	}
	return &server{Stack: s, t: t, client: &http.Client{Timeout: 30 * time.Second, Transport: v.WrapHandler(s.Handler(), func(err error) { t.Error(err) })}}
}

func stop(t *testing.T, s *stack.Stack) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Logf("stop: %v", err)
	}
}

// call makes a call, wants a status and decodes the answer.
func (s *server) call(key, method, path string, body any, status int, into any) http.Header {
	s.t.Helper()
	var sent io.Reader
	if body != nil {
		raw, isRaw := body.(string)
		if !isRaw {
			b, err := json.Marshal(body)
			if err != nil {
				s.t.Fatal(err)
			}
			raw = string(b)
		}
		sent = bytes.NewReader([]byte(raw))
	}
	req, err := http.NewRequest(method, "http://localhost"+path, sent)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode != status {
		s.t.Fatalf("%s %s: %d, want %d: %s", method, path, resp.StatusCode, status, got)
	}
	if into != nil {
		if err := json.Unmarshal(got, into); err != nil {
			s.t.Fatalf("%s %s: %v: %s", method, path, err, got)
		}
	}
	return resp.Header
}

// refused makes a call that is answered with a problem.
func (s *server) refused(key, method, path string, body any, code events.Code) events.Problem {
	s.t.Helper()
	var p events.Problem
	s.call(key, method, path, body, code.Status(), &p)
	if p.Code != code {
		s.t.Fatalf("%s %s: %s, want %s: %s", method, path, p.Code, code, p.Detail)
	}
	return p
}

func (s *server) submit(key, class string, payload any) events.Task {
	s.t.Helper()
	var t events.Task
	s.call(key, "POST", "/v1/tasks", map[string]any{"class": class, "payload": payload}, 202, &t)
	return t
}

func (s *server) task(key, id string) events.Task {
	s.t.Helper()
	var t events.Task
	s.call(key, "GET", "/v1/tasks/"+id, nil, 200, &t)
	return t
}

// until waits for a task to be in a state, for half a minute at most.
func (s *server) until(key, id string, state events.State) events.Task {
	s.t.Helper()
	var t events.Task
	s.eventually(func() (bool, string) {
		t = s.task(key, id)
		return t.State == state, fmt.Sprintf("task is %s, want %s: %+v", t.State, state, t.Attempts)
	})
	return t
}

func (s *server) eventually(probe func() (bool, string)) {
	s.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		ok, said := probe()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal(said)
		}
		time.Sleep(20 * time.Millisecond) // polls; nothing rests on how long
	}
}

// atRest wants every ledger and lane to read zero.
func (s *server) atRest(tenants ...string) {
	s.t.Helper()
	for _, tenant := range tenants {
		s.eventually(func() (bool, string) {
			item, err := s.DB().Table().Get(context.Background(), taskop.LedgerKey(tenant), true)
			if err != nil {
				s.t.Fatal(err)
			}
			l := taskop.DecodeLedger(item)
			return l.WorkMS == 0 && l.Active == 0, fmt.Sprintf("ledger of %s: %+v", tenant, l)
		})
	}
	for _, lane := range []string{"main", "side", "retry"} {
		s.eventually(func() (bool, string) {
			l := s.lane(lane)
			return l.Empty() && len(l.Tasks) == 0, fmt.Sprintf("lane %s: %+v", lane, l)
		})
	}
}

func (s *server) lane(name string) taskop.Lane {
	s.t.Helper()
	item, err := s.DB().Table().Get(context.Background(), taskop.LaneKey(name), true)
	if err != nil {
		s.t.Fatal(err)
	}
	l, err := taskop.DecodeLane(name, item)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// audit lists the acts noted so far.
func (s *server) audit() []string {
	s.t.Helper()
	var acts []string
	err := s.DB().Table().Scan(context.Background(), "A#", func(row op.Row) bool {
		e := taskop.DecodeAudit(row.Key, row.Item)
		acts = append(acts, e.Act+" "+e.On)
		return true
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return acts
}

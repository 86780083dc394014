package stack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/stack"
	"github.com/lanekeeper/lanekeeper/pkg/chance"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// lines keeps what was logged.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// line is a span as it is logged.
type line struct {
	TraceID  string `json:"trace_id"`
	SpanID   string `json:"span_id"`
	ParentID string `json:"parent_id"`
	Name     string
	Start    string
	End      string
	Task     string
	Lane     string
	Class    string
	Attempt  int
	Outcome  string
}

// spans are those of a task, in the order of their start.
func (l *lines) spans(t *testing.T, task string) []line {
	t.Helper()
	var got []line
	for text := range strings.Lines(l.text()) {
		var s line
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		if s.Task == task {
			got = append(got, s)
		}
	}
	slices.SortStableFunc(got, func(a, b line) int { return strings.Compare(a.Start, b.Start) })
	return got
}

// submitIn submits a task of alpha in a trace of its client's.
func (s *server) submitIn(traceparent, class string) (id string) {
	s.t.Helper()
	req, err := http.NewRequest("POST", "http://localhost/v1/tasks", strings.NewReader(`{"class":"`+class+`"}`))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + alpha}, "Content-Type": {"application/json"}, "Traceparent": {traceparent}}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var made events.Task
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil || resp.StatusCode != http.StatusAccepted {
		s.t.Fatalf("%d, %v", resp.StatusCode, err)
	}
	return made.ID
}

// TestOneTraceFromSubmissionToCompletion over messages, hand-overs and retries, for
// tasks with a trace of their client's and without.
func TestOneTraceFromSubmissionToCompletion(t *testing.T) {
	const secret = "s3cret-of-the-client"
	mux, submitted := worker.New(), make(chan struct{})
	mux.Handle("job", func(ctx context.Context, x *worker.Task) (any, error) {
		select { // until then all slots are taken, so that the others are handed over
		case <-submitted:
		case <-ctx.Done():
		}
		if strings.Contains(string(x.Payload), "fail") && x.Attempt == 1 {
			return nil, errors.New(secret)
		}
		return secret, nil
	})
	logged := &lines{}
	s := startIn(t, t.TempDir(), mux, func(o *stack.Options) {
		o.Trace = trace.New(trace.Options{Share: 1, Float: chance.Float, Hex: chance.Hex, Sink: trace.Log(slog.New(slog.NewJSONHandler(logged, nil)))})
	})
	var ids []string
	for range 8 { // the lane has 4 slots
		ids = append(ids, s.submit(alpha, "job", secret).ID)
	}
	failing := s.submit(alpha, "job", "fail "+secret).ID
	const brought = "4bf92f3577b34da6a3ce929d0e0e4736"
	continued := s.submitIn("00-"+brought+"-00f067aa0ba902b7-01", "job")
	close(submitted)
	names, traces := map[string]int{}, map[string]bool{}
	for _, id := range append(ids, failing, continued) {
		s.until(alpha, id, "succeeded")
		want := map[bool]int{true: 5, false: 3}[id == failing] // submit, and per attempt its wait and itself
		var got []line
		s.eventually(func() (bool, string) { // the last one is written after the end that we have seen
			got = logged.spans(t, id)
			return len(got) >= want, fmt.Sprintf("%d spans, want %d: %+v", len(got), want, got)
		})
		root := got[slices.IndexFunc(got, func(x line) bool { return x.Name == trace.Submit })]
		outcomes := map[string]int{}
		for _, x := range got {
			names[x.Name]++
			if x.Name == trace.Attempt {
				outcomes[x.Outcome]++
			}
			if x.TraceID != root.TraceID || x != root && x.ParentID != root.SpanID || x.Class != "job" || x.Lane == "" || x.End < x.Start || x != root && x.Attempt == 0 {
				t.Errorf("span %+v of trace %+v", x, root)
			}
		}
		parent := map[bool]string{true: "00f067aa0ba902b7"}[id == continued]
		if len(got) != want || root.ParentID != parent || (root.TraceID == brought) != (id == continued) || outcomes[task.OutcomeSucceeded] != 1 || outcomes[task.OutcomeFailed] != (want-3)/2 {
			t.Errorf("%+v", got)
		}
		traces[root.TraceID] = true
	}
	if len(traces) != 10 {
		t.Errorf("%d traces of 10 tasks", len(traces))
	}
	if names[trace.QueueWait] == 0 || names[trace.ReadyWait] == 0 {
		t.Errorf("no message or no hand-over among them: %v", names)
	}
	if text := logged.text(); strings.Contains(text, secret) || strings.Contains(text, alpha) {
		t.Error("a payload, result, message or key was logged")
	}
}

package trace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
	sampled = "00-" + traceID + "-" + spanID + "-01"
)

// spans keeps what a tracer wrote.
type spans []trace.Span

func (s *spans) Span(_ context.Context, x trace.Span) { *s = append(*s, x) }

// tracer counts instead of drawing; the next submission without a trace draws float.
func tracer(share, float float64) (*trace.Tracer, *spans) {
	got, n := &spans{}, 0
	return trace.New(trace.Options{Share: share, Float: func() float64 { return float }, Sink: got,
		Hex: func(size int) string { n++; return fmt.Sprintf("%0*x", 2*size, n) }}), got
}

func TestParse(t *testing.T) {
	for header, want := range map[string]string{
		sampled:                                sampled,
		strings.TrimSuffix(sampled, "1") + "0": "00-" + traceID + "-" + spanID + "-00",
		"00-" + traceID + "-" + spanID + "-03": sampled, // flags we do not know are not passed on
		"00-" + traceID + "-" + spanID + "-02": "00-" + traceID + "-" + spanID + "-00",
		"":                                     "",
		"01" + sampled[2:]:                     "",
		strings.ToUpper(sampled):               "",
		sampled + "-x":                         "",
		"00-" + strings.Repeat("0", 32) + "-" + spanID + "-01":  "",
		"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01": "",
		"00-" + traceID[:31] + "--" + spanID + "-01":            "",
		"00-" + traceID + "-" + spanID + "-g1":                  "",
	} {
		c, ok := trace.Parse(header)
		if ok != (want != "") || ok && c.String() != want {
			t.Errorf("%q: %+v, %t", header, c, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sampled)
	f.Add("")
	f.Fuzz(func(t *testing.T, header string) {
		c, ok := trace.Parse(header)
		if !ok {
			return
		}
		if again, ok := trace.Parse(c.String()); !ok || again != c || c.String()[:53] != header[:53] {
			t.Errorf("%q: %+v, then %+v", header, c, again)
		}
	})
}

func TestWhatIsSampled(t *testing.T) {
	unsampled := strings.TrimSuffix(sampled, "1") + "0"
	for _, c := range []struct {
		name, header string
		float        float64
		traced       bool
	}{
		{"brought and sampled", sampled, 0.99, true},
		{"brought and not sampled", unsampled, 0, false},
		{"none, in the share", "", 0.049, true},
		{"none, outside of it", "", 0.05, false},
		{"unreadable", "nonsense", 0, false},
	} {
		tr, got := tracer(trace.DefaultShare, c.float)
		row, sub := tr.Begin(c.header, 10)
		if (sub != nil) != c.traced || !c.traced && row != c.header {
			t.Errorf("%s: %q, %+v", c.name, row, sub)
		}
		x := &task.Task{ID: "t", Traceparent: row, AttemptMS: 20}
		sub.Admitted(t.Context(), x, trace.Accepted, 12)
		tr.Waited(t.Context(), x, trace.QueueWait)
		tr.Ended(t.Context(), x, task.OutcomeSucceeded, 30)
		if want := map[bool]int{true: 3}[c.traced]; len(*got) != want {
			t.Errorf("%s: %d spans, want %d", c.name, len(*got), want)
		}
	}
	var none *trace.Tracer
	if row, sub := none.Begin("anything", 1); row != "anything" || sub != nil {
		t.Errorf("no tracer: %q, %v", row, sub)
	}
	none.Waited(t.Context(), &task.Task{Traceparent: sampled}, trace.QueueWait)
}

// TestSpansFormOneTree: whatever the client brought, one trace, one root, and
// all others its children.
func TestSpansFormOneTree(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		header := rapid.SampledFrom([]string{"", sampled}).Draw(r, "header")
		tr, got := tracer(1, 0)
		row, sub := tr.Begin(header, 10)
		x := &task.Task{ID: "t", Class: "c", Lane: "l", AtLane: "l", Traceparent: row, SubmittedMS: 10}
		sub.Admitted(t.Context(), x, trace.Accepted, 11)
		now := int64(12)
		for n := range rapid.IntRange(0, 5).Draw(r, "attempts") {
			now += rapid.Int64Range(0, 9).Draw(r, "wait")
			x.Attempt, x.AttemptMS = int64(n+1), now
			tr.Waited(t.Context(), x, trace.ReadyWait)
			now += rapid.Int64Range(0, 9).Draw(r, "service")
			tr.Ended(t.Context(), x, task.OutcomeFailed, now)
			x.Record(task.Attempt{N: x.Attempt, StartMS: x.AttemptMS, EndMS: now})
			x.NotBeforeMS = now + rapid.Int64Range(0, 3).Draw(r, "backoff")
			now = x.NotBeforeMS
		}
		root, ids, end := (*got)[0], map[string]bool{}, int64(0)
		if c, ok := trace.Parse(row); !ok || c.TraceID != root.TraceID || c.SpanID != root.SpanID || !c.Sampled {
			r.Fatalf("the row has %q, the submission is %+v", row, root)
		}
		if header != "" && (root.TraceID != traceID || root.ParentID != spanID) || header == "" && root.ParentID != "" {
			r.Fatalf("%+v continues %q", root, header)
		}
		for i, s := range *got {
			if s.TraceID != root.TraceID || ids[s.SpanID] || i > 0 && s.ParentID != root.SpanID || s.Task != "t" || s.EndMS < s.StartMS {
				r.Fatalf("span %d: %+v", i, s)
			}
			if i > 0 && s.StartMS < end-1 && i != 1 { // an attempt begins where its wait ended, a wait after the attempt before
				r.Fatalf("span %d begins before the one before it ended: %+v", i, *got)
			}
			ids[s.SpanID], end = true, s.EndMS
		}
	})
}

func TestLinesOfALog(t *testing.T) {
	var out bytes.Buffer
	l := slog.New(slog.NewJSONHandler(&out, nil))
	trace.Log(l).Span(t.Context(), trace.Span{TraceID: traceID, SpanID: spanID, Name: trace.Attempt, StartMS: 1, EndMS: 1500, Task: "t", Lane: "l", Class: "c", Attempt: 2, Outcome: "failed"})
	l.Info("something", trace.Task(&task.Task{ID: "t", AtLane: "l", Class: "c", Attempt: 2, Payload: "secret", Traceparent: sampled}))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []map[string]any{
		{"msg": "span", "trace_id": traceID, "span_id": spanID, "parent_id": "", "name": "attempt", "start": "1970-01-01T00:00:00.001Z", "end": "1970-01-01T00:00:01.500Z",
			"task": "t", "lane": "l", "class": "c", "attempt": 2.0, "outcome": "failed"},
		{"msg": "something", "task": "t", "lane": "l", "class": "c", "attempt": 2.0, "trace_id": traceID},
	} {
		var got map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
			t.Fatal(err)
		}
		delete(got, "time")
		delete(got, "level")
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

package trace

import (
	"context"

	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// DefaultShare of the submissions that bring no trace is sampled.
const DefaultShare = 0.05

// Names of spans.
const (
	Submit    = "submit"     // from receipt to the answer
	QueueWait = "queue_wait" // until a message led to an attempt, waiting for a slot included
	ReadyWait = "ready_wait" // until an ended attempt's slot, or a spare one, was taken over without a message
	Attempt   = "attempt"    // from claim to its end written
)

// Outcomes of spans beside those of attempts and the codes of refusals.
const (
	Accepted  = "accept"
	Replayed  = "replayed"
	Started   = "started"
	LeaseLost = "lease_lost"
)

// Span is one section of a task's way. Times are unix milliseconds.
type Span struct {
	TraceID, SpanID, ParentID string // ParentID "": the root
	Name                      string
	StartMS, EndMS            int64
	Task, Lane, Class         string // Task "" when a submission was refused
	Attempt                   int64  // 0 at submission
	Outcome                   string
}

// Sink takes spans that have ended. It must be safe for concurrent use.
type Sink interface {
	Span(ctx context.Context, s Span)
}

// Options of a Tracer.
type Options struct {
	Share float64          // of submissions without a trace, 0 to 1
	Float func() float64   // in [0, 1), decides who belongs to the share
	Hex   func(int) string // so many random bytes in hexadecimal
	Sink  Sink
}

// Tracer makes spans. It is safe for concurrent use if its Float and Hex are.
type Tracer struct{ o Options }

// New makes a tracer.
func New(o Options) *Tracer { return &Tracer{o: o} }

// Begin starts the span of a submission under the trace that the client brought,
// or none. It returns the traceparent for the task's row, and nil where nothing
// is sampled; what cannot be read comes back as it is, for others to judge.
func (t *Tracer) Begin(traceparent string, nowMS int64) (string, *Submission) {
	if t == nil {
		return traceparent, nil
	}
	parent, ok := Parse(traceparent)
	if !ok && traceparent != "" || ok && !parent.Sampled || !ok && t.o.Float() >= t.o.Share {
		return traceparent, nil
	}
	own := Context{TraceID: parent.TraceID, SpanID: t.o.Hex(spanDigits / 2), Sampled: true}
	if !ok {
		own.TraceID = t.o.Hex(traceDigits / 2)
	}
	return own.String(), &Submission{tracer: t, span: Span{TraceID: own.TraceID, SpanID: own.SpanID, ParentID: parent.SpanID, Name: Submit, StartMS: nowMS}}
}

// Submission is the span of a submission that is sampled.
type Submission struct {
	tracer *Tracer
	span   Span
}

// Admitted ends the span with a task.
func (s *Submission) Admitted(ctx context.Context, t *task.Task, outcome string, nowMS int64) {
	if s == nil {
		return
	}
	s.span.Task, s.span.Lane, s.span.Class = t.ID, t.Lane, t.Class
	s.end(ctx, outcome, nowMS)
}

// Refused ends the span without one. class is "" where it is not a class of ours.
func (s *Submission) Refused(ctx context.Context, class, outcome string, nowMS int64) {
	if s == nil {
		return
	}
	s.span.Class = class
	s.end(ctx, outcome, nowMS)
}

func (s *Submission) end(ctx context.Context, outcome string, nowMS int64) {
	s.span.Outcome, s.span.EndMS = outcome, nowMS
	s.tracer.o.Sink.Span(ctx, s.span)
}

// Waited writes the wait that an attempt has ended; t is as claimed.
func (t *Tracer) Waited(ctx context.Context, x *task.Task, name string) {
	t.child(ctx, x, name, waitingSince(x), x.AttemptMS, Started)
}

// Ended writes an attempt that has ended; x is as claimed.
func (t *Tracer) Ended(ctx context.Context, x *task.Task, outcome string, nowMS int64) {
	t.child(ctx, x, Attempt, x.AttemptMS, nowMS, outcome)
}

func (t *Tracer) child(ctx context.Context, x *task.Task, name string, startMS, endMS int64, outcome string) {
	if t == nil {
		return
	}
	parent, ok := Parse(x.Traceparent)
	if !ok || !parent.Sampled {
		return
	}
	t.o.Sink.Span(ctx, Span{TraceID: parent.TraceID, SpanID: t.o.Hex(spanDigits / 2), ParentID: parent.SpanID, Name: name, StartMS: startMS, EndMS: endMS,
		Task: x.ID, Lane: x.AtLane, Class: x.Class, Attempt: x.Attempt, Outcome: outcome})
}

// waitingSince is when a task began to wait for the attempt it is in: at its
// admission, the end of the attempt before, or when its retry was due.
func waitingSince(x *task.Task) int64 {
	since := max(x.Since(), x.NotBeforeMS)
	for _, a := range x.Attempts {
		since = max(since, a.EndMS)
	}
	return min(since, x.AttemptMS)
}

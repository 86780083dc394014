package trace

import (
	"context"
	"log/slog"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// Log is a sink that writes each span as one structured line, message "span".
func Log(l *slog.Logger) Sink { return logSink{l} }

type logSink struct{ l *slog.Logger }

func (s logSink) Span(ctx context.Context, x Span) {
	s.l.LogAttrs(ctx, slog.LevelInfo, "span", slog.String("trace_id", x.TraceID), slog.String("span_id", x.SpanID), slog.String("parent_id", x.ParentID),
		slog.String("name", x.Name), slog.String("start", stamp(x.StartMS)), slog.String("end", stamp(x.EndMS)),
		slog.String("task", x.Task), slog.String("lane", x.Lane), slog.String("class", x.Class), slog.Int64("attempt", x.Attempt), slog.String("outcome", x.Outcome))
}

func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// Task names a task in a line of a log: task, lane, class and attempt, and its
// trace if that is sampled.
func Task(t *task.Task) slog.Attr {
	attrs := []any{slog.String("task", t.ID), slog.String("lane", t.AtLane), slog.String("class", t.Class), slog.Int64("attempt", t.Attempt)}
	if c, ok := Parse(t.Traceparent); ok && c.Sampled {
		attrs = append(attrs, slog.String("trace_id", c.TraceID))
	}
	return slog.Group("", attrs...) // a group without a name is written inline
}

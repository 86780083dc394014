package queue

import (
	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// Wakeup is the message for a queued task. The trace context travels in an
// attribute of its own: AWSTraceHeader would continue a chain of invocations
// that Lambda cuts after about 16 hops.
func Wakeup(t *task.Task) Outgoing {
	m := Outgoing{Body: string(events.NewMessage(t.Tenant, t.ID, t.Gen).Encode())}
	if t.Traceparent != "" {
		m.Attributes = map[string]string{"traceparent": t.Traceparent}
	}
	return m
}

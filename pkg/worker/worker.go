package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"
)

// Task is what a handler is given.
type Task struct {
	ID       string
	Tenant   string
	Class    string
	Bucket   string
	Priority string
	Attempt  int             // 1 for the first
	Deadline time.Time       // when the tenant wants it finished
	Payload  json.RawMessage // as submitted, nil when there was none
	// Checkpoint is what an earlier attempt passed to [Continue], nil in the first.
	Checkpoint json.RawMessage

	progress func(json.RawMessage)
	calls    calls
}

// Decode unmarshals the payload. A payload that does not fit fails the task for
// good: repeating it would not help.
func (t *Task) Decode(into any) error {
	if len(t.Payload) == 0 {
		return Permanent(errors.New("the task has no payload"))
	}
	if err := json.Unmarshal(t.Payload, into); err != nil {
		return Permanent(fmt.Errorf("payload: %w", err))
	}
	return nil
}

// MaxProgress is the largest progress report, in bytes of JSON.
const MaxProgress = 1024

// Progress reports how far the attempt is, as any JSON value of at most
// MaxProgress bytes; a larger one is dropped. It is kept in memory and carried by the next
// lease renewal and the attempt's end, so it may be called often.
func (t *Task) Progress(v any) {
	b, err := json.Marshal(v)
	if err != nil || len(b) > MaxProgress || t.progress == nil {
		return
	}
	t.progress(b)
}

// OnProgress sets who receives progress reports. For the engine.
func (t *Task) OnProgress(f func(json.RawMessage)) { t.progress = f }

// Handler runs one attempt. The result is any JSON value of at most 256 KiB, or
// nil. Any error is retryable unless it is [Permanent].
type Handler func(ctx context.Context, t *Task) (result any, err error)

// Mux finds the handler of a class.
type Mux struct {
	mu       sync.RWMutex
	handlers map[string]Handler
}

// New makes a Mux without handlers.
func New() *Mux { return &Mux{handlers: map[string]Handler{}} }

// Handle registers the handler of a class. It panics when the class has one
// already or the handler is nil: both are mistakes in main.
func (m *Mux) Handle(class string, h Handler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h == nil {
		panic("worker: nil handler for " + class)
	}
	if _, twice := m.handlers[class]; twice {
		panic("worker: two handlers for " + class)
	}
	m.handlers[class] = h
}

// Handler returns the handler of a class.
func (m *Mux) Handler(class string) (Handler, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	h, ok := m.handlers[class]
	return h, ok
}

// Classes lists the classes that have a handler.
func (m *Mux) Classes() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := make([]string, 0, len(m.handlers))
	for c := range m.handlers {
		out = append(out, c)
	}
	sort.Strings(out)
	return out
}

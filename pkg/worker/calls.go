package worker

import (
	"maps"
	"sync"
)

// Limits of what an attempt can count by [Task.Called].
const (
	// MaxDownstreams is how many names are kept; the calls of further ones are
	// summed up under [OtherDownstreams].
	MaxDownstreams   = 8
	OtherDownstreams = "other"
	maxDownstream    = 64 // bytes of a name
)

// calls counts what an attempt asked of others, by their names.
type calls struct {
	mu sync.Mutex
	n  map[string]int64
}

// Called counts n calls of a downstream in the history of this attempt, where operators
// and the tenant find them: how much of a vendor a task used before it failed. Names
// are those of the configuration's dependencies where it has them. It may be used from
// several goroutines; n below 1 and the empty name count nothing. An attempt whose
// worker dies leaves no count.
func (t *Task) Called(downstream string, n int) {
	if n < 1 || downstream == "" {
		return
	}
	if len(downstream) > maxDownstream {
		downstream = OtherDownstreams
	}
	t.calls.mu.Lock()
	defer t.calls.mu.Unlock()
	if _, known := t.calls.n[downstream]; !known && len(t.calls.n) >= MaxDownstreams {
		downstream = OtherDownstreams
	}
	if t.calls.n == nil {
		t.calls.n = map[string]int64{}
	}
	t.calls.n[downstream] += int64(n)
}

// Calls are the calls counted so far, nil if there were none. For the engine.
func (t *Task) Calls() map[string]int64 {
	t.calls.mu.Lock()
	defer t.calls.mu.Unlock()
	return maps.Clone(t.calls.n)
}

package events

import (
	"encoding/json"
	"fmt"
)

// TickVersion is the version of the ticks that this build sends and understands.
const TickVersion = 1

// TickSource says who started a run of the aggregator.
type TickSource string

// A run is started by the schedule every minute, or by an admission that found its lane empty.
const (
	TickSchedule  TickSource = "schedule"
	TickAdmission TickSource = "admission"
)

// Tick is the event that starts a run of the aggregator.
type Tick struct {
	V           int        `json:"v"`
	Source      TickSource `json:"source"`
	ScheduledAt Time       `json:"scheduled_at,omitzero"` // when the schedule meant to start it; it may come later
}

// Encode gives the event's text.
func (t Tick) Encode() ([]byte, error) {
	b, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("tick: %w", err)
	}
	return b, nil
}

// DecodeTick reads a tick. Unknown fields and unknown sources are accepted: a run does the same whoever started it.
// Errors are [ErrVersion] or [ErrMalformed].
func DecodeTick(body []byte) (Tick, error) {
	var t Tick
	if err := decodeVersioned(body, TickVersion, &t); err != nil {
		return Tick{}, fmt.Errorf("tick: %w", err)
	}
	if t.Source == "" {
		return Tick{}, fmt.Errorf("tick: %w: source", ErrMalformed)
	}
	return t, nil
}

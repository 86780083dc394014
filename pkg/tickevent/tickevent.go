// Package tickevent turns the events that start the aggregator into runs.
package tickevent

import (
	"context"
	"encoding/json"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/aggregate"
)

// Handler starts runs.
type Handler struct{ svc *aggregate.Service }

// New makes the handler.
func New(svc *aggregate.Service) *Handler { return &Handler{svc: svc} }

// Handle makes one run. A run that an admission asked for ends at once if
// another is under way; any other event is the schedule's and takes over.
func (h *Handler) Handle(ctx context.Context, raw json.RawMessage) (aggregate.Report, error) {
	tick, err := events.DecodeTick(raw)
	insist := err != nil || tick.Source != events.TickAdmission
	return h.svc.Run(ctx, insist)
}

// Admission is the event with which an admission starts a run.
func Admission() ([]byte, error) {
	return events.Tick{V: events.TickVersion, Source: events.TickAdmission}.Encode()
}

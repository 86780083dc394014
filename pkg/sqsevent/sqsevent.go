// Package sqsevent turns SQS batch events into work for the execute service,
// and its failures into a partial batch response (ReportBatchItemFailures).
package sqsevent

import (
	"context"
	"strconv"

	lambdaevents "github.com/aws/aws-lambda-go/events"

	"github.com/lanekeeper/lanekeeper/pkg/execute"
)

// Handler works for one lane.
type Handler struct {
	svc  *execute.Service
	lane string
}

// New makes the handler of a lane.
func New(svc *execute.Service, lane string) *Handler { return &Handler{svc: svc, lane: lane} }

// Handle works through a batch. An empty list of failures means that every message
// may be deleted, so a message is only left out of it when it was dealt with.
func (h *Handler) Handle(ctx context.Context, e lambdaevents.SQSEvent) (lambdaevents.SQSEventResponse, error) {
	batch := make([]execute.Delivery, len(e.Records))
	for i, r := range e.Records {
		receives, _ := strconv.Atoi(r.Attributes["ApproximateReceiveCount"])
		batch[i] = execute.Delivery{MessageID: r.MessageId, Body: []byte(r.Body), Receives: receives}
	}
	resp := lambdaevents.SQSEventResponse{BatchItemFailures: []lambdaevents.SQSBatchItemFailure{}}
	for _, id := range h.svc.Batch(ctx, h.lane, batch) {
		resp.BatchItemFailures = append(resp.BatchItemFailures, lambdaevents.SQSBatchItemFailure{ItemIdentifier: id})
	}
	return resp, nil
}

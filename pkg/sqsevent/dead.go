package sqsevent

import (
	"context"
	"strconv"

	lambdaevents "github.com/aws/aws-lambda-go/events"

	"github.com/lanekeeper/lanekeeper/pkg/redrive"
)

// Dead turns batches of dead-letter queues into work for the redrive service.
type Dead struct{ svc *redrive.Service }

// NewDead makes the handler; it serves every dead-letter queue.
func NewDead(svc *redrive.Service) *Dead { return &Dead{svc: svc} }

// Handle works through a batch; what it does not name as failed may be deleted.
func (h *Dead) Handle(ctx context.Context, e lambdaevents.SQSEvent) (lambdaevents.SQSEventResponse, error) {
	batch := make([]redrive.Delivery, len(e.Records))
	for i, r := range e.Records {
		sent, _ := strconv.ParseInt(r.Attributes["SentTimestamp"], 10, 64)
		batch[i] = redrive.Delivery{MessageID: r.MessageId, Queue: r.EventSourceARN, Body: r.Body, SentMS: sent}
	}
	resp := lambdaevents.SQSEventResponse{BatchItemFailures: []lambdaevents.SQSBatchItemFailure{}}
	for _, id := range h.svc.Batch(ctx, batch) {
		resp.BatchItemFailures = append(resp.BatchItemFailures, lambdaevents.SQSBatchItemFailure{ItemIdentifier: id})
	}
	return resp, nil
}

// Package queue is the port to the message queues of the lanes: SQS on AWS, the
// embedded queue on one machine.
//
// A message is a wake-up, not the work: it may come twice, late, out of order
// or never, and the table decides what it means. Engines promise no more than
// SQS does: at-least-once, unordered, a receive count, a visibility timeout,
// and a redrive to the dead-letter queue after MaxReceives.
package queue

import (
	"context"
	"time"
)

// Outgoing is a message to send.
type Outgoing struct {
	Body       string            // at most 1 MiB with the attributes
	Attributes map[string]string // string attributes, at most 10
	Delay      time.Duration     // 0 to 15 min, whole seconds
}

// Message is a received message.
type Message struct {
	ID            string
	ReceiptHandle string
	Body          string
	Attributes    map[string]string
	Receives      int       // how many times it was received, this one included
	SentAt        time.Time // when it was first sent
	FirstReceived time.Time
}

// Counts are a queue's approximate numbers of messages.
type Counts struct{ Visible, InFlight, Delayed int }

// Sender is what the services need. Names are lane names; the adapter knows
// the queues. Any error means that the message may or may not have been sent.
type Sender interface {
	Send(ctx context.Context, lane string, m Outgoing) error
}

// Package sqsqueue sends the lanes' messages through Amazon SQS.
//
// A send is repeated by the SDK, so a message may be there twice; and an error
// leaves open whether it was sent. Both are harmless: a message only wakes a
// worker, and the table decides what it means. Each attempt has a time limit of
// its own, the call as a whole is bounded by the context. Trace context travels in the
// attributes the caller gives. The system attribute AWSTraceHeader is never
// set: by it Lambda would recognise a chain of queue and function as a loop and
// drop its messages.
package sqsqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

// API is what the adapter calls of the SQS client.
type API interface {
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
}

// Faults of the caller.
var (
	ErrUnknownLane = errors.New("sqsqueue: no queue for this lane")
	// ErrInvalid says that SQS would not take the message: a delay that is
	// negative, over 15 minutes or no whole seconds, more than ten attributes,
	// or an empty body or attribute.
	ErrInvalid = errors.New("sqsqueue: invalid message")
)

// errNoID is an answer that is not of SQS's making, and says nothing about the
// message.
var errNoID = errors.New("sqsqueue: the answer names no message")

// Limits of SQS.
const (
	maxDelay      = 15 * time.Minute
	maxAttributes = 10
)

// Sender sends to one queue per lane. It is safe for concurrent use.
type Sender struct {
	api  API
	urls map[string]string
}

var _ queue.Sender = (*Sender)(nil)

// New returns a Sender; urls gives the queue's URL for each lane.
func New(client API, urls map[string]string) *Sender {
	s := &Sender{api: client, urls: make(map[string]string, len(urls))}
	for lane, url := range urls {
		s.urls[lane] = url
	}
	return s
}

// Send implements queue.Sender.
func (s *Sender) Send(ctx context.Context, lane string, m queue.Outgoing) error {
	url, ok := s.urls[lane]
	if !ok {
		return fmt.Errorf("%w: %q", ErrUnknownLane, lane)
	}
	if err := check(m); err != nil {
		return fmt.Errorf("sqsqueue: send to %s: %w", lane, err)
	}
	in := &sqs.SendMessageInput{
		QueueUrl:     aws.String(url),
		MessageBody:  aws.String(m.Body),
		DelaySeconds: int32(m.Delay / time.Second),
	}
	for name, value := range m.Attributes {
		if in.MessageAttributes == nil {
			in.MessageAttributes = make(map[string]types.MessageAttributeValue, len(m.Attributes))
		}
		in.MessageAttributes[name] = types.MessageAttributeValue{
			DataType: aws.String("String"), StringValue: aws.String(value),
		}
	}
	out, err := s.api.SendMessage(ctx, in, limited)
	if err == nil && aws.ToString(out.MessageId) == "" {
		err = errNoID
	}
	if err != nil {
		return fmt.Errorf("sqsqueue: send to %s: %w", lane, err)
	}
	return nil
}

func check(m queue.Outgoing) error {
	switch {
	case m.Body == "":
		return fmt.Errorf("%w: empty body", ErrInvalid)
	case m.Delay < 0 || m.Delay > maxDelay || m.Delay%time.Second != 0:
		return fmt.Errorf("%w: delay %s", ErrInvalid, m.Delay)
	case len(m.Attributes) > maxAttributes:
		return fmt.Errorf("%w: %d attributes", ErrInvalid, len(m.Attributes))
	}
	for name, value := range m.Attributes {
		if name == "" || value == "" {
			return fmt.Errorf("%w: attribute %q is %q", ErrInvalid, name, value)
		}
	}
	return nil
}

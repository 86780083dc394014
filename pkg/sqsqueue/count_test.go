package sqsqueue

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// counts answers with attributes by queue URL.
type counts map[string]map[string]string

func (c counts) GetQueueAttributes(_ context.Context, in *sqs.GetQueueAttributesInput, _ ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	attrs, ok := c[*in.QueueUrl]
	if !ok {
		return nil, errors.New("no such queue")
	}
	out := map[string]string{}
	for _, name := range in.AttributeNames {
		if v, ok := attrs[string(name)]; ok {
			out[string(name)] = v
		}
	}
	return &sqs.GetQueueAttributesOutput{Attributes: out}, nil
}

func TestCountsWhateverIsInTheQueue(t *testing.T) {
	api := counts{
		"u1": {"ApproximateNumberOfMessages": "2", "ApproximateNumberOfMessagesNotVisible": "3", "ApproximateNumberOfMessagesDelayed": "5", "QueueArn": "9"},
		"u2": {"ApproximateNumberOfMessages": "many"},
	}
	c := NewCounter(api, map[string]string{"a": "u1", "b": "u2", "c": "u3"})
	if n, err := c.DeadLetters(context.Background(), "a"); n != 10 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, lane := range []string{"b", "c", "d"} {
		if n, err := c.DeadLetters(context.Background(), lane); err == nil {
			t.Errorf("lane %s: %d and no error", lane, n)
		}
	}
	if _, err := c.DeadLetters(context.Background(), "d"); !errors.Is(err, ErrUnknownLane) {
		t.Errorf("an unknown lane: %v", err)
	}
}

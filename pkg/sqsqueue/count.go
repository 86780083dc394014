package sqsqueue

import (
	"context"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// CountAPI is what a Counter calls of the SQS client.
type CountAPI interface {
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
}

// Counter counts messages in the lanes' dead-letter queues. It is safe for
// concurrent use.
type Counter struct {
	api  CountAPI
	urls map[string]string
}

// NewCounter returns a Counter; urls gives the dead-letter queue's URL for each lane.
func NewCounter(api CountAPI, urls map[string]string) *Counter { return &Counter{api, urls} }

var countNames = []types.QueueAttributeName{
	types.QueueAttributeNameApproximateNumberOfMessages,
	types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
	types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
}

// DeadLetters is how many messages a lane's dead-letter queue holds, visible or
// not, as SQS knew up to a minute ago.
func (c *Counter) DeadLetters(ctx context.Context, lane string) (int64, error) {
	url, ok := c.urls[lane]
	if !ok {
		return 0, fmt.Errorf("%w: %q", ErrUnknownLane, lane)
	}
	out, err := c.api.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: aws.String(url), AttributeNames: countNames}, limited)
	if err != nil {
		return 0, fmt.Errorf("sqsqueue: count %s: %w", lane, err)
	}
	var sum int64
	for _, name := range countNames {
		text, ok := out.Attributes[string(name)]
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("sqsqueue: count %s: %s is %q", lane, name, text)
		}
		sum += n
	}
	return sum, nil
}

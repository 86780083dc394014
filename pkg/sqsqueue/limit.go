package sqsqueue

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
)

// attemptTime is how long one attempt of a send may take. Without a limit a
// connection that is dead holds a submission up until its function is ended,
// and the aggregator with all its lanes.
const attemptTime = 2 * time.Second

// attemptFailed is the error of an attempt that took too long, or whose answer
// broke off or cannot be read: the SDK retries it as a fault of the connection.
type attemptFailed struct {
	error
	late bool
}

func (e *attemptFailed) Unwrap() error         { return e.error }
func (e *attemptFailed) Timeout() bool         { return e.late }
func (e *attemptFailed) ConnectionError() bool { return true }

// limited puts the limit around each attempt of a call.
func limited(o *sqs.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("LanekeeperAttempt", attempt), "Retry", middleware.After)
	})
}

func attempt(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	middleware.FinalizeOutput, middleware.Metadata, error,
) {
	short, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel() // the answer has been read whole by then
	out, meta, err := next.HandleFinalize(short, in)
	var torn *smithy.DeserializationError
	switch {
	case err == nil || ctx.Err() != nil: // not the caller's own end, which is final
	case short.Err() != nil:
		// The cause is a cancellation, which the SDK takes for the caller's.
		err = &attemptFailed{errors.New("sqsqueue: attempt timed out: " + err.Error()), true}
	case errors.As(err, &torn):
		err = &attemptFailed{err, false}
	}
	return out, meta, err
}

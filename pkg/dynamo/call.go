package dynamo

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// Call says which operation a request to DynamoDB belongs to; wrappers of the
// client (a meter, a tracer) find it in the context.
type Call struct {
	// Name is the write's or the transaction's name, or "get T", "query due":
	// the kind of read and of item (the key up to its first '#').
	Name string
	// Writes are what is being written, in order; nil for reads.
	Writes []op.Write
}

type callKey struct{}

// CallOf returns the Call that ctx belongs to, the zero Call if none.
func CallOf(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}

// DescribeCall is CallOf in the form that a meter asks for.
func DescribeCall(ctx context.Context) (name string, writes []op.Write) {
	c := CallOf(ctx)
	return c.Name, c.Writes
}

func withCall(ctx context.Context, name string, writes ...op.Write) context.Context {
	return context.WithValue(ctx, callKey{}, Call{Name: name, Writes: writes})
}

// outcome remembers, over all attempts of one call, whether one of them may
// have been applied without our knowing.
type outcome struct{ unknown error }

// attempts are the client options of one call: our retries (none for once),
// and around each attempt its own time limit and the note about its outcome.
func (t *Table) attempts(once bool, out *outcome) func(*dynamodb.Options) {
	return func(o *dynamodb.Options) {
		o.Retryer = t.retryer
		if once {
			o.Retryer = aws.NopRetryer{}
		}
		o.RetryMaxAttempts = 0
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Finalize.Insert(t.attempt(out), "Retry", middleware.After)
		})
	}
}

// tornAnswer is the error of an answer that broke off or cannot be read; the
// SDK takes it for final unless told that it is the connection's fault.
type tornAnswer struct{ error }

func (e *tornAnswer) Unwrap() error         { return e.error }
func (e *tornAnswer) ConnectionError() bool { return true }

func (t *Table) attempt(out *outcome) middleware.FinalizeMiddleware {
	return middleware.FinalizeMiddlewareFunc("LanekeeperAttempt", func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
		middleware.FinalizeOutput, middleware.Metadata, error,
	) {
		limited, cancel := context.WithTimeout(ctx, t.opts.AttemptTimeout)
		defer cancel() // the answer has been read whole by then
		res, meta, err := next.HandleFinalize(limited, in)
		if err != nil && limited.Err() != nil && ctx.Err() == nil {
			// Not the caller's cancellation, which the SDK would not retry.
			err = &attemptTimeout{cause: err.Error()}
		}
		var torn *smithy.DeserializationError
		if errors.As(err, &torn) {
			err = &tornAnswer{err}
		}
		if err != nil && out != nil && !refused(err) {
			out.unknown = err
		}
		return res, meta, err
	})
}

// inPlace makes a call, again while it collides and there is time.
func (t *Table) inPlace(ctx context.Context, call func() error) error {
	end := t.opts.Now().Add(t.opts.ConflictTime)
	for n := 0; ; n++ {
		err := call()
		if err == nil || !collided(err) {
			return err
		}
		wait := t.opts.backoff(n)
		if t.opts.Now().Add(wait).After(end) || t.opts.Sleep(ctx, wait) != nil {
			return err
		}
	}
}

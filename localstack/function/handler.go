package function

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/aws/aws-lambda-go/lambda"
)

// Handler makes a lambda.Handler of the typed function that a Lambda main gives
// to lambda.Start, with the same JSON.
//
// Use it instead of lambda.NewHandler, whose Invoke returns the bytes of a buffer
// that it has already given back to a pool (aws-lambda-go 1.55): harmless in
// Lambda, where an instance serves one event at a time, but here, side by side,
// one caller would be handed another's answer.
func Handler[In, Out any](f func(context.Context, In) (Out, error)) lambda.Handler {
	return typed(func(ctx context.Context, payload []byte) ([]byte, error) {
		var in In
		if err := json.NewDecoder(bytes.NewReader(payload)).Decode(&in); err != nil {
			return nil, err
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(out); err != nil {
			return nil, err
		}
		return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
	})
}

// EventHandler is [Handler] for a function that answers nothing (null).
func EventHandler[In any](f func(context.Context, In) error) lambda.Handler {
	return Handler(func(ctx context.Context, in In) (any, error) { return nil, f(ctx, in) })
}

type typed func(context.Context, []byte) ([]byte, error)

// Invoke implements lambda.Handler.
func (t typed) Invoke(ctx context.Context, payload []byte) ([]byte, error) { return t(ctx, payload) }

// mustBeConcurrent panics for a handler that only Lambda can invoke safely. The
// library does not export the type; a test notices when it changes its name.
func mustBeConcurrent(h lambda.Handler) {
	if fmt.Sprintf("%T", h) == "*lambda.handlerOptions" {
		panic("function: the value of lambda.NewHandler shares its output buffers between invocations; use function.Handler")
	}
}

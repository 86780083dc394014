package function

import (
	"errors"
	"fmt"
)

// Kind says how an invocation failed.
type Kind string

// The kinds of failure, in Lambda's terms.
const (
	Failed           Kind = "failed"             // the handler returned an error
	Crashed          Kind = "crashed"            // it panicked or ended its goroutine
	TimedOut         Kind = "timed_out"          // it ran into the function's timeout
	Killed           Kind = "killed"             // the caller's context ended first
	Throttled        Kind = "throttled"          // no reserved concurrency was free
	RequestTooLarge  Kind = "request_too_large"  // event over 6 MB
	ResponseTooLarge Kind = "response_too_large" // answer over 6 MB
)

// Error is a failed invocation.
type Error struct {
	Kind      Kind
	RequestID string
	Err       error
}

// Error names the request and what went wrong.
func (e *Error) Error() string {
	return fmt.Sprintf("function: request %s %s: %v", e.RequestID, e.Kind, e.Err)
}

// Unwrap returns the handler's own error, where it gave one.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the [*Error] in err, or "".
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Reasons with which a handler's context ends; see [context.Cause].
var (
	ErrTimeLimit       = errors.New("worker: the attempt's time limit has passed")
	ErrCancelRequested = errors.New("worker: the task's cancel was requested")
	ErrLeaseLost       = errors.New("worker: the attempt has lost its lease")
	ErrHandBack        = errors.New("worker: the invocation ends; the task will go on in another")
)

type permanent struct{ err error }

func (p permanent) Error() string { return p.err.Error() }
func (p permanent) Unwrap() error { return p.err }

// Permanent marks an error that repeating cannot mend: the task fails at once.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

// IsPermanent says whether err is marked by [Permanent].
func IsPermanent(err error) bool {
	var p permanent
	return errors.As(err, &p)
}

type coded struct {
	code string
	err  error
}

func (c coded) Error() string { return c.err.Error() }
func (c coded) Unwrap() error { return c.err }

// WithCode gives an error a stable code of at most 64 characters, which the
// task's error shows and failures are grouped by. Without one it is
// "handler_error".
func WithCode(code string, err error) error {
	if err == nil {
		return nil
	}
	return coded{code, err}
}

// Code returns the code given by [WithCode], or "handler_error".
func Code(err error) string {
	var c coded
	if errors.As(err, &c) && c.code != "" {
		return c.code[:min(len(c.code), 64)]
	}
	return "handler_error"
}

type retryAfter struct {
	after time.Duration
	err   error
}

func (r retryAfter) Error() string { return r.err.Error() }
func (r retryAfter) Unwrap() error { return r.err }

// RetryAfter says that a downstream asked not to be called before some time.
// The next attempt waits at least that long.
func RetryAfter(after time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return retryAfter{after, err}
}

// AfterOf returns the time given by [RetryAfter], 0 when there is none.
func AfterOf(err error) time.Duration {
	var r retryAfter
	if errors.As(err, &r) {
		return r.after
	}
	return 0
}

type goOn struct{ checkpoint json.RawMessage }

func (g goOn) Error() string { return "worker: the task goes on in a later attempt" }

// MaxCheckpoint is the largest checkpoint, in bytes of JSON.
const MaxCheckpoint = 16 << 10

// Continue ends an attempt without an outcome: the task goes on in a later one,
// which is given the checkpoint, and this one does not count as a failure.
// Return it as the handler's error. The checkpoint is any JSON value of at most
// MaxCheckpoint bytes.
func Continue(checkpoint any) error {
	b, err := json.Marshal(checkpoint)
	if err != nil {
		return Permanent(fmt.Errorf("checkpoint: %w", err))
	}
	if len(b) > MaxCheckpoint {
		return Permanent(fmt.Errorf("checkpoint: %d bytes, at most %d are allowed", len(b), MaxCheckpoint))
	}
	return goOn{b}
}

// CheckpointOf returns the checkpoint of a [Continue].
func CheckpointOf(err error) (json.RawMessage, bool) {
	var g goOn
	if errors.As(err, &g) {
		return g.checkpoint, true
	}
	return nil, false
}

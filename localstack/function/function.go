package function

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/google/uuid"
)

// Lambda's limits for synchronous invocations, in bytes.
const (
	MaxRequestBytes  = 6_291_456
	MaxResponseBytes = 6_291_556
)

// Config describes a function. The zero value of a field means its default.
type Config struct {
	Name     string        // default "local"
	ARN      string        // default: Name in us-east-1, account 000000000000
	Timeout  time.Duration // default 3 s, as Lambda's
	Reserved int           // invocations at once; 0 = unlimited
	NewID    func() string // request ids; default random UUIDs
	Log      *slog.Logger  // default slog.Default()
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = "local"
	}
	if c.ARN == "" {
		c.ARN = "arn:aws:lambda:us-east-1:000000000000:function:" + c.Name
	}
	if c.Timeout <= 0 {
		c.Timeout = 3 * time.Second
	}
	if c.NewID == nil {
		c.NewID = uuid.NewString
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// Function is a handler under Lambda's rules. It is itself a lambda.Handler, so
// that two callers can share one reserved concurrency. Safe for concurrent use.
type Function struct {
	handler lambda.Handler
	cfg     Config

	mu      sync.Mutex
	stats   Stats
	handled int           // handler goroutines not yet returned, abandoned ones included
	idle    chan struct{} // closed when handled falls to 0; nil while nobody waits
}

// Stats counts a function's invocations since its start.
type Stats struct {
	Invocations int64 // started ones; throttled and oversized requests do not start
	Errors      int64 // ended in any error after their start
	Timeouts    int64
	Throttles   int64
	Running     int // now, abandoned handlers excluded
	MaxRunning  int
	Abandoned   int // handlers past their end that have not returned yet
}

// New wraps a handler, which must be safe for concurrent use. It panics on a
// value of lambda.NewHandler, which is not: see [Handler].
func New(h lambda.Handler, cfg Config) *Function {
	mustBeConcurrent(h)
	return &Function{handler: h, cfg: cfg.withDefaults()}
}

// Stats returns the counts at this moment.
func (f *Function) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stats
	s.Abandoned = f.handled - s.Running
	return s
}

type result struct {
	payload []byte
	err     error
}

// Invoke performs one synchronous invocation. When the caller's context ends, so
// does the invocation, as if its instance had been lost. Every error is an [*Error].
func (f *Function) Invoke(caller context.Context, payload []byte) ([]byte, error) {
	id := f.cfg.NewID()
	if len(payload) > MaxRequestBytes {
		return nil, &Error{RequestTooLarge, id, fmt.Errorf("%d bytes, at most %d", len(payload), MaxRequestBytes)}
	}
	if !f.start() {
		return nil, &Error{Throttled, id, fmt.Errorf("%d invocations are running, all that are reserved", f.cfg.Reserved)}
	}
	ctx, cancel := context.WithTimeout(caller, f.cfg.Timeout)
	defer cancel()
	ctx = lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{
		AwsRequestID: id, InvokedFunctionArn: f.cfg.ARN,
	})

	done := make(chan result, 1)
	go f.handle(ctx, id, payload, done)
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
	}
	failed := f.judge(caller, ctx, id, &r)
	f.end(failed)
	if failed != nil {
		return nil, failed
	}
	return r.payload, nil
}

// judge turns an invocation's end into its error, or nil. A result that comes
// with or after the end of the context is too late, whichever the select saw.
func (f *Function) judge(caller, ctx context.Context, id string, r *result) *Error {
	switch {
	case caller.Err() != nil:
		return &Error{Killed, id, caller.Err()}
	case ctx.Err() != nil:
		return &Error{TimedOut, id, fmt.Errorf("task timed out after %.2f seconds", f.cfg.Timeout.Seconds())}
	case len(r.payload) > MaxResponseBytes:
		return &Error{ResponseTooLarge, id, fmt.Errorf("%d bytes, at most %d", len(r.payload), MaxResponseBytes)}
	case r.err != nil:
		var own *Error // a panic, already told; another function's error has another id
		if errors.As(r.err, &own) && own.RequestID == id {
			return own
		}
		return &Error{Failed, id, r.err}
	}
	return nil
}

// handle runs the handler and always delivers a result, also when the handler
// panics or ends its goroutine.
func (f *Function) handle(ctx context.Context, id string, payload []byte, done chan<- result) {
	r := result{err: &Error{Crashed, id, fmt.Errorf("the handler ended without an answer")}}
	defer func() {
		if p := recover(); p != nil {
			f.cfg.Log.Error("handler panicked", "function", f.cfg.Name, "request_id", id, "panic", p, "stack", string(debug.Stack()))
			r.err = &Error{Crashed, id, fmt.Errorf("panic: %v", p)}
		}
		f.returned()
		done <- r
	}()
	out, err := f.handler.Invoke(ctx, payload)
	r = result{out, err}
}

func (f *Function) start() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cfg.Reserved > 0 && f.stats.Running >= f.cfg.Reserved {
		f.stats.Throttles++
		return false
	}
	f.stats.Invocations++
	f.stats.Running++
	f.stats.MaxRunning = max(f.stats.MaxRunning, f.stats.Running)
	f.handled++
	return true
}

func (f *Function) end(err *Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.Running--
	if err == nil {
		return
	}
	f.stats.Errors++
	if err.Kind == TimedOut {
		f.stats.Timeouts++
	}
}

func (f *Function) returned() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handled--
	if f.handled == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

// Drain waits until no handler runs, abandoned ones included, or ctx ends, whose
// error it then returns. It does not stop new invocations.
func (f *Function) Drain(ctx context.Context) error {
	f.mu.Lock()
	if f.handled == 0 {
		f.mu.Unlock()
		return nil
	}
	if f.idle == nil {
		f.idle = make(chan struct{})
	}
	idle := f.idle
	f.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

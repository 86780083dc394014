package execute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/failure"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// outcome is how a handler ended.
type outcome struct {
	payload  string // as the handler was given it
	result   string // JSON
	progress string // JSON, the last report
	err      error
	cause    error            // why the context ended, nil when it did not
	cancel   bool             // a cancel was requested
	calls    map[string]int64 // of downstreams, as the handler counted them
}

// attempt runs one attempt of a claimed task, writes its end and returns the
// next task for the slot, already claimed, or nil.
func (s *Service) attempt(ctx context.Context, t *task.Task) *task.Task {
	if t.Attempt == 1 {
		s.started(t)
	}
	out := s.run(ctx, t)
	if errors.Is(out.cause, worker.ErrLeaseLost) {
		// Somebody else decides about the task and its slot now.
		slog.WarnContext(ctx, "an attempt lost its lease", trace.Task(t))
		s.Trace.Ended(ctx, t, trace.LeaseLost, s.Clock().UnixMilli())
		return nil
	}
	return s.finish(ctx, t, out)
}

// run calls the handler under the lease and the attempt's time limit.
func (s *Service) run(ctx context.Context, t *task.Task) outcome {
	var out outcome
	handler, ok := s.handler(t.Class)
	if !ok {
		out.err = worker.WithCode(failure.CodeNoHandler, fmt.Errorf("this worker has no handler for class %q", t.Class))
		return out
	}
	payload, err := s.payload(ctx, t)
	if err != nil {
		out.err = worker.WithCode(failure.CodeNoPayload, errors.New("the payload could not be read"))
		return out
	}
	out.payload = string(payload)
	hctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	watch := &watcher{Service: s, t: t, end: end}
	hctx, stop := s.limits(hctx, t)
	defer stop()
	wt := &worker.Task{ID: t.ID, Tenant: t.Tenant, Class: t.Class, Bucket: t.Bucket, Priority: t.Priority, Attempt: int(t.Attempt),
		Deadline: time.UnixMilli(t.DeadlineMS).UTC(), Payload: payload}
	if t.Checkpoint != "" { // nil in the first attempt, as handlers are told
		wt.Checkpoint = json.RawMessage(t.Checkpoint)
	}
	wt.OnProgress(watch.report)

	type returned struct {
		v   any
		err error
	}
	done := make(chan returned, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				slog.ErrorContext(ctx, "a handler panicked", trace.Task(t), "panic", p, "stack", string(debug.Stack()))
				done <- returned{nil, worker.WithCode("panic", fmt.Errorf("the handler panicked: %v", p))}
			}
		}()
		v, err := handler(hctx, wt)
		done <- returned{v, err}
	}()
	stopWatch := watch.start(ctx)
	var r returned
	select {
	case r = <-done:
	case <-hctx.Done():
		select { // it was told to stop: give it a moment to do so in its own way
		case r = <-done:
		case <-time.After(abandonAfter):
			r.err = context.Cause(hctx)
		}
	}
	stopWatch()
	out.err, out.cause = r.err, context.Cause(hctx)
	if hctx.Err() == nil {
		out.cause = nil
	}
	out.progress, out.cancel = watch.state()
	out.calls = wt.Calls()
	if out.err == nil {
		out.result, out.err = encodeResult(r.v)
	}
	return out
}

// limits ends a handler's context at the attempt's time limit, or before the
// invocation ends, whichever is first, with the reason as its cause.
func (s *Service) limits(ctx context.Context, t *task.Task) (context.Context, context.CancelFunc) {
	now := s.Clock()
	limit, cause := time.Minute, worker.ErrTimeLimit
	if l := s.Config.Rules(t.Lane); l != nil {
		limit = l.AttemptTimeout.Std()
	}
	if end, ok := ctx.Deadline(); ok {
		if left := end.Sub(now) - handBackLead; left < limit {
			limit, cause = max(left, 0), worker.ErrHandBack
		}
	}
	return context.WithTimeoutCause(ctx, limit, cause)
}

const maxResult = 256 << 10

func encodeResult(v any) (string, error) {
	if v == nil {
		return "", nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "", worker.Permanent(worker.WithCode("bad_result", fmt.Errorf("the result is no JSON: %w", err)))
	}
	if len(b) > maxResult {
		return "", worker.Permanent(worker.WithCode("result_too_large", fmt.Errorf("the result has %d bytes, at most %d are allowed", len(b), maxResult)))
	}
	return string(b), nil
}

func (s *Service) handler(class string) (worker.Handler, bool) {
	if h, ok := s.Mux.Handler(class); ok {
		return h, true
	}
	if c, ok := s.Config.Class(class); ok && c.Target != nil && c.Target.Builtin != "" {
		return worker.Builtin(c.Target.Builtin)
	}
	return nil, false
}

// errPayloadGone: a payload beside its row that is not there. A handler must not be given nothing instead.
var errPayloadGone = errors.New("execute: the payload is gone")

func (s *Service) payload(ctx context.Context, t *task.Task) (json.RawMessage, error) {
	if !t.PayloadBeside {
		if t.Payload == "" {
			return nil, nil
		}
		return json.RawMessage(t.Payload), nil
	}
	item, err := s.Table.Get(ctx, taskop.PayloadKey(t.Tenant, t.ID), true)
	if err != nil {
		return nil, err
	}
	if item == nil {
		return nil, errPayloadGone
	}
	return json.RawMessage(taskop.Body(item)), nil
}

// watcher renews an attempt's lease and learns of its cancel.
type watcher struct {
	*Service
	t   *task.Task
	end context.CancelCauseFunc

	mu       sync.Mutex
	progress string
	cancel   bool
}

func (w *watcher) report(b json.RawMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress = string(b)
}

func (w *watcher) state() (progress string, cancel bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.progress, w.cancel
}

// start renews in the background until stop is called.
func (w *watcher) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		until := w.t.LeaseUntilMS
		for pause := renewFirst; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			now := w.Clock()
			progress, _ := w.state()
			next := w.leaseUntil(ctx, now)
			item, err := w.Table.Write(ctx, taskop.Renew(w.t, next, progress))
			switch {
			case err == nil:
				until, pause = next, renewEvery
				if now, err := taskop.DecodeRow(taskop.RowKey(w.t.Tenant, w.t.ID), item); err == nil && now.CancelRequested {
					w.mu.Lock()
					w.cancel = true
					w.mu.Unlock()
					w.end(worker.ErrCancelRequested)
				}
			case op.FailedCond(err) != nil:
				w.end(worker.ErrLeaseLost)
				return
			default:
				pause = renewRetry
				if w.Clock().UnixMilli() >= until {
					w.end(worker.ErrLeaseLost) // nobody could tell us that we still hold it
					return
				}
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

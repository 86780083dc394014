package kill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/stack"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// victimEnv names the directory of a victim: it is set in processes that are
// started to be killed.
const victimEnv = "KILL_TEST_VICTIM"

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	if dir := os.Getenv(victimEnv); dir != "" {
		if err := victim(dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// config has two lanes and the retry lane. Nobody runs out of attempts, so that
// every task has an end that is known beforehand.
const config = `version: 1
tasks: {retention: 24h, max_deadline: 336h, resend_after: 2s}
lanes:
  main:
    owner: test
    slo: {queue_wait_p95: 1m, oldest_age: 1m}
    workers: {max_concurrency: 16, reserved: 16}
    attempt_timeout: 20s
    safety_margin: 100ms
    backlog: {max_work: 24h}
    retry: {max_attempts: 100, immediate: 1, backoff_base: 50ms, backoff_cap: 200ms}
    dlq: {max_receives: 5}
    brakes: []
  side:
    owner: test
    slo: {queue_wait_p95: 1m, oldest_age: 1m}
    workers: {max_concurrency: 8, reserved: 8}
    attempt_timeout: 20s
    safety_margin: 100ms
    backlog: {max_work: 24h}
    retry: {max_attempts: 100, backoff_base: 50ms, backoff_cap: 200ms}
    dlq: {max_receives: 5}
    brakes: []
  retry:
    role: retry
    share: 0.2
    owner: test
    slo: {queue_wait_p95: 1m, oldest_age: 1m}
    attempt_timeout: 20s
    safety_margin: 100ms
    backlog: {max_work: 24h}
    retry: {max_attempts: 100}
    dlq: {max_receives: 5}
    brakes: []
classes:
  plain: {lane: main, prior: {p50: 30ms, p95: 60ms}, cap: 1m}
  flaky: {lane: main, prior: {p50: 30ms, p95: 60ms}, cap: 1m}
  wrong: {lane: side, prior: {p50: 30ms, p95: 60ms}, cap: 1m}
  steps: {lane: side, prior: {p50: 30ms, p95: 60ms}, cap: 1m}
tiers:
  basic: {max_queued_work: 10h, max_active: 9}
priorities: {normal: {max_wait: 1h, max_duration: 2h}}
tenants:
  alpha: {tier: basic, keys: [key-alpha]}
  beta: {tier: basic, keys: [key-beta]}
  gamma: {tier: basic, keys: [key-gamma]}
operators: {keys: [key-admin]}
`

var (
	tenants = []string{"alpha", "beta", "gamma"}
	lanes   = []string{"main", "side", "retry"}
)

func keyOf(tenant string) string { return "key-" + tenant }

// victim serves the stack in dir until it is killed, or its parent is gone.
func victim(dir string) error {
	cfg, err := policyfile.Parse("kill.yaml", []byte(config))
	if err != nil {
		return err
	}
	notes, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	s, err := stack.Start(context.Background(), stack.Options{Config: cfg, DataDir: dir, Addr: "127.0.0.1:0", Mux: handlers(notes)})
	if err != nil {
		return err
	}
	fmt.Println("ready", s.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// How an attempt ends, in the journal of its handler. A line is one write to a
// file opened to append, so it is there whole or not at all, whenever the process is killed.
const (
	began  = "began"
	done   = "done"   // returned a result
	failed = "failed" // returned an error
	paused = "paused" // returned Continue
)

// handlers are those of the four classes: plain succeeds, flaky fails in its
// first attempt that comes to an end, wrong fails for good, steps goes on once.
func handlers(notes io.Writer) *worker.Mux {
	note := func(t *worker.Task, word string) {
		_, _ = fmt.Fprintf(notes, "%d %s %s %d\n", os.Getpid(), word, t.ID, t.Attempt)
	}
	work := func(ctx context.Context, t *worker.Task) error {
		note(t, began)
		select {
		case <-ctx.Done():
			note(t, failed)
			return context.Cause(ctx)
		case <-time.After(time.Duration(20+len(t.Payload)%7*8) * time.Millisecond): // what the work takes
			return nil
		}
	}
	mux := worker.New()
	mux.Handle("plain", func(ctx context.Context, t *worker.Task) (any, error) {
		if err := work(ctx, t); err != nil {
			return nil, err
		}
		note(t, done)
		time.Sleep(8 * time.Millisecond) // slow to return, so that kills meet it here too
		return t.Attempt, nil
	})
	mux.Handle("flaky", func(ctx context.Context, t *worker.Task) (any, error) {
		if err := work(ctx, t); err != nil {
			return nil, err
		}
		if t.Attempt == 1 {
			note(t, failed)
			// Many different faults: one and the same would halt the class.
			return nil, worker.WithCode("fault_"+string(t.Payload[max(len(t.Payload)-2, 0):]), errors.New("something failed"))
		}
		note(t, done)
		return t.Attempt, nil
	})
	mux.Handle("wrong", func(ctx context.Context, t *worker.Task) (any, error) {
		if err := work(ctx, t); err != nil {
			return nil, err
		}
		note(t, failed)
		return nil, worker.Permanent(errors.New("bad input"))
	})
	mux.Handle("steps", func(ctx context.Context, t *worker.Task) (any, error) {
		if err := work(ctx, t); err != nil {
			return nil, err
		}
		if t.Checkpoint == nil {
			note(t, paused)
			return nil, worker.Continue("half-way")
		}
		note(t, done)
		return t.Attempt, nil
	})
	return mux
}

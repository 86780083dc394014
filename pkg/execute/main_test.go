package execute_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/execute"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// TestMain keeps expected warnings out of the output.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

// bench is a rig on virtual time with one worker, whose handler a test sets.
type bench struct {
	*rig.Rig
	t   *testing.T
	in  *intake.Service
	svc *execute.Service

	mu     sync.Mutex
	handle worker.Handler
	began  []string // ids, in the order in which attempts began
}

// run runs a test on virtual time.
func run(t *testing.T, test func(*testing.T, *bench), replacements ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{Rig: rig.New(rig.Config(t, replacements...), memtable.New(memtable.Options{}), nil), t: t}
		mux := worker.New()
		for _, class := range []string{"short", "late", "sized"} {
			mux.Handle(class, b.attempt)
		}
		b.in, b.svc = b.Intake(), b.Execute(mux)
		b.does(func(context.Context, *worker.Task) (any, error) { return nil, nil })
		test(t, b)
		b.CheckHoldings(t)
		b.CheckLanes(t, false)
	})
}

func (b *bench) attempt(ctx context.Context, x *worker.Task) (any, error) {
	b.mu.Lock()
	b.began = append(b.began, x.ID)
	handle := b.handle
	b.mu.Unlock()
	return handle(ctx, x)
}

// does sets the handler.
func (b *bench) does(h worker.Handler) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handle = h
}

func (b *bench) order() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.began...)
}

// submit submits a task of alpha and lets a millisecond pass.
func (b *bench) submit(body string) string {
	b.t.Helper()
	if body == "" {
		body = `{"class":"short","deadline_seconds":3600}`
	}
	sub, refusal := intake.Decode([]byte(body), intake.Header{}, b.Config)
	if refusal != nil {
		b.t.Fatal(refusal)
	}
	got, err := b.in.Submit(b.t.Context(), b.Who("alpha"), sub)
	if err != nil {
		b.t.Fatal(err)
	}
	time.Sleep(time.Millisecond)
	return got.Task.ID
}

// take takes the oldest message of the standard lane.
func (b *bench) take() execute.Delivery {
	b.t.Helper()
	d, ok := b.Queue.Take("standard")
	if !ok {
		b.t.Fatal("no message")
	}
	return d
}

// invoke is an invocation of ten minutes.
func (b *bench) invoke(batch ...execute.Delivery) (failed []string) {
	return rig.Invoke(b.t.Context(), b.svc, "standard", 10*time.Minute, batch...)
}

func (b *bench) row(id string) *task.Task {
	b.t.Helper()
	x := b.Task(b.t, "alpha", id)
	if x == nil {
		b.t.Fatalf("no row %s", id)
	}
	return x
}

// is checks a task's state.
func (b *bench) is(id string, want task.State) *task.Task {
	b.t.Helper()
	x := b.row(id)
	if x.State != want {
		b.t.Errorf("the task is %s, not %s: %+v", x.State, want, x.Error)
	}
	// What is over is kept for the retention from its end, in whole seconds; nothing else goes.
	var gone int64
	if x.State.Terminal() {
		gone = (x.FinishedMS + b.Config.Tasks.Retention.MS() + 999) / 1000 * 1000
	}
	if x.ExpiresMS != gone {
		b.t.Errorf("a task that is %s may go at %d, expected %d", x.State, x.ExpiresMS, gone)
	}
	return x
}

// tick lets an aggregator run for a while.
func (b *bench) tick(d time.Duration) {
	b.t.Helper()
	ctx, stop := context.WithCancel(b.t.Context())
	defer time.AfterFunc(d, stop).Stop()
	if _, err := b.Aggregate().Run(ctx, true); err != nil {
		b.t.Error(err)
	}
}

package aggregate_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/aggregate"
	"github.com/lanekeeper/lanekeeper/pkg/chance"
	"github.com/lanekeeper/lanekeeper/pkg/execute"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// TestMain keeps expected warnings out of the output.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

// bench is a rig on virtual time.
type bench struct {
	*rig.Rig
	t   *testing.T
	in  *intake.Service
	svc *execute.Service
	agg *aggregate.Service
	// handle is what every class does; it may be set between invocations.
	handle worker.Handler
}

func run(t *testing.T, test func(*testing.T, *bench), replacements ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{Rig: rig.New(rig.Config(t, replacements...), memtable.New(memtable.Options{}), nil), t: t}
		mux := worker.New()
		for _, class := range []string{"short", "late", "sized"} {
			mux.Handle(class, func(ctx context.Context, x *worker.Task) (any, error) { return b.handle(ctx, x) })
		}
		b.handle = func(context.Context, *worker.Task) (any, error) { return nil, nil }
		b.in, b.svc, b.agg = b.Intake(), b.Execute(mux), b.Aggregate()
		test(t, b)
		b.CheckHoldings(t)
	})
}

// spans keeps what a tracer writes.
type spans []trace.Span

func (s *spans) Span(_ context.Context, x trace.Span) { *s = append(*s, x) }

// traced follows every submission from now on.
func (b *bench) traced() *spans {
	got := &spans{}
	b.in.Trace = trace.New(trace.Options{Share: 1, Float: b.Float, Hex: chance.Hex, Sink: got})
	b.agg.Trace = b.in.Trace
	return got
}

// submit submits a task of a tenant and lets a millisecond pass.
func (b *bench) submit(tenant, body string) string {
	b.t.Helper()
	if body == "" {
		body = `{"class":"short","deadline_seconds":3600}`
	}
	sub, refusal := intake.Decode([]byte(body), intake.Header{}, b.Config)
	if refusal != nil {
		b.t.Fatal(refusal)
	}
	got, err := b.in.Submit(b.t.Context(), b.Who(tenant), sub)
	if err != nil {
		b.t.Fatal(err)
	}
	time.Sleep(time.Millisecond)
	return got.Task.ID
}

func (b *bench) cancel(tenant, id string) {
	b.t.Helper()
	if _, _, err := b.in.Cancel(b.t.Context(), b.Who(tenant), id); err != nil {
		b.t.Fatal(err)
	}
}

// tick is a run of exactly one tick: it takes no time.
func (b *bench) tick() {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.t.Context(), time.Second) // a run ends some seconds before its time is over
	defer stop()
	if rep, err := b.agg.Run(ctx, true); err != nil || rep.Ticks != 1 {
		b.t.Fatalf("%+v, %v", rep, err)
	}
}

// runFor is a run that is ended after d of virtual time.
func (b *bench) runFor(d time.Duration) aggregate.Report {
	b.t.Helper()
	ctx, stop := context.WithCancel(b.t.Context())
	defer time.AfterFunc(d, stop).Stop()
	rep, err := b.agg.Run(ctx, true)
	if err != nil {
		b.t.Fatal(err)
	}
	return rep
}

// until lets time pass up to a time in unix milliseconds.
func until(ms int64) { time.Sleep(time.Until(time.UnixMilli(ms))) }

// is checks a task's state and returns it.
func (b *bench) is(tenant, id string, want task.State) *task.Task {
	b.t.Helper()
	x := b.Task(b.t, tenant, id)
	if x == nil || x.State != want {
		b.t.Fatalf("the task is %+v, not %s", x, want)
	}
	// What is over is kept for the retention from its end, in whole seconds; nothing else goes.
	var gone int64
	if want.Terminal() {
		gone = (x.FinishedMS + b.Config.Tasks.Retention.MS() + 999) / 1000 * 1000
	}
	if x.ExpiresMS != gone {
		b.t.Fatalf("a task that is %s may go at %d, expected %d", want, x.ExpiresMS, gone)
	}
	return x
}

// deliver gives a lane's messages to workers.
func (b *bench) deliver(lane string) { b.Deliver(b.t.Context(), b.svc, lane, 10*time.Minute) }

// dies is a claim whose worker dies at once: the task stays running.
func (b *bench) dies(tenant, id string) *task.Task {
	b.t.Helper()
	x := b.Claim(b.t, b.is(tenant, id, task.Queued))
	return x
}

// write writes around the services.
func (b *bench) write(w op.Write) {
	b.t.Helper()
	if _, err := b.Raw.Write(b.t.Context(), w); err != nil {
		b.t.Fatal(err)
	}
}

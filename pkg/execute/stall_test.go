package execute_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// TestEveryCallStalledReturnsBeforeTheInvocationEnds: from any call on, the store
// answers no more. The invocation still ends by itself, and once the store answers again
// the task comes to its end.
func TestEveryCallStalledReturnsBeforeTheInvocationEnds(t *testing.T) {
	long := func(ctx context.Context, _ *worker.Task) (any, error) { <-ctx.Done(); return nil, context.Cause(ctx) }
	for name, c := range map[string]struct {
		limit  time.Duration // of the invocation
		handle worker.Handler
	}{
		"succeeds":       {90 * time.Second, func(context.Context, *worker.Task) (any, error) { time.Sleep(time.Second); return "done", nil }},
		"fails":          {90 * time.Second, func(context.Context, *worker.Task) (any, error) { return nil, errDownstream }},
		"goes on":        {90 * time.Second, func(context.Context, *worker.Task) (any, error) { return nil, worker.Continue("half") }},
		"times out":      {90 * time.Second, long},
		"is handed back": {25 * time.Second, long},
		"is late":        {7 * time.Second, long},
	} {
		t.Run(name, func(t *testing.T) {
			scenario := func(from int64) (calls int64) {
				run(t, func(t *testing.T, b *bench) {
					ids := []string{b.submit(""), b.submit(""), b.submit("")}
					b.does(func(ctx context.Context, x *worker.Task) (any, error) {
						if x.Attempt > 1 {
							return nil, nil
						}
						return c.handle(ctx, x)
					})
					sound := b.Table.Table
					stalled := &rig.Stalled{Table: sound, From: from}
					b.Table.Table = stalled
					d := b.take()
					began := time.Now()
					failed := rig.Invoke(t.Context(), b.svc, "standard", c.limit, d)
					if took := time.Since(began); took >= c.limit {
						t.Errorf("call %d and all after it stalled: the invocation of %s took %s", from, c.limit, took)
					}
					calls = stalled.Calls()
					b.Table.Table = sound
					if len(failed) > 0 {
						b.Queue.Return("standard", d)
					}
					ctx, stop := context.WithCancel(t.Context())
					ran := make(chan struct{})
					go func() { _, _ = b.Aggregate().Run(ctx, true); close(ran) }()
					for range 90 {
						b.Deliver(ctx, b.svc, "standard", time.Minute)
						b.Deliver(ctx, b.svc, "retry", time.Minute)
						time.Sleep(time.Second)
					}
					stop()
					<-ran
					for i, id := range ids {
						if x := b.row(id); x.State != task.Succeeded {
							t.Errorf("call %d stalled: task %d is %s after %d attempts", from, i, x.State, x.Attempt)
						}
					}
				})
				return calls
			}
			n := scenario(1 << 60)
			if n < 5 {
				t.Errorf("only %d calls", n)
			}
			for from := int64(1); from <= n; from++ {
				scenario(from)
			}
			t.Log(fmt.Sprint(n, " calls"))
		})
	}
}

package execute_test

import (
	"context"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// TestFaultsAtAnyCallOfAnAttempt: whatever call of claim, attempt and hand-over
// fails, and however, once or from then on for an invocation: after things went
// quiet every task has ended once and everything reads zero.
func TestFaultsAtAnyCallOfAnAttempt(t *testing.T) {
	scenario := func(t *testing.T, fault func(rig.Call) rig.Fault) (calls int) {
		run(t, func(t *testing.T, b *bench) {
			ids := []string{b.submit(""), b.submit(""), b.submit(""), b.submit("")}
			successes := map[string]int{}
			b.does(func(_ context.Context, x *worker.Task) (any, error) {
				time.Sleep(time.Second)
				switch {
				case x.ID == ids[2] && len(x.Checkpoint) == 0:
					return nil, worker.Continue("half")
				case x.ID == ids[3] && x.Attempt == 1:
					return nil, errDownstream
				}
				successes[x.ID]++
				return nil, nil
			})
			b.Table.Fail(fault)
			d := b.take()
			failed := b.invoke(d)
			calls = b.Table.Calls()
			b.Table.Fail(nil)
			if len(failed) > 0 {
				b.Queue.Return("standard", d)
			}
			b.CheckHoldings(t)
			b.CheckLanes(t, false)
			ctx, stop := context.WithCancel(t.Context())
			ran := make(chan struct{})
			go func() { _, _ = b.Aggregate().Run(ctx, true); close(ran) }()
			for range 75 {
				b.Deliver(ctx, b.svc, "standard", time.Minute)
				b.Deliver(ctx, b.svc, "retry", time.Minute)
				time.Sleep(time.Second)
			}
			stop()
			<-ran
			for i, id := range ids {
				x := b.row(id)
				if x.State != task.Succeeded {
					t.Errorf("task %d is %s after %d attempts", i, x.State, x.Attempt)
				}
				if n := successes[id]; n < 1 || n > 2 { // twice when the end of the first could not be written
					t.Errorf("the handler of task %d succeeded %d times", i, n)
				}
			}
			b.CheckQuiet(t)
		})
		return calls
	}
	n := scenario(t, nil)
	if n < 15 {
		t.Fatalf("only %d calls", n)
	}
	for k := 1; k <= n; k++ {
		for _, f := range rig.Faults() {
			for from, hits := range map[string]func(c rig.Call) bool{"at": func(c rig.Call) bool { return c.N == k }, "from": func(c rig.Call) bool { return c.N >= k }} {
				scenario(t, func(c rig.Call) rig.Fault {
					if hits(c) {
						return f
					}
					return rig.None
				})
				if t.Failed() {
					t.Fatalf("that was: %s call %d of %d, %s", from, k, n, f)
				}
			}
		}
	}
	t.Log(n*len(rig.Faults())*2, "faults")
}

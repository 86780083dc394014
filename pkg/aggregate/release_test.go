package aggregate_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// messages takes all messages of a lane and lists the tasks they name.
func (b *bench) messages(lane string) (ids []string) {
	b.t.Helper()
	for {
		d, ok := b.Queue.Take(lane)
		if !ok {
			return ids
		}
		m, err := events.DecodeMessage(d.Body)
		if err != nil {
			b.t.Fatal(err)
		}
		ids = append(ids, m.Task)
	}
}

// TestWaitingTasksAreReleasedInOrder into the slots that are free, and no more.
func TestWaitingTasksAreReleasedInOrder(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		var ids []string
		for range 9 {
			ids = append(ids, b.submit("alpha", ""))
		}
		b.messages("standard")
		for n := 0; n < len(ids); {
			open := n + 2
			for _, id := range ids[n:min(open, len(ids))] {
				b.cancel("alpha", id)
			}
			b.tick()
			want := ids[min(open, len(ids)):min(open+2, len(ids))]
			if got := b.messages("standard"); !slices.Equal(got, want) {
				t.Fatalf("released %v, it was the turn of %v", got, want)
			}
			for _, id := range want {
				b.is("alpha", id, task.Queued)
			}
			b.CheckLanes(t, true)
			n = open
		}
		b.CheckQuiet(t)
	})
}

// TestAPausedLaneReleasesNothing until it is resumed.
func TestAPausedLaneReleasesNothing(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		first, _, third := b.submit("alpha", ""), b.submit("alpha", ""), b.submit("alpha", "")
		l := b.Lane(t, "standard")
		b.write(taskop.PauseLane(&l, true))
		b.cancel("alpha", first)
		b.runFor(10 * time.Second)
		b.is("alpha", third, task.Waiting)
		l = b.Lane(t, "standard")
		b.write(taskop.PauseLane(&l, false))
		b.tick()
		b.is("alpha", third, task.Queued)
	})
}

// TestTheSlotKeptForLowPriorityGoesPastWhoCannotTakeIt: when the first of low priority is
// not allowed to run, the next of low priority gets the slot, and not one of normal priority.
func TestTheSlotKeptForLowPriorityGoesPastWhoCannotTakeIt(t *testing.T) {
	const low = `{"class":"short","deadline_seconds":3600,"priority":"low"}`
	run(t, func(t *testing.T, b *bench) {
		b.Claim(t, b.Task(t, "beta", b.submit("beta", ""))) // beta runs all that it may
		first := b.submit("alpha", "")
		full, next, normal := b.submit("beta", low), b.submit("alpha", low), b.submit("alpha", "")
		b.cancel("alpha", first)
		b.tick()
		if x := b.Task(t, "beta", full); x.State != task.Waiting || !x.Parked {
			t.Errorf("the task of a tenant at its limit is %s, parked: %t", x.State, x.Parked)
		}
		b.is("alpha", next, task.Queued)
		b.is("alpha", normal, task.Waiting)
	}, "other: {max_queued_work: 1000h, max_active: 100", "other: {max_queued_work: 1000h, max_active: 1",
		"    attempt_timeout: 30s\n", "    attempt_timeout: 30s\n    low_share: 0.1\n")
}

// TestATenantAtItsLimitDoesNotClogTheOrder: its tasks are parked, others get
// the slots, and it gets its own back when it may run more.
func TestATenantAtItsLimitDoesNotClogTheOrder(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		first := b.submit("alpha", "")
		blocker := b.submit("beta", "")
		waits := []string{b.submit("alpha", ""), b.submit("alpha", "")}
		other := b.submit("beta", "")
		running := b.dies("alpha", first) // alpha may run one
		b.cancel("beta", blocker)
		b.messages("standard")
		b.tick()
		if got := b.messages("standard"); !slices.Equal(got, []string{other}) {
			t.Errorf("released %v, it was the turn of %s", got, other)
		}
		for _, id := range waits {
			if x := b.is("alpha", id, task.Waiting); !x.Parked {
				t.Error("not parked")
			}
		}
		b.CheckLanes(t, true)
		b.Succeed(t, running)
		b.tick()
		if got := b.messages("standard"); !slices.Equal(got, waits[:1]) {
			t.Errorf("unparked and released %v", got)
		}
		b.CheckLanes(t, true)
		b.cancel("alpha", waits[1]) // while it is parked
		b.CheckLanes(t, true)
	}, "basic: {max_queued_work: 1000h, max_active: 100", "basic: {max_queued_work: 1000h, max_active: 1")
}

// TestFewerSlotsReleaseLess: a changed configuration is carried over, and
// copies from before are void.
func TestFewerSlotsReleaseLess(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.write(taskop.CreateLane("standard", 7))
		b.tick()
		if l := b.Lane(t, "standard"); l.Slots != 2 || l.Cut != 1 {
			t.Errorf("%+v", l)
		}
	})
}

// TestFaultsAtAnyCallOfATick: a tick that resends, releases, parks, expires,
// ends lost attempts and brings retries back, with a fault at any of its calls,
// once or from then on. After things went quiet every task has come to its end
// and everything reads zero.
func TestFaultsAtAnyCallOfATick(t *testing.T) {
	scenario := func(t *testing.T, fault func(rig.Call) rig.Fault, sends func(int) rig.Fault) (calls int) {
		run(t, func(t *testing.T, b *bench) {
			b.handle = func(_ context.Context, x *worker.Task) (any, error) {
				if x.Attempt == 1 && x.Tenant == "beta" {
					return nil, worker.RetryAfter(28*time.Second, context.DeadlineExceeded)
				}
				return nil, nil
			}
			retries := []string{b.submit("beta", ""), b.submit("beta", ""), b.submit("beta", "")}
			b.deliver("standard")
			lost, unsent := b.submit("alpha", ""), b.submit("beta", "")
			expires := b.submit("alpha", `{"class":"short","deadline_seconds":20}`)
			parks, waits := b.submit("alpha", ""), b.submit("beta", "")
			dead := b.dies("alpha", lost)
			b.messages("standard")
			until(dead.LeaseUntilMS + 1)
			b.Table.Fail(fault)
			b.Queue.Fail(sends)
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			_, _ = b.agg.Run(ctx, true)
			stop()
			calls = b.Table.Calls()
			b.Table.Fail(nil)
			b.Queue.Fail(nil)
			b.CheckHoldings(t)
			b.CheckLanes(t, false)
			for range 20 { // each run counts twice, so that it can repair
				b.runFor(9 * time.Second)
				b.deliver("standard")
				b.deliver("retry")
			}
			for _, id := range append(retries, unsent, waits) {
				b.is("beta", id, task.Succeeded)
			}
			for _, id := range []string{lost, parks} {
				b.is("alpha", id, task.Succeeded)
			}
			b.is("alpha", expires, task.Expired)
			b.CheckQuiet(t)
		}, "basic: {max_queued_work: 1000h, max_active: 100", "basic: {max_queued_work: 1000h, max_active: 1")
		return calls
	}
	n := scenario(t, nil, nil)
	if n < 30 {
		t.Fatalf("only %d calls", n)
	}
	t.Log(n, "calls")
	for k := 1; k <= n; k++ {
		f := rig.Faults()[k%len(rig.Faults())]
		for from, hits := range map[string]func(rig.Call) bool{"at": func(c rig.Call) bool { return c.N == k }, "from": func(c rig.Call) bool { return c.N >= k }} {
			for _, f := range []rig.Fault{f, rig.Applied} {
				scenario(t, func(c rig.Call) rig.Fault {
					if hits(c) {
						return f
					}
					return rig.None
				}, nil)
				if t.Failed() {
					t.Fatalf("that was: %s call %d of %d, %s", from, k, n, f)
				}
			}
		}
	}
	for _, f := range []rig.Fault{rig.Broken, rig.Applied} {
		scenario(t, nil, func(int) rig.Fault { return f })
	}
}

package execute_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/execute"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

const tenSlots = "workers: {max_concurrency: 10, reserved: 10}"

// ten submits ten tasks, each with a slot, and takes their messages as one batch.
func (b *bench) ten() (ids []string, batch []execute.Delivery) {
	for range 10 {
		ids = append(ids, b.submit(""))
	}
	for range ids {
		batch = append(batch, b.take())
	}
	return ids, batch
}

// settled delivers the batch again as a whole, as SQS does when its invocation
// was killed, then lets time pass until nothing is live.
func (b *bench) settled(batch []execute.Delivery) {
	b.invoke(batch...)
	ctx, stop := context.WithCancel(b.t.Context())
	ran := make(chan struct{})
	go func() { _, _ = b.Aggregate().Run(ctx, true); close(ran) }()
	for range 75 {
		b.Deliver(ctx, b.svc, "standard", time.Minute)
		b.Deliver(ctx, b.svc, "retry", time.Minute)
		time.Sleep(time.Second)
	}
	stop()
	<-ran
	b.CheckQuiet(b.t)
}

// TestOneSlowItemDoesNotRedoTheNineThatFinished: it ignores its context until long
// after its time limit.
func TestOneSlowItemDoesNotRedoTheNineThatFinished(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		ids, batch := b.ten()
		var mu sync.Mutex // the slow one is left behind, and synchronises with nobody
		runs := map[string]int{}
		b.does(func(_ context.Context, x *worker.Task) (any, error) {
			mu.Lock()
			runs[x.ID]++
			mu.Unlock()
			if x.ID == ids[4] && x.Attempt == 1 {
				time.Sleep(50 * time.Second)
			}
			return nil, nil
		})
		if failed := b.invoke(batch...); len(failed) > 0 {
			t.Errorf("come again: %v", failed)
		}
		for i, id := range ids {
			if want := map[bool]task.State{true: task.RetryWait, false: task.Succeeded}[i == 4]; b.row(id).State != want {
				t.Errorf("task %d is %s, want %s", i, b.row(id).State, want)
			}
		}
		b.settled(batch)
		mu.Lock()
		defer mu.Unlock()
		for i, id := range ids {
			if want := 1 + map[bool]int{true: 1}[i == 4]; runs[id] != want || b.row(id).State != task.Succeeded {
				t.Errorf("task %d ran %d times, want %d, and is %s", i, runs[id], want, b.row(id).State)
			}
		}
	}, "workers: {max_concurrency: 2, reserved: 2}", tenSlots)
}

// TestOneCrashingItemDoesNotRedoTheNineThatFinished: the worker dies over the
// last one, and all ten messages come again.
func TestOneCrashingItemDoesNotRedoTheNineThatFinished(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		ids, batch := b.ten()
		runs := map[string]int{}
		b.does(func(_ context.Context, x *worker.Task) (any, error) {
			runs[x.ID]++
			if x.ID == ids[9] && x.Attempt == 1 { // from here on nothing it does reaches the store
				b.Table.Fail(func(rig.Call) rig.Fault { return rig.Broken })
			}
			return nil, nil
		})
		b.invoke(batch...)
		b.Table.Fail(nil)
		b.is(ids[9], task.Running)
		b.settled(batch)
		for i, id := range ids {
			if want := 1 + map[bool]int{true: 1}[i == 9]; runs[id] != want || b.row(id).State != task.Succeeded {
				t.Errorf("task %d ran %d times, want %d, and is %s", i, runs[id], want, b.row(id).State)
			}
		}
	}, "workers: {max_concurrency: 2, reserved: 2}", tenSlots)
}

// TestAFailingBatchLeavesNothingForTheNextWarmInvocation: every item fails, each
// in another way; then the same instance is called with good ones.
func TestAFailingBatchLeavesNothingForTheNextWarmInvocation(t *testing.T) {
	for name, fault := range map[string]rig.Fault{"store answers": rig.None, "store throttles": rig.Throttled, "store is broken": rig.Broken, "answers are lost": rig.Applied} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				_, batch := b.ten()
				n := 0
				b.does(func(ctx context.Context, x *worker.Task) (any, error) {
					x.Progress("half")
					switch n++; n % 4 {
					case 0:
						panic("a bug")
					case 1:
						return nil, errors.New("a downstream failed")
					case 2:
						return nil, worker.Permanent(errors.New("bad input"))
					}
					<-ctx.Done()
					return nil, context.Cause(ctx)
				})
				b.Table.Fail(func(rig.Call) rig.Fault { return fault })
				bad := execute.Delivery{MessageID: "bad", Body: []byte(`{"v":9}`)}
				if failed := b.invoke(append(batch[:9:9], bad)...); !slices.Contains(failed, "bad") {
					t.Errorf("come again: %v", failed)
				}
				b.Table.Fail(nil)

				ran := 0
				b.does(func(ctx context.Context, x *worker.Task) (any, error) {
					ran++
					if ctx.Err() != nil || x.Attempt != 1 || x.Checkpoint != nil {
						t.Errorf("begins with %+v, %v", x, ctx.Err())
					}
					return "done", nil
				})
				if failed := b.invoke(batch[9]); len(failed) > 0 {
					t.Errorf("the good one comes again: %v", failed)
				}
				if ran != 1 {
					t.Errorf("%d handlers ran", ran)
				}
				for _, x := range b.Tasks(t) {
					if x.State == task.Succeeded && (x.Result != `"done"` || x.Progress != "" || x.Error != nil || len(x.Attempts) != 1) {
						t.Errorf("%+v", x)
					}
				}
			}, "workers: {max_concurrency: 2, reserved: 2}", tenSlots)
		})
	}
}

// TestACheckpointIsNilUntilThereIsOne: as the documentation tells handlers, who
// compare with nil.
func TestACheckpointIsNilUntilThereIsOne(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		id := b.submit("")
		var given []string
		b.does(func(_ context.Context, x *worker.Task) (any, error) {
			if x.Checkpoint == nil {
				given = append(given, "nil")
				return nil, worker.Continue("half")
			}
			given = append(given, string(x.Checkpoint))
			return nil, nil
		})
		b.invoke(b.take())
		b.is(id, task.Succeeded)
		if !slices.Equal(given, []string{"nil", `"half"`}) {
			t.Errorf("attempts were given %q", given)
		}
	})
}

// TestAPanicInAHandlerNeverLosesItsTask: whatever call fails around it, the task's
// message comes again, or its row says how it goes on.
func TestAPanicInAHandlerNeverLosesItsTask(t *testing.T) {
	for _, fault := range rig.Faults() {
		for from := 1; from < 12; from++ {
			run(t, func(t *testing.T, b *bench) {
				id := b.submit("")
				d := b.take()
				b.does(func(context.Context, *worker.Task) (any, error) { panic("a bug") })
				b.Table.Fail(func(c rig.Call) rig.Fault {
					if c.N >= from {
						return fault
					}
					return rig.None
				})
				failed := b.invoke(d)
				b.Table.Fail(nil)
				x := b.row(id)
				again := slices.Equal(failed, []string{d.MessageID})
				noted := x.State == task.RetryWait && x.Error != nil && x.Error.Code == "panic"
				if !again && !noted && !(x.State == task.Running && x.DueMS <= x.LeaseUntilMS+1) {
					t.Errorf("%s from call %d: no message comes again, and the task is %s, due %d", fault, from, x.State, x.DueMS)
				}
			})
		}
	}
}

// TestAnActualAboveItsEstimateStaysWithinItsBound: what is believed to take a
// second takes all it can get. An attempt ends at its time limit, 2 s later at most;
// more than max_active of a tenant's never run; and the tenant pays for it in the order.
func TestAnActualAboveItsEstimateStaysWithinItsBound(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		var ids []string
		for range 4 {
			ids = append(ids, b.submit(""))
		}
		before := b.Ledger(t, "alpha").Finish["standard"]
		b.does(func(context.Context, *worker.Task) (any, error) { time.Sleep(5 * time.Minute); return nil, nil })
		done := make(chan struct{})
		go func() {
			b.invoke(b.take())
			close(done)
		}()
		second := make(chan struct{})
		go func() {
			b.invoke(b.take())
			close(second)
		}()
		for looking := true; looking; {
			b.CheckLimits(t, "alpha", 0)
			select {
			case <-done:
				looking = false
			case <-time.After(time.Second):
			}
		}
		<-second
		attempts := 0
		for _, id := range ids {
			for _, a := range b.row(id).Attempts {
				attempts++
				if took := a.EndMS - a.StartMS; took < 30_000 || took > 32_000 || a.Outcome != task.OutcomeTimedOut {
					t.Errorf("an attempt took %d ms, %s", took, a.Outcome)
				}
			}
		}
		paid := b.Ledger(t, "alpha").Finish["standard"] - before
		if attempts == 0 || paid < int64(attempts)*29_000 || paid > int64(attempts)*31_000 {
			t.Errorf("%d attempts moved the finish tag by %d ms", attempts, paid)
		}
		time.Sleep(5 * time.Minute) // the handlers that did not listen
	}, "basic: {max_queued_work: 1000h, max_active: 100", "basic: {max_queued_work: 1000h, max_active: 1")
}

package execute_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/execute"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// TestAStaleMessageIsAckedAndItsWorkerHelpsOut: the task it names was cancelled,
// and whoever waits gets the slot.
func TestAStaleMessageIsAckedAndItsWorkerHelpsOut(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		first, _, third := b.submit(""), b.submit(""), b.submit("")
		b.is(third, task.Waiting)
		if _, _, err := b.in.Cancel(t.Context(), b.Who("alpha"), first); err != nil {
			t.Fatal(err)
		}
		if failed := b.invoke(b.take()); len(failed) > 0 {
			t.Errorf("the stale message comes again")
		}
		b.is(third, task.Succeeded)
		if got := b.order(); !slices.Equal(got, []string{third}) {
			t.Errorf("ran %v", got)
		}
		b.CheckLanes(t, true)
	})
}

func TestMessagesThatNameNothingToDoAreAckedWithoutEffect(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		id := b.submit("")
		before := b.row(id)
		for name, m := range map[string]events.Message{
			"an unknown task":     events.NewMessage("alpha", "0190a0de-0000-7000-8000-000000000000", 0),
			"an unknown tenant":   events.NewMessage("nobody", id, 0),
			"a later generation":  events.NewMessage("alpha", id, 1),
			"an earlier attempts": events.NewMessage("beta", id, 0),
		} {
			if failed := b.invoke(execute.Delivery{MessageID: "m", Body: m.Encode()}); len(failed) > 0 {
				t.Errorf("%s comes again", name)
			}
		}
		if failed := rig.Invoke(t.Context(), b.svc, "retry", 0, execute.Delivery{MessageID: "m", Body: events.NewMessage("alpha", id, 0).Encode()}); len(failed) > 0 {
			t.Error("a message in another lane comes again")
		}
		if now := b.row(id); now.State != before.State || now.Gen != before.Gen || len(b.order()) > 0 {
			t.Errorf("%+v", now)
		}
		for _, body := range []string{"", "{", `{"v":1}`, `{"v":2,"tenant":"alpha","task":"x","gen":0}`} {
			if failed := b.invoke(execute.Delivery{MessageID: "m", Body: []byte(body)}); !slices.Equal(failed, []string{"m"}) {
				t.Errorf("a message that nobody can read was acknowledged: %q", body)
			}
		}
	})
}

// TestAMessageDeliveredTwiceRunsOnce, at once and later.
func TestAMessageDeliveredTwiceRunsOnce(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		id := b.submit("")
		b.does(func(context.Context, *worker.Task) (any, error) { time.Sleep(time.Second); return nil, nil })
		d := b.take()
		done := make(chan []string)
		for range 3 {
			go func() { done <- b.invoke(d) }()
		}
		for range 3 {
			if failed := <-done; len(failed) > 0 {
				t.Errorf("comes again: %v", failed)
			}
		}
		b.invoke(d)
		if x := b.is(id, task.Succeeded); x.Attempt != 1 || len(b.order()) != 1 {
			t.Errorf("%d attempts, ran %v", x.Attempt, b.order())
		}
		b.CheckQuiet(t)
	})
}

// TestATenantAtItsLimitIsParked and its next task runs when the first ends.
func TestATenantAtItsLimitIsParked(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		first, second := b.submit(""), b.submit("")
		b.is(second, task.Queued)
		b.does(func(context.Context, *worker.Task) (any, error) { time.Sleep(time.Second); return nil, nil })
		m1, m2 := b.take(), b.take()
		done := make(chan []string)
		go func() { done <- b.invoke(m1) }()
		synctest.Wait()
		b.is(first, task.Running)
		if failed := b.invoke(m2); len(failed) > 0 {
			t.Error("the parked task's message comes again")
		}
		x := b.is(second, task.Waiting)
		l := b.Lane(t, "standard")
		if !x.Parked || l.Open != 1 || l.Parked != 1 || l.Ready != 0 || b.Ledger(t, "alpha").Active != 1 {
			t.Errorf("parked %v, lane %+v, ledger %+v", x.Parked, l, b.Ledger(t, "alpha"))
		}
		b.CheckLimits(t, "alpha", 0)
		b.CheckLanes(t, true)
		<-done
		b.is(second, task.Succeeded)
		b.CheckQuiet(t)
	}, "basic: {max_queued_work: 1000h, max_active: 100", "basic: {max_queued_work: 1000h, max_active: 1")
}

// TestATaskThatCannotStartInTimeExpiresAtItsClaim, one millisecond after
// start_by and not before; of a class that runs late it runs.
func TestATaskThatCannotStartInTimeExpiresAtItsClaim(t *testing.T) {
	for name, c := range map[string]struct {
		class string
		after time.Duration
		want  task.State
	}{
		"at start_by":        {"short", 0, task.Succeeded},
		"just after":         {"short", time.Millisecond, task.Expired},
		"a class runs late":  {"late", time.Hour, task.Succeeded},
		"long after, no way": {"short", time.Hour, task.Expired},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				id := b.submit(`{"class":"` + c.class + `","deadline_seconds":10}`)
				time.Sleep(time.Until(time.UnixMilli(b.row(id).StartByMS)) + c.after)
				b.invoke(b.take())
				if x := b.is(id, c.want); x.FinishedMS != time.Now().UnixMilli() {
					t.Errorf("finished at %d", x.FinishedMS)
				}
				b.CheckQuiet(t)
			})
		})
	}
}

// TestAClaimThatFailsComesAgain: what the store did not do is not acknowledged,
// and a claim whose answer was lost is recognised.
func TestAClaimThatFailsComesAgain(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		id := b.submit("")
		d := b.take()
		for _, f := range []rig.Fault{rig.Throttled, rig.TimedOut, rig.Broken} {
			b.Table.Fail(func(c rig.Call) rig.Fault {
				if c.Kind == "get" || c.Name == "claim" {
					return f
				}
				return rig.None
			})
			if failed := b.invoke(d); !slices.Equal(failed, []string{d.MessageID}) {
				t.Errorf("%s: %v", f, failed)
			}
		}
		b.Table.Fail(func(c rig.Call) rig.Fault {
			if c.Name == "claim" && c.N <= 2 {
				return rig.Applied
			}
			return rig.None
		})
		if failed := b.invoke(d); len(failed) > 0 {
			t.Error("a claim that was applied comes again")
		}
		b.Table.Fail(nil)
		b.is(id, task.Succeeded)
		b.CheckQuiet(t)
	})
}

// TestOneBadMessageDoesNotTouchTheOthersOfItsBatch.
func TestOneBadMessageDoesNotTouchTheOthersOfItsBatch(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		panics, works := b.submit(""), b.submit("")
		b.does(func(_ context.Context, x *worker.Task) (any, error) {
			if x.ID == panics {
				panic("a bug")
			}
			return nil, nil
		})
		bad := execute.Delivery{MessageID: "bad", Body: []byte("?")}
		if failed := b.invoke(b.take(), bad, b.take()); !slices.Equal(failed, []string{"bad"}) {
			t.Errorf("come again: %v", failed)
		}
		b.is(works, task.Succeeded)
		x := b.is(panics, task.RetryWait)
		if x.Error == nil || x.Error.Code != "panic" || !x.Error.Retryable || x.Failures != 1 || x.NotBeforeMS <= time.Now().UnixMilli()-1 {
			t.Errorf("%+v, error %+v", x, x.Error)
		}
	})
}

// TestWaitingTasksAreHandedOverInOrder of their submission.
func TestWaitingTasksAreHandedOverInOrder(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		var want []string
		for range 12 {
			want = append(want, b.submit(""))
		}
		b.does(func(context.Context, *worker.Task) (any, error) { time.Sleep(time.Second); return nil, nil })
		b.invoke(b.take())
		// The second task keeps its own slot: its message was not delivered yet.
		if got := b.order(); !slices.Equal(got, append(want[:1:1], want[2:]...)) {
			t.Errorf("ran %v, submitted were %v", got, want)
		}
		b.is(want[1], task.Queued)
		b.invoke(b.take())
		b.CheckQuiet(t)
	})
}

// TestNoHandOverWithoutTime: a worker starts nothing that its invocation could
// not finish, nor while it is told to stop, nor in a paused lane.
func TestNoHandOverWithoutTime(t *testing.T) {
	for name, c := range map[string]struct {
		limit    time.Duration
		stopping bool
		want     task.State
	}{
		"enough": {36 * time.Second, false, task.Succeeded}, // attempt_timeout 30 s + 5 s
		"short":  {34 * time.Second, false, task.Waiting},
		"stops":  {10 * time.Minute, true, task.Waiting},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				first, _, third := b.submit(""), b.submit(""), b.submit("")
				stop := false
				b.svc.Stopping = func() bool { return stop }
				b.does(func(context.Context, *worker.Task) (any, error) { stop = c.stopping; return nil, nil })
				rig.Invoke(t.Context(), b.svc, "standard", c.limit, b.take())
				b.is(first, task.Succeeded)
				b.is(third, c.want)
				if l := b.Lane(t, "standard"); l.Open != 1 {
					t.Errorf("%d slots are taken", l.Open)
				}
				b.CheckLanes(t, true)
			})
		})
	}
}

var errDownstream = errors.New("the downstream failed")

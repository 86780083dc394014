package aggregate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// TestAPurgedMessageIsSentAgain after resend_after and not before, as often as
// it takes.
func TestAPurgedMessageIsSentAgain(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		id := b.submit("alpha", "")
		submitted := b.is("alpha", id, task.Queued).SubmittedMS
		for n := int64(1); n <= 3; n++ {
			b.Queue.Purge("standard")
			until(submitted + n*30_000 - 1)
			if b.tick(); b.Queue.Len("standard") != 0 {
				t.Fatalf("%d: sent again too early", n)
			}
			until(submitted + n*30_000)
			if b.tick(); b.Queue.Len("standard") != 1 {
				t.Fatalf("%d: %d messages", n, b.Queue.Len("standard"))
			}
		}
		b.deliver("standard")
		b.is("alpha", id, task.Succeeded)
		b.CheckQuiet(t)
	})
}

// TestALostWorkerIsFoundOneMillisecondAfterItsLease and not before.
func TestALostWorkerIsFoundOneMillisecondAfterItsLease(t *testing.T) {
	for name, c := range map[string]struct {
		config []string
		cancel bool
		want   task.State
	}{
		"with attempts left": {nil, false, task.RetryWait},
		"at its last":        {[]string{"max_attempts: 3", "max_attempts: 1"}, false, task.Quarantined},
		"and cancelled":      {nil, true, task.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				written := b.traced()
				id := b.submit("alpha", "")
				lost := b.dies("alpha", id)
				if c.cancel {
					b.cancel("alpha", id)
				}
				for until(lost.SubmittedMS + 30_000); time.Now().UnixMilli() < lost.LeaseUntilMS-1000; time.Sleep(time.Second) {
					b.tick() // visited early, when its message would have been due
				}
				until(lost.LeaseUntilMS)
				b.tick()
				b.is("alpha", id, task.Running)
				until(lost.LeaseUntilMS + 1)
				b.tick()
				x := b.is("alpha", id, c.want)
				if len(x.Attempts) != 1 || x.Attempts[0].Outcome != task.OutcomeLost || x.Gen != lost.Gen {
					t.Errorf("%+v", x)
				}
				if (x.Error == nil) != c.cancel || x.Error != nil && x.Error.Code != task.OutcomeLost {
					t.Errorf("error %+v", x.Error)
				}
				if l := b.Lane(t, "standard"); !l.Empty() || len(l.Tasks) > 0 {
					t.Errorf("its slot is still taken: %+v", l)
				}
				if s := *written; len(s) != 2 || s[1].Outcome != task.OutcomeLost || s[1].Attempt != 1 || s[1].TraceID != s[0].TraceID || s[1].ParentID != s[0].SpanID ||
					s[1].StartMS != lost.AttemptMS || s[1].EndMS != lost.LeaseUntilMS+1 {
					t.Errorf("its submission and its end in one trace: %+v", s)
				}
				// The dead worker was only slow: what it brings is refused.
				after := *lost
				if err := b.Raw.Transact(t.Context(), taskop.Finish(lost, taskop.End{Event: task.Succeed, After: &after})); err == nil {
					t.Error("a late success was taken")
				}
				b.CheckHoldings(t)
			}, c.config...)
		})
	}
}

// TestWhatCannotStartInTimeExpires one millisecond after start_by, whichever
// way it waits; of a class that runs late it does not.
func TestWhatCannotStartInTimeExpires(t *testing.T) {
	prepare := map[string]func(b *bench, body string) string{
		"queued": func(b *bench, body string) string { return b.submit("alpha", body) },
		"waiting": func(b *bench, body string) string {
			b.submit("beta", "")
			b.submit("beta", "")
			return b.submit("alpha", body)
		},
		"retry_wait": func(b *bench, body string) string {
			id := b.submit("alpha", body)
			b.handle = func(context.Context, *worker.Task) (any, error) {
				return nil, worker.RetryAfter(time.Hour, errors.New("later"))
			}
			b.deliver("standard")
			return id
		},
	}
	for name, prepare := range prepare {
		for class, want := range map[string]task.State{"short": task.Expired, "late": task.State(name)} {
			t.Run(name+" "+class, func(t *testing.T) {
				run(t, func(t *testing.T, b *bench) {
					id := prepare(b, `{"class":"`+class+`","deadline_seconds":20}`)
					x := b.is("alpha", id, task.State(name))
					for until(x.StartByMS - 2000); time.Now().UnixMilli() < x.StartByMS-500; time.Sleep(400 * time.Millisecond) {
						b.tick()
					}
					until(x.StartByMS)
					b.tick()
					b.is("alpha", id, task.State(name))
					until(x.StartByMS + 1)
					b.tick()
					b.is("alpha", id, want)
					b.CheckHoldings(t)
					b.CheckLanes(t, true)
				})
			})
		}
	}
}

// TestADueRetryGoesToTheRetryLane at not_before and not before, and waits there
// when its slots are taken.
func TestADueRetryGoesToTheRetryLane(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.handle = func(_ context.Context, x *worker.Task) (any, error) {
			if x.Attempt == 1 {
				return nil, worker.RetryAfter(10*time.Second, errors.New("a downstream asks for patience"))
			}
			return nil, nil
		}
		var ids []string
		for range 4 {
			ids = append(ids, b.submit("alpha", ""))
		}
		b.deliver("standard")
		first := b.is("alpha", ids[0], task.RetryWait)
		if first.NotBeforeMS < time.Now().UnixMilli()+9_000 {
			t.Errorf("the downstream asked for 10 s, the retry is due at %d", first.NotBeforeMS)
		}
		until(first.NotBeforeMS - 1)
		b.tick()
		b.is("alpha", ids[0], task.RetryWait)
		time.Sleep(time.Second) // all are due
		b.tick()
		states := map[task.State]int{}
		for _, id := range ids {
			x := b.Task(t, "alpha", id)
			states[x.State]++
			if x.AtLane != "retry" || x.Lane != "standard" {
				t.Errorf("at %s, of %s", x.AtLane, x.Lane)
			}
		}
		slots := int(b.Lane(t, "retry").Open)
		if slots < 1 || states[task.Queued] != slots || states[task.Waiting] != 4-slots || b.Queue.Len("retry") != slots || b.Queue.Len("standard") != 0 {
			t.Errorf("%v, %d slots taken, %d messages", states, slots, b.Queue.Len("retry"))
		}
		if l := b.Lane(t, "standard"); !l.Empty() {
			t.Errorf("retries count in the lane of fresh work: %+v", l)
		}
		b.CheckLanes(t, true)
		for range 10 {
			b.deliver("retry")
			b.runFor(2 * time.Second)
		}
		for _, id := range ids {
			b.is("alpha", id, task.Succeeded)
		}
		b.CheckQuiet(t)
	})
}

// TestThirtyFailuresEndInQuarantine: a task that never succeeds comes to rest
// after max_attempts.
func TestThirtyFailuresEndInQuarantine(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		n := 0
		b.handle = func(context.Context, *worker.Task) (any, error) { n++; return nil, errors.New("never") }
		id := b.submit("alpha", "")
		b.deliver("standard")
		for range 400 {
			b.runFor(2 * time.Second)
			b.deliver("retry")
		}
		if x := b.is("alpha", id, task.Quarantined); n != 30 || x.Attempt != 30 || x.Failures != 30 || len(x.Attempts) != task.HistoryMax {
			t.Errorf("%d attempts: %+v", n, x)
		}
		b.CheckQuiet(t)
	}, "max_attempts: 3", "max_attempts: 30")
}

// TestASendThatFailsIsMadeGood when the message is due again.
func TestASendThatFailsIsMadeGood(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		blockers := []string{b.submit("beta", ""), b.submit("beta", "")}
		id := b.submit("alpha", "")
		b.cancel("beta", blockers[0])
		b.Queue.Fail(func(int) rig.Fault { return rig.Broken })
		b.tick()
		b.is("alpha", id, task.Queued)
		b.Queue.Fail(nil)
		b.Queue.Purge("standard")
		b.runFor(45 * time.Second)
		d, ok := b.Queue.Take("standard")
		for ok {
			if m, err := events.DecodeMessage(d.Body); err == nil && m.Task == id {
				return
			}
			d, ok = b.Queue.Take("standard")
		}
		t.Error("its message was never sent")
	})
}

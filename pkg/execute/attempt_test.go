package execute_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// untilTold waits for its context's end and returns the reason.
// nothing is what a handler panics with that panics with nil.
var nothing any

func untilTold(ctx context.Context, _ *worker.Task) (any, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func TestHowAHandlerEndsIsHowItsTaskGoesOn(t *testing.T) {
	huge := strings.Repeat("x", 256<<10)
	for name, c := range map[string]struct {
		handle  worker.Handler
		want    task.State
		code    string
		result  string
		outcome string
	}{
		"a result":            {func(context.Context, *worker.Task) (any, error) { return map[string]int{"n": 1}, nil }, task.Succeeded, "", `{"n":1}`, "succeeded"},
		"no result":           {func(context.Context, *worker.Task) (any, error) { return nil, nil }, task.Succeeded, "", "", "succeeded"},
		"an error":            {func(context.Context, *worker.Task) (any, error) { return nil, errDownstream }, task.RetryWait, "handler_error", "", "failed"},
		"an error with code":  {func(context.Context, *worker.Task) (any, error) { return 1, worker.WithCode("quota", errDownstream) }, task.RetryWait, "quota", "", "failed"},
		"a permanent error":   {func(context.Context, *worker.Task) (any, error) { return nil, worker.Permanent(errDownstream) }, task.Failed, "handler_error", "", "failed"},
		"a bad payload":       {func(_ context.Context, x *worker.Task) (any, error) { return nil, x.Decode(new(int)) }, task.Failed, "handler_error", "", "failed"},
		"a panic":             {func(context.Context, *worker.Task) (any, error) { panic("a bug") }, task.RetryWait, "panic", "", "failed"},
		"a panic with nil":    {func(context.Context, *worker.Task) (any, error) { panic(nothing) }, task.RetryWait, "panic", "", "failed"},
		"too large a result":  {func(context.Context, *worker.Task) (any, error) { return huge, nil }, task.Failed, "result_too_large", "", "failed"},
		"a result of no JSON": {func(context.Context, *worker.Task) (any, error) { return make(chan int), nil }, task.Failed, "bad_result", "", "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				b.does(c.handle)
				id := b.submit(`{"class":"short","deadline_seconds":3600,"payload":"text"}`)
				time.Sleep(time.Second)
				if failed := b.invoke(b.take()); len(failed) > 0 {
					t.Errorf("comes again: %v", failed)
				}
				x := b.is(id, c.want)
				if x.Result != c.result || (x.Error == nil) != (c.code == "") || x.Error != nil && (x.Error.Code != c.code || x.Error.Signature == "" || x.Error.Retryable != (c.want == task.RetryWait)) {
					t.Errorf("result %q, error %+v", x.Result, x.Error)
				}
				if len(x.Attempts) != 1 || x.Attempts[0].Outcome != c.outcome || x.Attempts[0].N != 1 || x.Attempts[0].Lane != "standard" || x.Attempts[0].EndMS != time.Now().UnixMilli() {
					t.Errorf("attempts %+v", x.Attempts)
				}
				if x.State.Terminal() == (x.FinishedMS == 0) {
					t.Errorf("%s, finished at %d", x.State, x.FinishedMS)
				}
				if l := b.Lane(t, "standard"); !l.Empty() || len(l.Tasks) > 0 {
					t.Errorf("the slot was not given back: %+v", l)
				}
			})
		})
	}
}

// TestTheHistoryCountsCallsOfDownstreams however an attempt ended, each attempt its own.
func TestTheHistoryCountsCallsOfDownstreams(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.does(func(_ context.Context, x *worker.Task) (any, error) {
			if x.Attempt == 1 {
				x.Called("warehouse", 2)
				return nil, worker.Continue(1)
			}
			x.Called("mailer", 1)
			x.Called("warehouse", 1)
			return nil, errDownstream
		})
		id := b.submit(`{"class":"short","deadline_seconds":3600}`)
		b.invoke(b.take())
		x := b.is(id, task.RetryWait)
		if len(x.Attempts) != 2 || !maps.Equal(x.Attempts[0].Calls, map[string]int64{"warehouse": 2}) ||
			!maps.Equal(x.Attempts[1].Calls, map[string]int64{"mailer": 1, "warehouse": 1}) {
			t.Errorf("attempts %+v", x.Attempts)
		}
	})
}

// TestLargePayloadsAndResultsArrive although they stand beside the row.
func TestLargePayloadsAndResultsArrive(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		big := strings.Repeat("x", 100<<10)
		b.does(func(_ context.Context, x *worker.Task) (any, error) {
			var s string
			err := x.Decode(&s)
			return s + "y", err
		})
		id := b.submit(`{"class":"short","deadline_seconds":3600,"payload":"` + big + `"}`)
		b.invoke(b.take())
		if row := b.is(id, task.Succeeded); row.Result != "" || !row.ResultBeside || row.Payload != "" {
			t.Error("payload or result are on the row")
		}
		got, err := b.in.Get(t.Context(), b.Who("alpha"), id, 0)
		if err != nil || got.Result != `"`+big+`y"` {
			t.Errorf("%d bytes of result, %v", len(got.Result), err)
		}
	})
}

// TestAClassWithoutHandlerIsTriedAgain: another version of the worker may have it.
// TestAPayloadThatIsGoneIsAnErrorAndNotNothing: a handler never runs on less than was submitted.
func TestAPayloadThatIsGoneIsAnErrorAndNotNothing(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.does(func(context.Context, *worker.Task) (any, error) {
			t.Error("the handler was called")
			return nil, nil
		})
		id := b.submit(`{"class":"short","deadline_seconds":3600,"payload":"` + strings.Repeat("x", 1000) + `"}`)
		if _, err := b.Raw.Write(t.Context(), op.Write{Name: "lose", Key: taskop.PayloadKey("alpha", id), Action: op.Delete}); err != nil {
			t.Fatal(err)
		}
		b.invoke(b.take())
		if x := b.is(id, task.RetryWait); x.Error == nil || x.Error.Code != "payload_unavailable" {
			t.Errorf("%+v", x.Error)
		}
	})
}

func TestAClassWithoutHandlerIsTriedAgain(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		id := b.submit("")
		rig.Invoke(t.Context(), b.Execute(worker.New()), "standard", time.Minute, b.take())
		if x := b.is(id, task.RetryWait); x.Error == nil || x.Error.Code != "no_handler" {
			t.Errorf("%+v", x.Error)
		}
	})
}

// TestContinueGoesOnWithItsCheckpoint, at once when nobody else waits, without
// counting as a failure, however often.
func TestContinueGoesOnWithItsCheckpoint(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		var seen []string
		b.does(func(_ context.Context, x *worker.Task) (any, error) {
			seen = append(seen, string(x.Checkpoint))
			time.Sleep(10 * time.Second)
			if x.Attempt < 6 {
				return nil, worker.Continue(x.Attempt)
			}
			return "done", nil
		})
		id := b.submit(`{"class":"short","deadline_seconds":5}`) // start_by does not count for what goes on
		b.invoke(b.take())
		x := b.is(id, task.Succeeded)
		if want := []string{"", "1", "2", "3", "4", "5"}; !slices.Equal(seen, want) {
			t.Errorf("checkpoints %q, want %q", seen, want)
		}
		if x.Failures != 0 || x.Attempt != 6 || x.Gen != 6 || len(x.Attempts) != 6 || x.Attempts[0].Outcome != task.OutcomeHandBack {
			t.Errorf("%+v", x)
		}
		b.CheckQuiet(t)
	})
}

// TestWhoGoesOnStandsInTheOrder: another that waits longer comes first.
func TestWhoGoesOnStandsInTheOrder(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		ids := []string{b.submit(""), b.submit(""), b.submit("")}
		b.does(func(_ context.Context, x *worker.Task) (any, error) {
			time.Sleep(time.Second)
			if x.ID == ids[2] && x.Attempt == 1 {
				return nil, worker.Continue(nil)
			}
			return nil, nil
		})
		b.invoke(b.take())
		late := b.submit("") // queued or waiting behind
		b.tick(10 * time.Second)
		for b.Queue.Len("standard") > 0 {
			b.invoke(b.take())
		}
		for _, id := range append(ids, late) {
			b.is(id, task.Succeeded)
		}
		b.CheckQuiet(t)
	})
}

func TestTheTimeLimitEndsAnAttempt(t *testing.T) {
	for name, h := range map[string]worker.Handler{
		"a handler that listens":     untilTold,
		"a handler that returns nil": func(ctx context.Context, _ *worker.Task) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
		"a handler that does not":    func(context.Context, *worker.Task) (any, error) { time.Sleep(time.Hour); return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				b.does(h)
				id := b.submit("")
				began := time.Now()
				b.invoke(b.take())
				if took := time.Since(began); took < 30*time.Second || took > 33*time.Second { // attempt_timeout, and a moment to listen
					t.Errorf("it took %v", took)
				}
				x := b.is(id, task.RetryWait)
				if x.Error == nil || x.Error.Code != "timeout" || !x.Error.Retryable || x.Attempts[0].Outcome != task.OutcomeTimedOut {
					t.Errorf("error %+v, attempts %+v", x.Error, x.Attempts)
				}
				time.Sleep(time.Hour) // what the handler returns at last is nobody's business any more
				if late := b.row(id); late.Gen != x.Gen || late.State != x.State {
					t.Errorf("became %+v", late)
				}
			})
		})
	}
}

// TestSuccessAtTheLastMomentStands: the handler was told to stop and had just
// finished.
func TestSuccessAtTheLastMomentStands(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.does(func(ctx context.Context, _ *worker.Task) (any, error) { <-ctx.Done(); return "just in time", nil })
		id := b.submit("")
		b.invoke(b.take())
		b.is(id, task.Succeeded)
		b.CheckQuiet(t)
	})
}

// TestATaskIsHandedBackBeforeItsInvocationEnds, and counts no failure.
func TestATaskIsHandedBackBeforeItsInvocationEnds(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		var cause error
		b.does(func(ctx context.Context, x *worker.Task) (any, error) {
			x.Progress(map[string]int{"at": 7})
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil, ctx.Err()
		})
		id := b.submit("")
		began := time.Now()
		rig.Invoke(t.Context(), b.svc, "standard", 20*time.Second, b.take())
		if took := time.Since(began); took < 14*time.Second || took > 16*time.Second || !errors.Is(cause, worker.ErrHandBack) {
			t.Errorf("handed back after %v because of %v", took, cause)
		}
		x := b.is(id, task.Waiting)
		if x.Failures != 0 || x.Error != nil || x.Progress != `{"at":7}` || x.Attempts[0].Outcome != task.OutcomeHandBack {
			t.Errorf("%+v", x)
		}
		b.CheckLanes(t, true)
		b.does(func(context.Context, *worker.Task) (any, error) { return nil, nil })
		b.tick(8 * time.Second)
		b.invoke(b.take())
		b.is(id, task.Succeeded)
		b.CheckQuiet(t)
	})
}

// TestACancelIsLearnedAtTheRenewal, and the attempt's end is "cancelled" unless
// it succeeded.
func TestACancelIsLearnedAtTheRenewal(t *testing.T) {
	for name, c := range map[string]struct {
		handle worker.Handler
		want   task.State
	}{
		"it stops": {untilTold, task.Cancelled},
		"it fails": {func(context.Context, *worker.Task) (any, error) {
			time.Sleep(10 * time.Second)
			return nil, errDownstream
		}, task.Cancelled},
		"it fails late": {func(context.Context, *worker.Task) (any, error) {
			time.Sleep(21 * time.Second)
			return nil, errDownstream
		}, task.Cancelled},
		"it succeeds": {func(context.Context, *worker.Task) (any, error) { time.Sleep(10 * time.Second); return 1, nil }, task.Succeeded},
		"it would go on": {func(context.Context, *worker.Task) (any, error) {
			time.Sleep(10 * time.Second)
			return 1, worker.Continue(1)
		}, task.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				var cause error
				b.does(func(ctx context.Context, x *worker.Task) (any, error) {
					v, err := c.handle(ctx, x)
					cause = context.Cause(ctx)
					return v, err
				})
				id := b.submit("")
				began := time.Now()
				done := make(chan []string)
				go func() { done <- b.invoke(b.take()) }()
				time.Sleep(5 * time.Second)
				x, already, err := b.in.Cancel(t.Context(), b.Who("alpha"), id)
				if err != nil || already || x.State != task.Running || !x.CancelRequested {
					t.Fatalf("%+v, %v, %v", x, already, err)
				}
				<-done
				if took := time.Since(began); took > 23*time.Second {
					t.Errorf("it took %v to learn of the cancel", took)
				}
				if name == "it stops" && !errors.Is(cause, worker.ErrCancelRequested) {
					t.Errorf("ended because of %v", cause)
				}
				x = b.is(id, c.want)
				if x.FinishedMS != time.Now().UnixMilli() || len(x.Attempts) != 1 {
					t.Errorf("%+v", x)
				}
				b.CheckQuiet(t)
			})
		})
	}
}

// TestAnAttemptThatLostItsLeaseChangesNothing: the store does not answer its
// renewals, the aggregator takes it for lost, and its late success is refused.
func TestAnAttemptThatLostItsLeaseChangesNothing(t *testing.T) {
	for name, listens := range map[string]bool{"it listens": true, "it finishes": false} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				release := make(chan struct{})
				b.does(func(ctx context.Context, x *worker.Task) (any, error) {
					if x.Attempt > 1 {
						return "second", nil
					}
					if listens {
						<-ctx.Done()
						if cause := context.Cause(ctx); !errors.Is(cause, worker.ErrLeaseLost) {
							t.Errorf("ended because of %v", cause)
						}
					} else {
						<-release
					}
					return "first", nil
				})
				b.Table.Fail(func(c rig.Call) rig.Fault {
					if c.Name == "renew.row" {
						return rig.TimedOut
					}
					return rig.None
				})
				id := b.submit("")
				done := make(chan []string)
				go func() { done <- b.invoke(b.take()) }()
				synctest.Wait()
				until := b.row(id).LeaseUntilMS
				ctx, stop := context.WithCancel(t.Context())
				ran := make(chan struct{})
				go func() { _, _ = b.Aggregate().Run(ctx, true); close(ran) }()
				time.Sleep(time.Until(time.UnixMilli(until)))
				b.is(id, task.Running)
				time.Sleep(2 * time.Second)
				x := b.row(id)
				if len(x.Attempts) != 1 || x.Attempts[0].Outcome != task.OutcomeLost || x.Failures != 1 {
					t.Errorf("%+v", x)
				}
				close(release)
				<-done
				for range 10 {
					b.Deliver(t.Context(), b.svc, "retry", time.Minute)
					time.Sleep(2 * time.Second)
				}
				if x := b.is(id, task.Succeeded); x.Result != `"second"` || x.Attempt != 2 {
					t.Errorf("%+v", x)
				}
				stop()
				<-ran
				b.CheckQuiet(t)
			}, "attempt_timeout: 30s", "attempt_timeout: 2m", "attempt_timeout: 30s", "attempt_timeout: 2m")
		})
	}
}

// TestALongAttemptKeepsItsLease and carries its progress.
func TestALongAttemptKeepsItsLease(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.does(func(ctx context.Context, x *worker.Task) (any, error) {
			for i := range 60 {
				x.Progress(i)
				select {
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				case <-time.After(time.Second):
				}
			}
			return nil, nil
		})
		id := b.submit("")
		done := make(chan []string)
		go func() { done <- b.invoke(b.take()) }()
		for range 5 {
			time.Sleep(11 * time.Second)
			if x := b.is(id, task.Running); x.LeaseUntilMS <= time.Now().UnixMilli() {
				t.Error("the lease ran out")
			}
		}
		b.tick(7 * time.Second)
		if x := b.row(id); x.Attempt == 1 && x.State == task.Running && !json.Valid([]byte(x.Progress)) {
			t.Errorf("progress %q", x.Progress)
		}
		<-done
		if x := b.is(id, task.Succeeded); x.Attempt != 1 || x.Progress != "59" {
			t.Errorf("%+v", x)
		}
		b.CheckQuiet(t)
	}, "attempt_timeout: 30s", "attempt_timeout: 2m", "attempt_timeout: 30s", "attempt_timeout: 2m")
}

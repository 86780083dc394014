package aggregate_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/aggregate"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// TestARunEndsWhenNothingIsLive for a while, and not while a task is.
func TestARunEndsWhenNothingIsLive(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		began := time.Now()
		rep, err := b.agg.Run(t.Context(), true)
		if took := time.Since(began); err != nil || rep.EndedBy != "idle" || took < 30*time.Second || took > 32*time.Second {
			t.Errorf("%+v after %v, %v", rep, took, err)
		}
		b.submit("alpha", "")
		began = time.Now()
		rep, err = b.agg.Run(t.Context(), true)
		if took := time.Since(began); err != nil || rep.EndedBy != "time" || took < 169*time.Second || took > 172*time.Second || rep.Epoch != 2 || rep.Ticks < 165 {
			t.Errorf("with a live task: %+v after %v, %v", rep, took, err)
		}
	})
}

// TestTakeover: a newcomer asks, the holder stops after its tick; one that does
// not insist goes at once.
func TestTakeover(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.submit("alpha", "")
		first := make(chan aggregate.Report)
		go func() {
			rep, _ := b.agg.Run(t.Context(), true)
			first <- rep
		}()
		time.Sleep(10 * time.Second)
		began := time.Now()
		rep, err := b.Aggregate().Run(t.Context(), false)
		if err != nil || rep.EndedBy != "held" || time.Since(began) != 0 {
			t.Errorf("without insisting: %+v after %v, %v", rep, time.Since(began), err)
		}
		second := make(chan aggregate.Report)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			rep, _ := b.Aggregate().Run(ctx, true)
			second <- rep
		}()
		rep = <-first
		if took := time.Since(began); rep.EndedBy != "asked" || rep.Epoch != 1 || took > 2*time.Second {
			t.Errorf("the holder: %+v after %v", rep, took)
		}
		time.Sleep(3 * time.Second)
		stop()
		if rep = <-second; rep.Epoch != 2 || rep.Ticks < 2 {
			t.Errorf("the newcomer: %+v", rep)
		}
	})
}

// TestADeadRunIsReplacedWhenItsLeaseRunsOut, and one that was only frozen finds
// that it has lost it.
func TestADeadRunIsReplacedWhenItsLeaseRunsOut(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.submit("alpha", "")
		frozen, thaw := b.Aggregate(), make(chan struct{})
		var freeze atomic.Bool
		frozen.Clock = func() time.Time {
			if freeze.Load() {
				<-thaw
			}
			return time.Now()
		}
		first := make(chan aggregate.Report)
		go func() {
			rep, _ := frozen.Run(t.Context(), true)
			first <- rep
		}()
		time.Sleep(2500 * time.Millisecond)
		freeze.Store(true)
		synctest.Wait()
		began := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		second := make(chan aggregate.Report)
		go func() {
			rep, _ := b.Aggregate().Run(ctx, true)
			second <- rep
		}()
		time.Sleep(7 * time.Second)
		item, err := b.Raw.Get(t.Context(), taskop.AggregatorKey(), true)
		if held := taskop.DecodeRun(item); err != nil || held.Epoch != 2 || held.UntilMS < time.Now().UnixMilli() {
			t.Errorf("%v after the freeze the lease is %+v, %v", time.Since(began), held, err)
		}
		freeze.Store(false)
		close(thaw)
		if rep := <-first; rep.EndedBy != "lost" || rep.Epoch != 1 {
			t.Errorf("the frozen one: %+v", rep)
		}
		stop()
		if rep := <-second; rep.Epoch != 2 {
			t.Errorf("%+v", rep)
		}
		if _, err := b.Raw.Write(t.Context(), taskop.Publish(0, []byte("[]"), 1, 2)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Raw.Write(t.Context(), taskop.Publish(0, []byte("[]"), 2, 1)); op.FailedCond(err) == nil {
			t.Errorf("an earlier epoch published over a later one: %v", err)
		}
	})
}

// TestARunSurvivesAStoreThatFailsForAMoment, and gives up when its lease is over.
func TestARunSurvivesAStoreThatFailsForAMoment(t *testing.T) {
	for name, c := range map[string]struct {
		outage time.Duration
		want   string
	}{"3 s": {3 * time.Second, "context"}, "20 s": {20 * time.Second, "lost"}} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				from := time.Now().Add(5 * time.Second)
				b.Table.Fail(func(rig.Call) rig.Fault {
					if since := time.Since(from); since >= 0 && since < c.outage {
						return rig.TimedOut
					}
					return rig.None
				})
				b.submit("alpha", "")
				if rep := b.runFor(time.Minute); rep.EndedBy != c.want {
					t.Errorf("%+v", rep)
				}
				b.Table.Fail(nil)
			})
		})
	}
}

// TestALaneItemThatIsTooFullIsRepaired: what calls left behind that never came
// to their row.
func TestALaneItemThatIsTooFullIsRepaired(t *testing.T) {
	ghost := func(b *bench, running bool) taskop.Open {
		return taskop.Open{ID: "0190a0de-0000-7000-8000-000000000000", Class: "short", Bucket: "default", Tenant: "beta", SinceMS: time.Now().UnixMilli(), AmountMS: 700, Running: running}
	}
	for name, breakIt := range map[string]func(b *bench, waiting *task.Task){
		"a phantom in the order": func(b *bench, _ *task.Task) { b.write(taskop.EnterReady("standard", 700, nil)) },
		"one that was parked": func(b *bench, _ *task.Task) {
			b.write(taskop.EnterReady("standard", 700, nil))
			b.write(taskop.ParkReady("standard"))
		},
		"a queued phantom":  func(b *bench, _ *task.Task) { b.write(taskop.AdoptOpen("standard", ghost(b, false))) },
		"a running phantom": func(b *bench, _ *task.Task) { b.write(taskop.AdoptOpen("standard", ghost(b, true))) },
		"a release that stopped half-way": func(b *bench, x *task.Task) {
			first := b.Lane(b.t, "standard").Tasks[0]
			b.cancel(first.Tenant, first.ID)
			o := ghost(b, false)
			o.ID, o.Tenant, o.AmountMS = x.ID, x.Tenant, x.AmountMS
			b.write(taskop.ReleaseSlot("standard", o, false))
		},
		"a claim the lane was not told of": func(b *bench, _ *task.Task) {
			for _, o := range b.Lane(b.t, "standard").Tasks {
				x := b.Task(b.t, o.Tenant, o.ID)
				l := taskop.Lease{Token: "t", NowMS: time.Now().UnixMilli(), UntilMS: time.Now().Add(time.Hour).UnixMilli()}
				if err := b.Raw.Transact(b.t.Context(), taskop.Claim(x, l)); err != nil {
					b.t.Fatal(err)
				}
			}
		},
		"an end the lane was not told of": func(b *bench, _ *task.Task) {
			o := b.Lane(b.t, "standard").Tasks[0]
			x := b.Claim(b.t, b.Task(b.t, o.Tenant, o.ID))
			after := *x
			if err := b.Raw.Transact(b.t.Context(), taskop.Finish(x, taskop.End{Event: task.Succeed, After: &after})); err != nil {
				b.t.Fatal(err)
			}
		},
		"a restored item, too empty": func(b *bench, _ *task.Task) {
			b.write(op.Write{Name: "lose", Key: taskop.LaneKey("standard"), Action: op.Delete})
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				b.submit("alpha", "")
				b.submit("beta", "")
				waiting := b.submit("alpha", "")
				breakIt(b, b.Task(t, "alpha", waiting))
				if name != "a restored item, too empty" {
					b.CheckLanes(t, false)
				}
				b.runFor(60 * time.Second)
				b.CheckLanes(t, true)
				for range 30 {
					b.deliver("standard")
					b.deliver("retry")
					b.runFor(5 * time.Second)
				}
				if name != "a claim the lane was not told of" {
					b.CheckQuiet(t)
				}
			})
		})
	}
}

// TestEstimatesAreLearnedFromCompletedWork and reach admissions.
func TestEstimatesAreLearnedFromCompletedWork(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.handle = func(context.Context, *worker.Task) (any, error) { time.Sleep(8 * time.Second); return nil, nil }
		sub, _ := intake.Decode([]byte(`{"class":"short","deadline_seconds":3600}`), intake.Header{}, b.Config)
		quote := func() int64 {
			q, err := b.Intake().Quote(t.Context(), b.Who("alpha"), sub)
			if err != nil {
				t.Fatal(err)
			}
			return int64(q.Decision.Estimate)
		}
		if q := quote(); q != 1000 {
			t.Fatalf("the prior is %d", q)
		}
		for range 60 {
			b.submit("alpha", "")
		}
		b.deliver("standard")
		b.runFor(time.Second)
		if q := quote(); q < 5000 || q > 8500 {
			t.Errorf("after 60 tasks of 8 s it is believed to be %d ms", q)
		}
		item, err := b.Raw.Get(t.Context(), taskop.EstimatesKey(0), true)
		if body, _ := taskop.Published(item); err != nil || !strings.Contains(string(body), "short") {
			t.Errorf("published: %s, %v", body, err)
		}
		// A later run does not forget them.
		b.runFor(70 * time.Second)
		if q := quote(); q < 5000 {
			t.Errorf("a minute later: %d ms", q)
		}
	})
}

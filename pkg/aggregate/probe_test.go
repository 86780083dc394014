package aggregate_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/admission"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// tooHigh is a prior of minutes for what takes a second.
var tooHigh = []string{"prior: {p50: 1s, p95: 1s}\n    cap: 1m\n  late", "prior: {p50: 5m, p95: 10m}\n    cap: 15m\n  late"}

// minute is a submission that such an estimate leaves no room for.
func (b *bench) minute() intake.Submission {
	b.t.Helper()
	sub, refusal := intake.Decode([]byte(`{"class":"short","deadline_seconds":60}`), intake.Header{}, b.Config)
	if refusal != nil {
		b.t.Fatal(refusal)
	}
	return sub
}

// tired is an admission with probes that has refused the class often and long enough: its next
// submission may be one.
func (b *bench) tired(n int) []*intake.Service {
	b.t.Helper()
	var all []*intake.Service
	for range n {
		in := b.Intake()
		in.Probes = true
		all = append(all, in)
	}
	for range admission.ProbeRefusals - 1 {
		for _, in := range all {
			if _, err := in.Submit(b.t.Context(), b.Who("alpha"), b.minute()); err == nil {
				b.t.Fatal("accepted too early")
			}
		}
		time.Sleep(admission.ProbeAfterMS * time.Millisecond / (admission.ProbeRefusals - 2))
	}
	return all
}

// TestAClassLockedOutByABadEstimateRecovers: its prior says ten minutes where it takes one
// second, so no task with a deadline of a minute gets in. With probes the class is learned
// and let in for good; without them it is refused for ever.
func TestAClassLockedOutByABadEstimateRecovers(t *testing.T) {
	for name, probes := range map[string]bool{"with probes": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				b.in.Probes = probes
				b.handle = func(context.Context, *worker.Task) (any, error) { time.Sleep(time.Second); return nil, nil }
				sub := b.minute()
				began, probed, plain := time.Now(), 0, 0
				var lastProbe time.Time
				for range 4 * 180 { // a submission every twenty seconds, for four hours
					got, err := b.in.Submit(t.Context(), b.Who("alpha"), sub)
					var r *intake.Refusal
					switch {
					case errors.As(err, &r):
						if r.Code != events.DeadlineInfeasible {
							t.Fatalf("refused: %v", r)
						}
						if plain > 0 {
							t.Fatalf("refused again after %v", time.Since(began))
						}
					case err != nil:
						t.Fatal(err)
					case got.Task.Prediction.Probe:
						if time.Since(began) < 10*time.Minute || time.Since(lastProbe) < 2*time.Minute {
							t.Errorf("probes %v and %v after the beginning", lastProbe.Sub(began), time.Since(began))
						}
						probed, lastProbe = probed+1, time.Now()
					default:
						plain++
					}
					b.deliver("standard")
					if err == nil {
						b.is("alpha", got.Task.ID, task.Succeeded)
					}
					b.tick()
					time.Sleep(20 * time.Second)
				}
				if probes != (plain > 0) || probes != (probed > 0) || probed > 20 {
					t.Errorf("%d probes, %d other acceptances", probed, plain)
				}
				b.CheckQuiet(t)
			}, tooHigh...)
		})
	}
}

// TestOneProbeOfAClassAtATime: however many instances would let one in, and however long the
// one under way takes, there is no second before it is over.
func TestOneProbeOfAClassAtATime(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		all := b.tired(4)
		var mu sync.Mutex
		var probes []*task.Task
		round := func() {
			t.Helper()
			var wg sync.WaitGroup
			for _, in := range all {
				for range 3 {
					wg.Go(func() {
						got, err := in.Submit(t.Context(), b.Who("alpha"), b.minute())
						if err != nil {
							return
						}
						mu.Lock()
						defer mu.Unlock()
						probes = append(probes, got.Task)
					})
				}
			}
			wg.Wait()
			b.CheckHoldings(t)
			b.CheckLanes(t, true)
		}
		round()
		if len(probes) != 1 || !probes[0].Prediction.Probe || probes[0].StartByMS != probes[0].DeadlineMS {
			t.Fatalf("%d were let in: %+v", len(probes), probes)
		}
		running := b.dies("alpha", probes[0].ID) // it runs on and on
		for range 20 {
			time.Sleep(time.Minute)
			round()
		}
		if len(probes) != 1 {
			t.Fatalf("%d were let in while one was under way", len(probes))
		}
		b.Succeed(t, running)
		time.Sleep(time.Minute)
		round()
		if len(probes) != 2 {
			t.Fatalf("%d were let in after the first was over", len(probes))
		}
		b.deliver("standard")
		b.is("alpha", probes[1].ID, task.Succeeded)
		time.Sleep(admission.ProbeEveryMS*time.Millisecond - time.Second)
		if round(); len(probes) != 2 {
			t.Fatal("a third within two minutes of the second")
		}
		time.Sleep(time.Second)
		if round(); len(probes) != 3 {
			t.Fatalf("%d were let in two minutes after the second", len(probes))
		}
	}, tooHigh...)
}

// TestAProbeThatIsRefusedAfterAllGivesItsTurnBack: its tenant's limit, found at the write only.
func TestAProbeThatIsRefusedAfterAllGivesItsTurnBack(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		in := b.tired(1)[0]
		if _, err := in.Quote(t.Context(), b.Who("alpha"), b.minute()); err != nil { // reads the ledger as it is
			t.Fatal(err)
		}
		full := op.Write{Name: "fill", Key: taskop.LedgerKey("alpha"), Action: op.Update, Changes: []op.Change{op.Add("work", b.Config.Tiers["basic"].MaxQueuedWork.MS())}}
		empty := full
		empty.Changes = []op.Change{op.Add("work", -b.Config.Tiers["basic"].MaxQueuedWork.MS())}
		b.write(full)
		var r *intake.Refusal
		if _, err := in.Submit(t.Context(), b.Who("alpha"), b.minute()); !errors.As(err, &r) || r.Code != events.RejectTenantLimit {
			t.Fatalf("past its tenant's limit: %v", err)
		}
		if item, err := b.Raw.Get(t.Context(), taskop.ProbeKey("short"), true); err != nil || item != nil {
			t.Fatalf("the turn was not given back: %v, %v", item, err)
		}
		b.write(empty)
		b.CheckLanes(t, true)
	}, tooHigh...)
}

// TestAProbeKeepsToWhatRefusesOthers: a replayed key, a pause and a halted class are no probes,
// and a store that fails refuses as before.
func TestAProbeKeepsToWhatRefusesOthers(t *testing.T) {
	for name, prepare := range map[string]func(b *bench){
		"paused": func(b *bench) {
			l := b.Lane(b.t, "standard")
			b.write(taskop.PauseLane(&l, true))
		},
		"halted": func(b *bench) { l := b.Lane(b.t, "standard"); b.write(taskop.HaltClasses(&l, []string{"short"})) },
		"the store fails": func(b *bench) {
			b.Table.Fail(func(c rig.Call) rig.Fault {
				if c.Name == "probe.take" {
					return rig.Broken
				}
				return 0
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				in := b.tired(1)[0]
				prepare(b)
				time.Sleep(2 * time.Second)
				var r *intake.Refusal
				if _, err := in.Submit(t.Context(), b.Who("alpha"), b.minute()); !errors.As(err, &r) || r.Code != events.DeadlineInfeasible {
					t.Fatalf("%v", err)
				}
				if len(b.Tasks(t)) != 0 {
					t.Error("it left a row")
				}
			}, tooHigh...)
		})
	}
}

// TestProbesThatMissAreCountedApart: nobody was promised anything.
func TestProbesThatMissAreCountedApart(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		in := b.tired(1)[0]
		b.handle = func(context.Context, *worker.Task) (any, error) { time.Sleep(29 * time.Second); return nil, nil }
		got, err := in.Submit(t.Context(), b.Who("alpha"), b.minute())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		b.deliver("standard") // begins in time, ends nine seconds late
		b.is("alpha", got.Task.ID, task.Succeeded)
		in.Tally.Flush(t.Context(), b.Raw)
		b.svc.Tally.Flush(t.Context(), b.Raw)
		item, err := b.Raw.Get(t.Context(), tally.Group(tally.GroupLane, "standard"), true)
		if err != nil {
			t.Fatal(err)
		}
		n := taskop.Counts(item)
		if n["probes"] != 1 || n["probe.missed"] != 1 || n["miss.finish"] != 0 || n["miss.start"] != 0 {
			t.Errorf("%v", n)
		}
	}, tooHigh...)
}

// TestThatAnEstimateIsProvenIsPublished, though its figures do not move.
func TestThatAnEstimateIsProvenIsPublished(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.handle = func(context.Context, *worker.Task) (any, error) { time.Sleep(time.Second); return nil, nil }
		samples := func() int64 {
			q, err := b.Intake().Quote(t.Context(), b.Who("alpha"), b.minute())
			if err != nil {
				t.Fatal(err)
			}
			return q.Decision.Samples
		}
		for _, step := range []struct {
			tasks int
			pause time.Duration
			want  int64
		}{{2, 0, 2}, {10, 0, 2}, {10, 0, 22}, {0, 2 * time.Hour, 0}} {
			for range step.tasks {
				b.submit("alpha", "")
				b.deliver("standard")
			}
			b.svc.Tally.Flush(t.Context(), b.Raw)
			time.Sleep(step.pause)
			b.tick()
			if got := samples(); got != step.want {
				t.Errorf("%d samples are known, expected %d", got, step.want)
			}
		}
	})
}

package aggregate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/placement"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// heavier gives the lane standard a ceiling of 2 s and puts a lane heavy beside it, in which the class short has room.
func heavier(more ...string) []string {
	const rest = `owner: oncall, slo: {queue_wait_p95: 5s, oldest_age: 10s}, workers: {max_concurrency: 3}, attempt_timeout: 30s, safety_margin: 3s, retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []`
	return append([]string{
		"    safety_margin: 0s\n", "    safety_margin: 0s\n    ceiling: {p95: 2s}\n",
		"  retry:\n    role: retry\n", "  heavy: {" + rest + "}\n  retry:\n    role: retry\n",
		"    cap: 1m\n", "    cap: 30s\n",
	}, more...)
}

const seven = 7 * time.Second

// worked says that attempts of the class short have ended, each after so long.
func (b *bench) worked(n int, took time.Duration) {
	b.t.Helper()
	rec := tally.New()
	for range n {
		rec.Ended(b.Clock(), tally.End{Class: "short", Bucket: "default", Lane: "standard", Outcome: "succeeded", ServiceMS: took.Milliseconds(), Success: true})
	}
	rec.Flush(b.t.Context(), b.Raw)
}

// minutes looks once a minute for so many minutes.
func (b *bench) minutes(n int) {
	b.t.Helper()
	for range n {
		b.tick()
		time.Sleep(time.Minute)
	}
}

// audit is what the audit says of moves since yesterday, oldest first.
func (b *bench) audit() (out []taskop.AuditEntry) {
	b.t.Helper()
	now := b.Clock().UnixMilli()
	for _, pk := range []string{taskop.AuditPartition(now - 86_400_000), taskop.AuditPartition(now)} {
		err := op.Query{PK: pk, Consistent: true}.All(b.t.Context(), b.Raw, func(r op.Row) bool {
			if e := taskop.DecodeAudit(r.Key, r.Item); e.Act == "class.move" {
				out = append(out, e)
			}
			return true
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	return out
}

// lands submits a task of the class short and says in which lane it is; then it is cancelled.
func (b *bench) lands(in *intake.Service, tenant string, keys ...string) string {
	b.t.Helper()
	x := b.accepted(in, tenant, keys...)
	if x.Task.State.Live() {
		b.cancel(tenant, x.Task.ID)
	}
	return x.Task.Lane
}

func (b *bench) accepted(in *intake.Service, tenant string, keys ...string) intake.Accepted {
	b.t.Helper()
	out, err := in.Submit(b.t.Context(), b.Who(tenant), b.short(keys...))
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *bench) short(keys ...string) intake.Submission {
	b.t.Helper()
	h := intake.Header{}
	for _, key := range keys {
		h.IdempotencyKey, h.HasIdempotencyKey = key, true
	}
	sub, refusal := intake.Decode([]byte(`{"class":"short","deadline_seconds":3600}`), h, b.Config)
	if refusal != nil {
		b.t.Fatal(refusal)
	}
	return sub
}

func TestASlowClassMovesToTheHeavierLaneAndBack(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		before := b.accepted(b.in, "alpha", "before")
		b.worked(40, seven)
		b.minutes(2)
		if got := b.lands(b.Intake(), "alpha"); got != "standard" {
			t.Errorf("after a minute it is in %s", got)
		}
		b.lands(b.in, "alpha")
		began := b.Clock()
		b.tick()
		if got := b.audit(); len(got) != 1 || got[0].Who != "aggregator" || got[0].On != "short/default" || got[0].AtMS != began.UnixMilli() ||
			!strings.Contains(got[0].Detail, "from lane standard to lane heavy") || !strings.Contains(got[0].Detail, "of 40 attempts, ceiling 2000 ms") {
			t.Fatalf("the audit has %+v", got)
		}
		// An instance that has read nothing yet decides for the new lane, one that has does within 15 s.
		if got := b.lands(b.Intake(), "alpha"); got != "heavy" {
			t.Errorf("a new instance admits to %s", got)
		}
		if got := b.lands(b.in, "alpha"); got != "standard" {
			t.Errorf("an instance that read the estimates just now reads them again: %s", got)
		}
		time.Sleep(16 * time.Second)
		quote, err := b.in.Quote(t.Context(), b.Who("alpha"), b.short())
		if err != nil || quote.Decision.Lane != "heavy" || quote.Decision.Slots != 3 || quote.Decision.Margin != events.Seconds(3000) {
			t.Errorf("the quote is %+v, %v", quote, err)
		}
		x := b.accepted(b.in, "alpha")
		row := b.is("alpha", x.Task.ID, task.Queued)
		if row.Lane != "heavy" || row.AtLane != "heavy" || row.Prediction.MargMS != 3000 {
			t.Errorf("it was admitted to %s, is at %s, with a margin of %d ms", row.Lane, row.AtLane, row.Prediction.MargMS)
		}
		if e, err := b.in.Explain(t.Context(), b.Who("alpha"), row.ID); err != nil || e.Decision.Lane != "heavy" {
			t.Errorf("explained by %+v, %v", e, err)
		}
		// Operators see where it is.
		placed, err := b.Intake().Placements(t.Context())
		if err != nil || len(placed.Items) != 3 || placed.Items[1].Class != "short" { // beside late and sized, which may move too
			t.Fatalf("placements are %+v, %v", placed, err)
		}
		if p := placed.Items[1]; p.ConfiguredLane != "standard" || p.Lane != "heavy" || int64(p.MovedAt) != began.UnixMilli() || p.Samples != 40 || p.ServiceP95 < 5000 || p.Blocked || p.Leans != "" {
			t.Errorf("its placement is %+v", p)
		}
		// What was admitted before stays, and is found under its key.
		again := b.accepted(b.in, "alpha", "before")
		if !again.Replayed || again.Task.ID != before.Task.ID || again.Task.Lane != "standard" {
			t.Errorf("under the key of before is %+v", again)
		}
		b.deliver("standard")
		b.deliver("heavy")
		b.is("alpha", before.Task.ID, task.Succeeded)
		b.is("alpha", row.ID, task.Succeeded)
		b.CheckLanes(t, true)

		// It gets fast again: what was slow leaves the windows within the hour, then ten minutes have to agree.
		time.Sleep(70 * time.Minute)
		b.worked(40, 100*time.Millisecond)
		b.minutes(10)
		if got := b.lands(b.Intake(), "alpha"); got != "heavy" {
			t.Errorf("it is back in %s too early", got)
		}
		b.tick()
		if got := b.audit(); len(got) != 2 || !strings.Contains(got[1].Detail, "from lane heavy to lane standard") {
			t.Fatalf("the audit has %+v", got)
		}
		if got := b.lands(b.Intake(), "alpha"); got != "standard" {
			t.Errorf("it is in %s", got)
		}
	}, heavier()...)
}

func TestAPinnedClassStays(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.worked(100, seven)
		b.minutes(30)
		if got := b.lands(b.Intake(), "alpha"); got != "standard" || len(b.audit()) != 0 {
			t.Errorf("it is in %s, with %v", got, b.audit())
		}
	}, heavier("  short:\n", "  short:\n    pin_lane: true\n")...)
}

// TestNoMoveWithinTheCoolDown: what turned fast right after its move waits for a
// quarter of an hour, although ten minutes would do.
func TestNoMoveWithinTheCoolDown(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.worked(40, seven)
		b.minutes(3)
		now := b.Clock().UnixMilli() / tally.WindowMS
		for _, w := range []int64{now, now - 1} {
			b.write(op.Write{Name: "forget", Key: taskop.BinsKey("short", "default", w), Action: op.Delete})
		}
		b.worked(200, 100*time.Millisecond)
		b.minutes(14)
		if got := b.audit(); len(got) != 1 {
			t.Fatalf("within the cool-down the audit has %+v", got)
		}
		b.minutes(2)
		got := b.audit()
		if len(got) != 2 || got[1].AtMS-got[0].AtMS < placement.CoolDownMS {
			t.Errorf("the audit has %+v", got)
		}
	}, heavier()...)
}

// TestACapThatTheHeavierLaneDoesNotHoldBlocksTheMove, and that is counted once.
func TestACapThatTheHeavierLaneDoesNotHoldBlocksTheMove(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.worked(40, seven)
		b.minutes(20)
		time.Sleep(5 * time.Second)
		b.tick() // what was counted is flushed
		item, err := b.Raw.Get(t.Context(), tally.Group(tally.GroupSystem, tally.Places), true)
		if err != nil {
			t.Fatal(err)
		}
		if got := taskop.Counts(item); got[tally.Blocked] != 1 || got[tally.Moved] != 0 {
			t.Errorf("counted: %v", got)
		}
		if got := b.lands(b.Intake(), "alpha"); got != "standard" || len(b.audit()) != 0 {
			t.Errorf("it is in %s, with %v", got, b.audit())
		}
	}, heavier("    cap: 30s\n", "    cap: 31s\n")...)
}

// TestALearnedLaneHoldsOnlyUnderItsConfiguration: another lane for the class, a pin, or
// the lane's removal bring the class to where it is configured, at once.
func TestALearnedLaneHoldsOnlyUnderItsConfiguration(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.worked(40, seven)
		b.minutes(3)
		if got := b.lands(b.Intake(), "alpha"); got != "heavy" {
			t.Fatalf("it is in %s", got)
		}
		for name, c := range map[string]struct {
			change []string
			want   string
		}{
			"the same":     {heavier(), "heavy"},
			"pinned":       {heavier("  short:\n", "  short:\n    pin_lane: true\n"), "standard"},
			"removed":      {heavier("  heavy: {", "  other: {"), "standard"},
			"another lane": {heavier("  short:\n    lane: standard\n", "  short:\n    lane: third\n", "  heavy: {", "  third: {ceiling: {p95: 1s}, owner: o, slo: {queue_wait_p95: 5s, oldest_age: 10s}, workers: {max_concurrency: 3}, retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []}\n  heavy: {"), "third"},
			"cap":          {heavier("    cap: 30s\n", "    cap: 31s\n"), "standard"},
		} {
			changed := rig.New(rig.Config(t, c.change...), b.Raw, nil)
			out, err := changed.Intake().Submit(t.Context(), b.Who("alpha"), b.short())
			if err != nil || out.Task.Lane != c.want {
				t.Fatalf("%s: %+v, %v", name, out.Task, err)
			}
			b.cancel("alpha", out.Task.ID)
		}
		// An aggregator of that configuration publishes what it makes of it: nothing comes back by itself.
		pinned := rig.New(rig.Config(t, heavier("  short:\n", "  short:\n    pin_lane: true\n")...), b.Raw, nil)
		b.agg = pinned.Aggregate()
		b.worked(100, 9*time.Second) // so that the estimate is published again
		b.minutes(1)
		if got := b.lands(b.Intake(), "alpha"); got != "standard" {
			t.Errorf("after the pin was taken back it is in %s", got)
		}
	}, heavier()...)
}

// TestTwinsBeforeAndAfterAMoveAreOneTask: two instances, one of which does not know of the move
// yet, are asked under one key. Nothing stays taken in the other lane.
func TestTwinsBeforeAndAfterAMoveAreOneTask(t *testing.T) {
	for _, newFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("the new lane first: %v", newFirst), func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				b.worked(40, seven)
				b.minutes(2)
				b.lands(b.in, "alpha")
				b.tick()
				first, second, want := b.in, b.Intake(), "standard"
				if newFirst {
					first, second, want = second, first, "heavy"
				}
				const key = "twins"
				x, y := b.accepted(first, "alpha", key), b.accepted(second, "alpha", key)
				if x.Replayed || !y.Replayed || x.Task.ID != y.Task.ID || x.Task.Lane != want || y.Task.Lane != want {
					t.Errorf("%+v, %+v", x, y)
				}
				for lane, open := range map[string]int64{"standard": 0, "heavy": 0, want: 1} {
					if got := b.Lane(t, lane); got.Open != open || got.Ready != 0 {
						t.Errorf("lane %s has %d open and %d ready", lane, got.Open, got.Ready)
					}
				}
				b.cancel("alpha", x.Task.ID)
				b.CheckLanes(t, true)
			}, heavier()...)
		})
	}
}

// TestAMoveIsPublishedAndNotedTogetherOrNotAtAll: whatever call of the run fails and however,
// and whether this run goes on or another takes over, afterwards the class has
// moved once and the audit says so once.
func TestAMoveIsPublishedAndNotedTogetherOrNotAtAll(t *testing.T) {
	for _, goesOn := range []bool{false, true} {
		for _, f := range rig.Faults() {
			moved := 0 // while the fault was waited for
			for n := 1; ; n++ {
				reached := false
				t.Run(fmt.Sprintf("goes on: %v, call %d %s", goesOn, n, f), func(t *testing.T) {
					run(t, func(t *testing.T, b *bench) {
						b.worked(40, seven)
						b.minutes(2)
						b.Table.Fail(func(c rig.Call) rig.Fault {
							if c.N == n {
								return f
							}
							return rig.None
						})
						for range 3 {
							length := 10 * time.Millisecond // of one tick
							if goesOn {
								length = 3500 * time.Millisecond
							}
							ctx, stop := context.WithTimeout(t.Context(), 10*time.Second+length)
							time.AfterFunc(length, stop)
							_, _ = b.agg.Run(ctx, true) // it fails here and there
							stop()
							time.Sleep(7 * time.Second) // past the lease of a run that could not end it
							if b.audit() != nil {
								moved++
								break
							}
						}
						reached = b.Table.Calls() >= n
						b.Table.Fail(nil)
						b.minutes(2)
						if got := b.audit(); len(got) != 1 {
							t.Errorf("the audit has %+v", got)
						}
						if got := b.lands(b.Intake(), "alpha"); got != "heavy" {
							t.Errorf("it is in %s", got)
						}
					}, heavier()...)
				})
				if !reached {
					if moved < 5 || n < 10 {
						t.Errorf("%s: only %d calls, of which %d before it had moved", f, n, moved)
					}
					break
				}
			}
		}
	}
}

package aggregate_test

import (
	"context"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/estimate"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// margin is what a new admission would use.
func (b *bench) margin() int64 {
	b.t.Helper()
	q, err := b.Intake().Quote(b.t.Context(), b.Who("alpha"), b.minute())
	if err != nil {
		b.t.Fatal(err)
	}
	return int64(q.Decision.Margin)
}

// starts lets n tasks start, each late by so much.
func (b *bench) starts(n int, late time.Duration) {
	for range n {
		b.submit("alpha", "")
		time.Sleep(late)
		b.deliver("standard")
	}
	b.svc.Tally.Flush(b.t.Context(), b.Raw)
	b.tick()
}

// TestTheMarginFollowsTheErrorsOfPredictions: it begins as configured, grows when tasks begin
// later than predicted, up to its bound, shrinks to half when they begin in time, and is as configured
// again when nothing is known any more.
func TestTheMarginFollowsTheErrorsOfPredictions(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.handle = func(context.Context, *worker.Task) (any, error) { return nil, nil }
		for _, step := range []struct {
			n          int
			late, rest time.Duration
			low, high  int64
		}{
			{0, 0, 0, 1000, 1000},
			{estimate.MarginSamples - 1, 3 * time.Second, 0, 1000, 1000},
			{1, 3 * time.Second, 0, 3000, 3600},
			{60, 20 * time.Second, 2 * time.Hour, 8000, 8000},
			{200, 0, 2 * time.Hour, 500, 500},
			{0, 0, 0, 1000, 1000},
		} {
			b.starts(step.n, step.late)
			if got := b.margin(); got < step.low || got > step.high {
				t.Errorf("after %d starts late by %v the margin is %d, expected %d to %d", step.n, step.late, got, step.low, step.high)
			}
			time.Sleep(step.rest)
		}
		b.CheckQuiet(t)
	}, "safety_margin: 0s", "safety_margin: 1s")
}

// TestWhatExpiresWidensTheMargin: tasks that never began are late as well.
func TestWhatExpiresWidensTheMargin(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		for range estimate.MarginSamples {
			id := b.submit("alpha", `{"class":"short","deadline_seconds":30}`)
			time.Sleep(time.Minute)
			b.tick()
			b.is("alpha", id, task.Expired)
		}
		b.agg.Tally.Flush(t.Context(), b.Raw)
		time.Sleep(time.Minute)
		b.tick()
		if got := b.margin(); got != 1000*estimate.MarginMost {
			t.Errorf("the margin is %d", got)
		}
		item, err := b.Raw.Get(t.Context(), tally.Group(tally.GroupLane, "standard"), true)
		if err != nil || item.Int("miss.start") != estimate.MarginSamples {
			t.Errorf("%v, %v", item, err)
		}
	}, "safety_margin: 0s", "safety_margin: 1s")
}

// TestAMarginOfNothingStaysNothing: 0s switches it off.
func TestAMarginOfNothingStaysNothing(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.handle = func(context.Context, *worker.Task) (any, error) { return nil, nil }
		b.starts(2*estimate.MarginSamples, 3*time.Second)
		if got := b.margin(); got != 0 {
			t.Errorf("the margin is %d", got)
		}
	})
}

// TestWhoAsksForPlacesKeepsTheMargins: the list of placements, and a replay's question for a lane, read
// the estimates again, and with them the margins, which are of the same age to whoever decides next.
func TestWhoAsksForPlacesKeepsTheMargins(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.handle = func(context.Context, *worker.Task) (any, error) { return nil, nil }
		b.starts(estimate.MarginSamples, 3*time.Second)
		for name, ask := range map[string]func(*intake.Service) error{
			"nobody":     func(*intake.Service) error { return nil },
			"placements": func(in *intake.Service) error { _, err := in.Placements(t.Context()); return err },
			"a replay": func(in *intake.Service) error {
				_, err := in.LaneFor(t.Context(), &task.Task{Tenant: "alpha", Class: "short", Bucket: "default", Lane: "standard"})
				return err
			},
		} {
			in := b.Intake()
			if err := ask(in); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			q, err := in.Quote(t.Context(), b.Who("alpha"), b.minute())
			if err != nil {
				t.Fatal(err)
			}
			if got := int64(q.Decision.Margin); got < 3000 || got > 3600 {
				t.Errorf("%s asked, and the margin is %d", name, got)
			}
		}
	}, "safety_margin: 0s", "safety_margin: 1s")
}

package taskop_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// TestVirtualTimeNeverGoesBack: a task that begins on an old copy of the lane does not put
// back what others have moved on since; it begins by the same write without moving it.
func TestVirtualTimeNeverGoesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newLane(t, 5)
		now := rapid.Int64Range(-100, 100).Draw(t, "now")
		m.item["v"] = op.N(now)
		seen, tag := rapid.Int64Range(-100, 100).Draw(t, "seen"), rapid.Int64Range(-100, 100).Draw(t, "tag")
		plain := taskop.EnterSlot(laneName, taskop.Open{ID: "x", Class: "c", Tenant: "t", SinceMS: 1, AmountMS: 1}, nil)
		w := taskop.Advance(plain, seen, tag)
		after, ok := perform(t, w, m.item)
		switch {
		case ok && after.Int("v") != max(now, tag) && tag > seen:
			t.Fatalf("seen at %d, is %d, began %d: now %d", seen, now, tag, after.Int("v"))
		case ok && tag <= seen && after.Int("v") != now:
			t.Fatalf("a lane that was seen at %d moved from %d to %d by %d", seen, now, after.Int("v"), tag)
		case !ok && !taskop.Beyond(m.item, tag):
			t.Fatalf("refused: seen at %d, is %d, began %d", seen, now, tag)
		case !ok:
			if after = must(t, plain, m.item); after.Int("v") != now {
				t.Fatalf("moved from %d to %d", now, after.Int("v"))
			}
		}
	})
}

// TestATaskThatGoesOnIsChargedForItsNextAttempt, also where it keeps its place because the
// store did not say what a new one rests on.
func TestATaskThatGoesOnIsChargedForItsNextAttempt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawTask(t, task.Running)
		x.AtLane, x.TagCost = x.Lane, 700
		before := ledgerItem(10_000, 2, 3)
		before["f#"+x.Lane] = op.N(5000)
		after := *x
		after.DueMS = laterMS
		end := taskop.End{Event: task.Continue, After: &after, TagDelta: -200}
		if rapid.Bool().Draw(t, "a new place") {
			end.Again = &taskop.Place{Virtual: 1000, Finish: 5000}
		}
		tx := taskop.Finish(x, end)
		ledger := must(t, tx.Writes[taskop.OnLedger], before)
		if got := ledger.Int("f#" + x.Lane); got != 5000-200+700 {
			t.Fatalf("a finish tag of 5000 becomes %d", got)
		}
		// What comes of it in the end: its cancel gives the charge for the attempt that never came back.
		y := after
		y.State, y.AttemptMS = task.Waiting, 0
		ledger = must(t, taskop.Close(&y, task.Cancel, laterMS, 0).Writes[taskop.OnLedger], ledger)
		if got := ledger.Int("f#" + x.Lane); got != 5000-200 {
			t.Fatalf("after a cancel it is %d", got)
		}
	})
}

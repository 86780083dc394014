package placement_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/estimate"
	"github.com/lanekeeper/lanekeeper/pkg/placement"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

const minute = 60_000

// start is some time in unix milliseconds.
const start = 1_700_000_000_000

// three is a ladder whose lanes hold 1 s, 20 s and anything.
var three = []policy.Rung{{Lane: "quick", CeilingMS: 1000}, {Lane: "middle", CeilingMS: 20_000}, {Lane: "heavy"}}

func seen(p95, samples int64) *estimate.Estimate {
	return &estimate.Estimate{P95MS: p95, Samples: samples, Learned: true}
}

// look looks once a minute for so many minutes and returns the state, and how often it moved and was blocked.
func look(ladder []policy.Rung, s placement.State, e *estimate.Estimate, from, minutes int64) (_ placement.State, moved, blocked int) {
	for i := range minutes {
		var v placement.Verdict
		if s, v = placement.Next(ladder, s, e, from+i*minute); v.Moved {
			moved++
		} else if v.Blocked {
			blocked++
		}
	}
	return s, moved, blocked
}

func lane(ladder []policy.Rung, s placement.State) string {
	return placement.LaneOf(ladder, placement.Settle(ladder, s))
}

func TestWhatStaysSlowMovesUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p95, samples, minutes int64
		want                  string
	}{
		{1001, 20, 3, "middle"}, {1001, 20, 2, "quick"}, {1001, 19, 60, "quick"}, {1000, 1000, 60, "quick"},
		{20_000, 20, 3, "middle"}, {20_001, 20, 3, "heavy"},
	} {
		s, _, _ := look(three, placement.State{}, seen(c.p95, c.samples), start, c.minutes)
		if got := lane(three, s); got != c.want {
			t.Errorf("%+v: in %s", c, got)
		}
	}
	// What pointed the other way before says nothing.
	fast, _, _ := look(three, placement.State{Home: "quick", Lane: "middle"}, seen(100, 50), start, 9)
	if s, _, _ := look(three, fast, seen(30_000, 50), start+9*minute, 2); fast.Lean != placement.Down || lane(three, s) != "middle" {
		t.Errorf("from %+v it is in %s two minutes later", fast, lane(three, s))
	}
	// Once it is not over, it begins anew.
	s, _, _ := look(three, placement.State{}, seen(5000, 50), start, 2)
	s, _, _ = look(three, s, seen(900, 50), start+2*minute, 1)
	if s, _, _ = look(three, s, seen(5000, 50), start+3*minute, 2); lane(three, s) != "quick" {
		t.Error("two spells of two minutes count as one")
	}
	if s, _, _ = look(three, s, seen(5000, 50), start+5*minute, 1); lane(three, s) != "middle" {
		t.Error("it does not move in its third minute")
	}
}

func TestWhatIsFarBelowMovesBackAfterTheCoolDown(t *testing.T) {
	t.Parallel()
	s, v := placement.State{Home: "quick", Lane: "heavy", MovedMS: start}, placement.Verdict{}
	for _, p95 := range []int64{501, 1000, 5000} { // over half of quick's ceiling
		if got, _, _ := look(three[:1:1], s, seen(p95, 50), start, 60); got != (placement.State{}) {
			t.Errorf("a ladder without the lane keeps %+v", got)
		}
		two := []policy.Rung{three[0], three[2]}
		if got, moved, _ := look(two, s, seen(p95, 50), start, 60); moved != 0 || lane(two, got) != "heavy" {
			t.Errorf("a p95 of %d ms is moved back", p95)
		}
	}
	for i := range int64(60) {
		if s, v = placement.Next(three, s, seen(500, 50), start+i*minute); v.Moved {
			if i != 15 || v.From != "heavy" || v.To != "quick" || v.CeilingMS != 1000 {
				t.Errorf("moved in minute %d: %+v", i, v)
			}
		}
	}
	if lane(three, s) != "quick" {
		t.Errorf("it is in %s", lane(three, s))
	}
	// Down to the lane between, where only that one holds it.
	s, _, _ = look(three, placement.State{Home: "quick", Lane: "heavy", MovedMS: start - placement.CoolDownMS}, seen(9000, 50), start, 11)
	if lane(three, s) != "middle" {
		t.Errorf("it is in %s", lane(three, s))
	}
}

func TestBlockedIsSaidOnceAndWhy(t *testing.T) {
	t.Parallel()
	barred := []policy.Rung{three[0], {Lane: "middle", CeilingMS: 20_000, Barred: "the cap is over its time"}}
	s, moved, blocked := look(barred, placement.State{}, seen(5000, 50), start, 100)
	if moved != 0 || blocked != 1 || lane(barred, s) != "quick" {
		t.Errorf("moved %d times, blocked %d times, in %s", moved, blocked, lane(barred, s))
	}
	s, _, _ = look(barred, s, seen(500, 50), start+100*minute, 1)
	if _, _, blocked = look(barred, s, seen(5000, 50), start+101*minute, 100); blocked != 1 {
		t.Errorf("the second time it is said %d times", blocked)
	}
	for p95, want := range map[int64]string{5000: "not to lane middle: the cap is over its time", 50_000: "no heavier lane's ceiling holds it"} {
		leaning := placement.State{Home: "quick", Lane: "quick", Lean: placement.Up, SinceMS: start}
		if _, v := placement.Next(barred, leaning, seen(p95, 50), start+3*minute); !v.Blocked || v.Reason != want {
			t.Errorf("p95 %d ms: %+v", p95, v)
		}
	}
}

func TestAPlaceHoldsOnlyUnderItsConfiguration(t *testing.T) {
	t.Parallel()
	s := placement.State{Home: "quick", Lane: "heavy", MovedMS: start}
	for name, ladder := range map[string][]policy.Rung{
		"the class's lane is another": {{Lane: "other", CeilingMS: 1000}, three[2]},
		"the lane was removed":        three[:2],
		"the class was pinned":        three[:1],
		"the lane is barred":          {three[0], {Lane: "heavy", Barred: "why"}},
	} {
		if got := placement.Settle(ladder, s); got != (placement.State{}) || placement.LaneOf(ladder, got) != ladder[0].Lane {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if placement.Settle(three, s) != s {
		t.Error("it does not hold under its own")
	}
}

func drawLadder(t *rapid.T) []policy.Rung {
	out := []policy.Rung{{Lane: "l0", CeilingMS: rapid.Int64Range(1, 2000).Draw(t, "ceiling")}}
	for i := range rapid.IntRange(0, 4).Draw(t, "rungs") {
		last := out[len(out)-1].CeilingMS
		r := policy.Rung{Lane: "l" + string(rune('1'+i)), CeilingMS: last + rapid.Int64Range(0, 4000).Draw(t, "step")}
		if rapid.IntRange(0, 3).Draw(t, "barred") == 0 {
			r.Barred = "so"
		}
		out = append(out, r)
	}
	if len(out) > 1 && rapid.Bool().Draw(t, "heaviest has none") {
		out[len(out)-1].CeilingMS = 0
	}
	return out
}

func at(ladder []policy.Rung, lane string) int {
	for i := range ladder {
		if ladder[i].Lane == lane {
			return i
		}
	}
	return -1
}

// TestRules plays any course of estimates and holds every move against the rules.
func TestRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ladder := drawLadder(t)
		var s placement.State
		now, last := int64(start), int64(0)
		wrongSince := int64(-1) // since when what was seen said the same as at the move
		var lean placement.Lean
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			now += rapid.Int64Range(1, 3*minute).Draw(t, "ms")
			e := seen(rapid.OneOf(rapid.Int64Range(1, 2000), rapid.Int64Range(1, 20_000)).Draw(t, "p95"), rapid.Int64Range(0, 60).Draw(t, "samples"))
			from := at(ladder, lane(ladder, s))
			var says placement.Lean
			switch c := ladder[from].CeilingMS; {
			case e.Samples < placement.MinSamples:
			case c > 0 && e.P95MS > c:
				says = placement.Up
			default:
				for i := range from {
					if (i == 0 || ladder[i].Barred == "") && 2*e.P95MS <= ladder[i].CeilingMS {
						says = placement.Down
					}
				}
			}
			if says != lean {
				lean, wrongSince = says, now
			}
			next, v := placement.Next(ladder, s, e, now)
			to := at(ladder, lane(ladder, next))
			if v.Moved != (from != to) || v.Moved && (v.From != ladder[from].Lane || v.To != ladder[to].Lane) {
				t.Fatalf("from %d to %d: %+v", from, to, v)
			}
			if v.Moved {
				stays := int64(placement.UpAfterMS)
				if to < from {
					stays = placement.DownAfterMS
				}
				switch {
				case last > 0 && now-last < placement.CoolDownMS:
					t.Fatalf("moved again after %d ms", now-last)
				case lean == placement.Stay || (lean == placement.Up) != (to > from) || now-wrongSince < stays:
					t.Fatalf("moved from %d to %d on %q of %d ms", from, to, lean, now-wrongSince)
				case to > 0 && ladder[to].Barred != "":
					t.Fatal("moved to a lane that is barred")
				case to > from && ladder[to].CeilingMS > 0 && e.P95MS > ladder[to].CeilingMS:
					t.Fatal("moved up to a lane that does not hold it")
				}
				for i := from + 1; i < to; i++ {
					if c := ladder[i].CeilingMS; ladder[i].Barred == "" && (c == 0 || e.P95MS <= c) {
						t.Fatalf("passed lane %d, which holds it", i)
					}
				}
				last, lean, wrongSince = now, placement.Stay, now
			}
			s = next
		}
	})
}

// TestNoiseDoesNotFlap: a p95 that wavers by less than the distance of the two thresholds moves once at most.
func TestNoiseDoesNotFlap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ladder := drawLadder(t)
		ceiling := ladder[rapid.IntRange(0, len(ladder)-1).Draw(t, "around")].CeilingMS
		around := rapid.Int64Range(max(ceiling*3/4, 1), max(ceiling*5/4, 2)).Draw(t, "p95")
		var s placement.State
		moves := 0
		for i := range int64(240) {
			var v placement.Verdict
			wavers := rapid.Int64Range(-around/4, around/4).Draw(t, "noise")
			if s, v = placement.Next(ladder, s, seen(around+wavers, 100), start+i*minute); v.Moved {
				moves++
				if at(ladder, v.To) < at(ladder, v.From) {
					t.Fatalf("moved back from %s to %s", v.From, v.To)
				}
			}
		}
		if moves >= len(ladder) {
			t.Fatalf("moved %d times over %d lanes", moves, len(ladder))
		}
	})
}

// TestSlowerNeverMeansLighter: of two that differ in their p95 alone, the slower one is never in a lighter lane after the
// same looks, unless no lane holds it.
func TestSlowerNeverMeansLighter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ladder := drawLadder(t)
		s := placement.State{Home: "l0", Lane: ladder[rapid.IntRange(0, len(ladder)-1).Draw(t, "in")].Lane}
		low := rapid.Int64Range(1, 20_000).Draw(t, "p95")
		high := low + rapid.Int64Range(0, 20_000).Draw(t, "more")
		a, _, _ := look(ladder, s, seen(low, 100), start, 12)
		b, _, blocked := look(ladder, s, seen(high, 100), start, 12)
		if blocked == 0 && at(ladder, lane(ladder, a)) > at(ladder, lane(ladder, b)) {
			t.Fatalf("%d ms is in %s, %d ms in %s", low, lane(ladder, a), high, lane(ladder, b))
		}
	})
}

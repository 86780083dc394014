// Package placement decides in which lane a (class, bucket) runs by what is learned of it.
//
// It guarantees that a (class, bucket) moves only on enough samples that said the same for a while, not again within the
// cool-down, never to a lane lighter than its own or one that it is barred from, and that what holds a lane (a p95 between
// half its ceiling and its ceiling) moves nothing. Everything is pure; times are unix milliseconds.
package placement

import (
	"slices"

	"github.com/lanekeeper/lanekeeper/pkg/estimate"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

const (
	// MinSamples is how many finished attempts an estimate needs before anything is concluded: a p95 of fewer is their
	// largest.
	MinSamples = 20
	// UpAfterMS is how long a p95 has to stay over the ceiling before the move: slow work in a fast lane hurts at once.
	UpAfterMS = 2 * 60_000
	// DownAfterMS is how long it has to stay under half the lighter lane's: in a heavy lane fast work only waits.
	DownAfterMS = 10 * 60_000
	// CoolDownMS is the least time between two moves of the same (class, bucket).
	CoolDownMS = 15 * 60_000
	// downShare: a p95 belongs in a lighter lane when it is at most this part of its ceiling.
	downShare = 2
)

// Lean is where what is learned points to.
type Lean string

// The leans.
const (
	Stay Lean = ""
	Up   Lean = "up"   // over the ceiling of the lane it is in
	Down Lean = "down" // far below that of a lighter one
)

// State is what is remembered of a (class, bucket), zero for one that is where it is configured and never was elsewhere.
type State struct {
	Home    string `json:"h"`           // the lane it was configured for
	Lane    string `json:"l"`           // the lane it is in
	MovedMS int64  `json:"m,omitempty"` // when it moved last
	Lean    Lean   `json:"d,omitempty"`
	SinceMS int64  `json:"s,omitempty"` // when it began to lean
	Blocked bool   `json:"b,omitempty"` // it ought to move up and there is no lane for it
}

// Verdict is what Next found: Moved from one lane to another, or Blocked for a reason, which is said once until it
// no longer holds. The figures are those it rests on.
type Verdict struct {
	Moved, Blocked   bool
	From, To         string
	Reason           string
	P95MS, CeilingMS int64 // of the lane it leaves or, on the way back, of the one it comes to
	Samples          int64
}

// Settle is the state as it holds under a ladder: the zero state when the configuration has changed the lane it was
// made for, or no longer has, or bars, the lane it names.
func Settle(ladder []policy.Rung, s State) State {
	at := position(ladder, s.Lane)
	if s == (State{}) || at < 0 || s.Home != ladder[0].Lane || at > 0 && ladder[at].Barred != "" {
		return State{}
	}
	return s
}

// LaneOf is the lane that a settled state stands for.
func LaneOf(ladder []policy.Rung, s State) string {
	return ladder[max(position(ladder, s.Lane), 0)].Lane
}

func position(ladder []policy.Rung, lane string) int {
	return slices.IndexFunc(ladder, func(r policy.Rung) bool { return r.Lane == lane })
}

// Next is the state after a look at an estimate, and what follows from it. The ladder has at least one rung.
func Next(ladder []policy.Rung, s State, e *estimate.Estimate, nowMS int64) (State, Verdict) {
	if s = Settle(ladder, s); len(ladder) == 1 {
		return State{}, Verdict{}
	}
	at := max(position(ladder, s.Lane), 0)
	lean, target := Stay, at
	if e.Samples >= MinSamples {
		lean, target = want(ladder, at, e.P95MS)
	}
	if lean == Stay {
		if at == 0 && (s.MovedMS == 0 || nowMS-s.MovedMS >= CoolDownMS) {
			return State{}, Verdict{}
		}
		s.Lean, s.SinceMS, s.Blocked = Stay, 0, false
		return s, Verdict{}
	}
	if s.Lean != lean {
		s.Home, s.Lane = ladder[0].Lane, ladder[at].Lane
		s.Lean, s.SinceMS, s.Blocked = lean, nowMS, false
	}
	after, ceiling := int64(UpAfterMS), ladder[at].CeilingMS
	if lean == Down {
		after, ceiling = DownAfterMS, ladder[target].CeilingMS
	}
	v := Verdict{From: ladder[at].Lane, P95MS: e.P95MS, CeilingMS: ceiling, Samples: e.Samples}
	switch {
	case nowMS-s.SinceMS < after:
		return s, Verdict{}
	case target == at:
		if s.Blocked {
			return s, Verdict{}
		}
		s.Blocked, v.Blocked, v.Reason = true, true, whyNot(ladder, at, e.P95MS)
		return s, v
	case s.MovedMS != 0 && nowMS-s.MovedMS < CoolDownMS:
		return s, Verdict{}
	}
	v.Moved, v.To = true, ladder[target].Lane
	return State{Home: s.Home, Lane: v.To, MovedMS: nowMS}, v
}

// want says where a p95 belongs from a rung: up to the lightest heavier one that holds it (or nowhere: the same rung),
// down to the lightest whose ceiling is twice as high.
func want(ladder []policy.Rung, at int, p95 int64) (Lean, int) {
	if c := ladder[at].CeilingMS; c > 0 && p95 > c {
		for i := at + 1; i < len(ladder); i++ {
			if ladder[i].Barred == "" && holds(ladder[i], p95) {
				return Up, i
			}
		}
		return Up, at
	}
	for i := range at {
		if (i == 0 || ladder[i].Barred == "") && p95 <= ladder[i].CeilingMS/downShare {
			return Down, i
		}
	}
	return Stay, at
}

func holds(r policy.Rung, p95 int64) bool { return r.CeilingMS == 0 || p95 <= r.CeilingMS }

// whyNot says why nothing heavier takes a p95.
func whyNot(ladder []policy.Rung, at int, p95 int64) string {
	for _, r := range ladder[at+1:] {
		if r.Barred != "" && holds(r, p95) {
			return "not to lane " + r.Lane + ": " + r.Barred
		}
	}
	return "no heavier lane's ceiling holds it"
}

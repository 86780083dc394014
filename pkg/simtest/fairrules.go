package simtest

import (
	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// moves changes the item of a write that sets a lane's virtual time, knowing to what.
func moves(f func(to int64, it op.Item)) func(*Sample, op.Item) bool {
	return func(s *Sample, it op.Item) bool {
		to, sets := s.set("v")
		if sets {
			f(to, it)
		}
		return sets
	}
}

// fairRules are the rules of ordering keys and of the fair order's virtual time.
func fairRules() []Rule {
	begins := "lane.enter_slot lane.release_slot lane.hand_over"
	return []Rule{
		{Writes: begins, Why: "put the virtual time of a lane back", Change: moves(func(to int64, it op.Item) { it["v"] = op.N(to + 1) })},
		{Writes: begins, Why: "refused a lane that stands at that virtual time already", Holds: true, Change: moves(func(to int64, it op.Item) { it["v"] = op.N(to) })},
		{Writes: begins, Why: "refused a lane whose virtual time has never moved", Holds: true, Change: func(s *Sample, it op.Item) bool {
			to, sets := s.set("v")
			delete(it, "v")
			return sets && to >= 0
		}},
		{Writes: "pass_on.entry", Why: "passed over a task that entered under the number of another", Change: to("o", op.S("another"))},
	}
}

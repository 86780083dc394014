package simtest

import (
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// gone removes the item that the write changes.
func gone(_ *Sample, it op.Item) bool {
	clear(it)
	return true
}

// there puts an item where the write found none.
func there(s *Sample, it op.Item) bool {
	it["x"] = op.N(1)
	return s.Met == nil
}

// unwritten leaves out the zero of an attribute that the write was made for, or
// writes it out where it is missing.
func unwritten(attr string) func(*Sample, op.Item) bool {
	return func(s *Sample, it op.Item) bool {
		if s.Met.Int(attr) != 0 || !strings.Contains(say(s.Write.Cond), attr+" missing") {
			return false
		}
		return without(attr)(s, it) || zero(attr)(s, it)
	}
}

// operatorRules is the contract of what operators and the aggregator's slow jobs write.
func operatorRules() []Rule {
	rules := []Rule{
		{Writes: "lane.pause lane.resume lane.halt", Why: "took no notice of another pause, or of lowered slots", Change: more("cut")},
		{Writes: "lane.enter_slot", Why: "brought a retry back into a paused lane", Change: func(s *Sample, it op.Item) bool {
			return s.Write.Key == taskop.LaneKey("retry") && to("paused", op.N(1))(s, it)
		}},
		{Writes: "lane.enter_halted", Why: "took no notice of what entered since", Change: to("entered", op.N(far))},
		{Writes: "lane.enter_halted", Why: "took no notice of lowered slots, a pause or a class let go", Change: more("cut")},
		{Writes: "halt.row", Why: "changed a waiting task that was parked or unparked meanwhile", Change: to("rk", op.S("elsewhere"))},
		{Writes: "void_lease.row", Why: "ended the lease of another", Change: to("lo", op.S("another"))},

		{Writes: "replay.start key.list credential.put tenant.put", Why: "replaced what is there", Change: there},
		{Writes: "replay.move key.tenant key.unlist", Why: "changed what is not there", Change: gone},
		{Writes: "replay.take replay.end", Why: "changed a replay that was stopped", Change: to("st", op.S("stopped"))},
		{Writes: "replay.take replay.end", Why: "changed a replay that is finished", Change: to("st", op.S("finished"))},
		{Writes: "replay.take", Why: "counted on an old count", Change: more("na")},
		{Writes: "replay.take replay.move circuits.put", Why: "overruled a later run", Change: func(s *Sample, it op.Item) bool { return s.Met != nil && to("ep", op.N(far))(s, it) }},
		{Writes: "replay.take replay.move circuits.put", Why: "refused what an earlier run has written", Holds: true,
			Change: func(s *Sample, it op.Item) bool { return s.Met != nil && to("ep", op.N(0))(s, it) }},
		{Writes: "replay.take replay.move", Why: "refused a replay that no run has carried on yet", Holds: true, Change: without("ep")},
		{Writes: "tenant.tier", Why: "changed a tenant whose tier is another by now", Change: to("tier", op.S("another"))},
	}
	for _, attr := range []string{"work", "active", "entered"} {
		rules = append(rules, Rule{Writes: "ledger.repair", Why: "corrected a ledger that has changed (" + attr + ")", Change: more(attr)})
		if attr == "entered" {
			continue // a listed ledger has taken something in
		}
		rules = append(rules, Rule{Writes: "ledger.repair", Why: "does not take a missing " + attr + " for zero", Holds: true, Change: unwritten(attr)})
	}
	return rules
}

package simtest

import (
	"path"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// Sample is a write as a service made it, with the item that it met and changed.
type Sample struct {
	Write op.Write
	Met   op.Item
}

// Rule says what a write must do with an item that differs in one respect from
// the one it was made for. Rules are the contract of the operations in plain words, held on
// samples that services made; they do not look at the conditions.
type Rule struct {
	Writes string // names, with * as in path.Match, separated by spaces
	Why    string
	// Change makes the item differ; false: the rule does not concern the sample.
	Change func(s *Sample, it op.Item) bool
	Holds  bool // the write must be applied all the same; else refused
}

func (r *Rule) concerns(name string) bool {
	for _, pattern := range strings.Fields(r.Writes) {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return true
		}
	}
	return false
}

// Broken returns why a condition breaks the rule on a sample, "" if it does not.
func (r *Rule) Broken(s *Sample, cond op.Cond) string {
	if !r.concerns(s.Write.Name) {
		return ""
	}
	it := s.Met.Clone()
	if it == nil {
		it = op.Item{}
	}
	if !r.Change(s, it) {
		return ""
	}
	if len(it) == 0 {
		it = nil
	}
	if op.Eval(cond, s.Write.Key, it) != r.Holds {
		return s.Write.Name + ": " + r.Why
	}
	return ""
}

const far = int64(1) << 50

// added is what the write adds to an attribute, 0 if it does not.
func (s *Sample) added(attr string) int64 {
	for _, c := range s.Write.Changes {
		if c.Verb == op.VerbAdd && c.Attr == attr {
			return c.Value.Int()
		}
	}
	return 0
}

// touched is the attribute with a prefix that the write sets or removes.
func (s *Sample) touched(verb op.Verb, prefix string) string {
	for _, c := range s.Write.Changes {
		if c.Verb == verb && strings.HasPrefix(c.Attr, prefix) {
			return c.Attr
		}
	}
	return ""
}

func (s *Sample) set(attr string) (int64, bool) {
	for _, c := range s.Write.Changes {
		if c.Verb == op.VerbSet && c.Attr == attr {
			return c.Value.Int(), true
		}
	}
	return 0, false
}

func to(attr string, v op.Value) func(*Sample, op.Item) bool {
	return func(_ *Sample, it op.Item) bool {
		was := it[attr]
		it[attr] = v
		return was != v
	}
}

func more(attr string) func(*Sample, op.Item) bool {
	return func(_ *Sample, it op.Item) bool {
		it[attr] = op.N(it.Int(attr) + 1)
		return true
	}
}

// zero writes out the zero that a missing attribute stands for.
func zero(attr string) func(*Sample, op.Item) bool {
	return func(s *Sample, it op.Item) bool {
		it[attr] = op.N(0)
		return !s.Met.Has(attr)
	}
}

func without(attr string) func(*Sample, op.Item) bool {
	return func(_ *Sample, it op.Item) bool {
		if !it.Has(attr) {
			return false
		}
		delete(it, attr)
		return true
	}
}

// short leaves less in an attribute than the write takes from it.
func short(attr string) func(*Sample, op.Item) bool {
	return func(s *Sample, it op.Item) bool {
		n := -s.added(attr)
		it[attr] = op.N(n - 1)
		return n > 0
	}
}

// names puts an entry for the task that the write names under a prefix.
func names(verb op.Verb, of, prefix string) func(*Sample, op.Item) bool {
	return func(s *Sample, it op.Item) bool {
		attr := s.touched(verb, of)
		if attr == "" || it.Has(prefix+attr[2:]) {
			return false
		}
		it[prefix+attr[2:]] = op.S("c|b|t|1|1")
		return true
	}
}

// unnamed removes the entry that the write takes away.
func unnamed(prefix string) func(*Sample, op.Item) bool {
	return func(s *Sample, it op.Item) bool {
		attr := s.touched(op.VerbRemove, prefix)
		delete(it, attr)
		return attr != ""
	}
}

// fresh says whether the write is an admission's that was decided on a copy.
func fresh(f func(*Sample, op.Item) bool) func(*Sample, op.Item) bool {
	return func(s *Sample, it op.Item) bool { return s.Write.Key != taskop.LaneKey("retry") && f(s, it) }
}

// Rules is the contract.
func Rules(cfg *policy.Config) []Rule {
	tier := func(s *Sample) *policy.Tier {
		t, _ := cfg.Tier(tiers[strings.TrimPrefix(s.Write.Key.PK, taskop.LedgerPrefix)])
		return t
	}
	rules := []Rule{
		{Writes: "*", Why: "refused the very item it was made for", Holds: true, Change: func(s *Sample, _ op.Item) bool { return s.Met != nil }},
		{Writes: "*", Why: "refused the missing item it was made for", Holds: true, Change: func(s *Sample, _ op.Item) bool { return s.Met == nil }},
		{Writes: "accept.row lane.create", Why: "replaced what is there", Change: to("st", op.S("queued"))},
		{Writes: rowWrites, Why: "changed a row of a later generation", Change: more("gen")},
		{Writes: "finish_*.row lost_*.row renew.row", Why: "changed a task whose lease is another's", Change: to("lo", op.S("another"))},
		{Writes: "lost_*.row", Why: "ended an attempt whose lease was renewed meanwhile", Change: to("lu", op.N(far))},
		{Writes: "finish_retry.row finish_continue.row finish_fail.row finish_poison.row lost_retry.row lost_poison.row lost_fail.row",
			Why: "went on although a cancel was requested", Change: to("cr", op.N(1))},
		{Writes: "withdraw.row", Why: "withdrew the row of another submission", Change: to("nn", op.S("another"))},
		{Writes: "withdraw.row", Why: "withdrew a task of which a second client was told", Change: to("td", op.N(1))},
		{Writes: "cancel.row expire.row hand_over.row move_due.row park.row release.row unhold.row",
			Why: "changed a waiting task that was parked or unparked meanwhile", Change: func(s *Sample, it op.Item) bool {
				it["rk"] = op.S("elsewhere")
				return s.Met.Str("st") == string(task.Waiting)
			}},
		{Writes: "accept.ledger readmit.ledger", Why: "refused a tenant's first task in a lane", Holds: true, Change: func(s *Sample, it op.Item) bool {
			delete(it, s.touched(op.VerbSet, "f#"))
			return strings.Contains(say(s.Write.Cond), "f#… missing") // it may have had no tag
		}},
		{Writes: "accept.ledger readmit.ledger", Why: "refused a finish tag of zero", Holds: true, Change: func(s *Sample, it op.Item) bool {
			attr := s.touched(op.VerbSet, "f#")
			return attr != "" && zero(attr)(s, it) && strings.Contains(say(s.Write.Cond), "f#… missing")
		}},
		{Writes: "unhold.row", Why: "let a task come up twice", Change: without("hd")},
		{Writes: "join.chain pass_on.chain", Why: "changed a chain whose head has moved", Change: more("h")},
		{Writes: "join.chain pass_on.chain", Why: "changed a chain that somebody has joined", Change: more("n")},
		{Writes: "join.chain", Why: "refused a chain that nobody leads", Holds: true, Change: zero("h")},
		{Writes: "join.chain", Why: "refused a chain that nobody joined", Holds: true, Change: zero("n")},
		{Writes: "dead_delivery.row undeliverable.row", Why: "counted a dead wake-up although another was counted meanwhile", Change: more("dd")},
		{Writes: "dead_delivery.row", Why: "refused a task of which no wake-up died", Holds: true, Change: zero("dd")},
		{Writes: "park_body.body", Why: "kept a body that is kept", Change: to("v", op.S("kept before"))},
		{Writes: "unpark.row", Why: "unparked what is not parked", Change: to("rk", op.S("R#elsewhere"))},

		{Writes: "*.ledger", Why: "released more work than there is", Change: short("work")},
		{Writes: "*.ledger", Why: "released an attempt that is not there", Change: short("active")},
		{Writes: "claim.ledger hand_over.ledger", Why: "went over max_active", Change: func(_ *Sample, it op.Item) bool { it["active"] = it["max"]; return true }},
		{Writes: "claim.ledger hand_over.ledger", Why: "refused the first attempt ever", Holds: true, Change: without("active")},
		{Writes: "finish_continue.ledger", Why: "took a start tag that another submission has", Change: func(s *Sample, it op.Item) bool { return finish(s, it, 1) }},
		{Writes: "accept.ledger readmit.ledger", Why: "went over the tier's queued work", Change: func(s *Sample, it op.Item) bool {
			it["work"] = op.N(tier(s).MaxQueuedWork.MS() - s.added("work") + 1)
			return true
		}},
		{Writes: "accept.ledger readmit.ledger", Why: "refused a ledger without work", Holds: true, Change: without("work")},
		{Writes: "accept.ledger readmit.ledger", Why: "took no notice of what entered since", Change: to("entered", op.N(far))},
		{Writes: "accept.ledger readmit.ledger", Why: "refused a ledger into which nothing came", Holds: true, Change: without("entered")},
		{Writes: "accept.ledger readmit.ledger", Why: "went over the rate", Change: func(s *Sample, it op.Item) bool {
			_, idle := s.set("tat")
			it["tat"] = op.N(far)
			return idle || s.added("tat") != 0
		}},
		{Writes: "accept.ledger readmit.ledger", Why: "charged an idle rate as a busy one", Change: func(s *Sample, it op.Item) bool {
			it["tat"] = op.N(0)
			return s.added("tat") != 0
		}},
		{Writes: "accept.ledger readmit.ledger", Why: "refused a tenant that never submitted", Holds: true, Change: func(s *Sample, it op.Item) bool {
			_, idle := s.set("tat")
			return idle && without("tat")(s, it)
		}},
		{Writes: "accept.ledger readmit.ledger", Why: "began a day twice", Change: func(s *Sample, it op.Item) bool {
			day, begins := s.set("day")
			it["day"] = op.N(day)
			return begins
		}},
		{Writes: "accept.ledger readmit.ledger", Why: "refused to begin the first day", Holds: true, Change: func(s *Sample, it op.Item) bool {
			_, begins := s.set("day")
			return begins && without("day")(s, it)
		}},
		{Writes: "accept.ledger readmit.ledger", Why: "counted for another day", Change: func(s *Sample, it op.Item) bool { return s.added("dayw") != 0 && more("day")(s, it) }},
		{Writes: "accept.ledger readmit.ledger", Why: "went over the day's work", Change: func(s *Sample, it op.Item) bool {
			it["dayw"] = op.N(tier(s).DailyWork.MS() - s.added("dayw") + 1)
			return s.added("dayw") != 0
		}},
		{Writes: "accept.ledger readmit.ledger", Why: "refused a day without work", Holds: true, Change: func(s *Sample, it op.Item) bool { return s.added("dayw") != 0 && without("dayw")(s, it) }},
		{Writes: "accept.ledger readmit.ledger", Why: "took a start tag that another submission has", Change: func(s *Sample, it op.Item) bool { return finish(s, it, far) }},
	}
	return slices.Concat(rules, stateRules(), laneRules(), fairRules(), operatorRules())
}

// finish moves the finish tag that the write sets, by n.
func finish(s *Sample, it op.Item, n int64) bool {
	attr := s.touched(op.VerbSet, "f#")
	if attr == "" {
		return false
	}
	it[attr] = op.N(it.Int(attr) + n)
	return true
}

const rowWrites = "cancel.row cancel_request.row claim.row dead_delivery.row undeliverable.row keep.row due.row expire.row finish_*.row halt.row hand_over.row lost_*.row move_due.row " +
	"park.row readmit.row release.row renew.row unhold.row unpark.row void_lease.row withdraw.row"

// stateRules: no row is changed in another state than it was read in.
func stateRules() (rules []Rule) {
	for _, state := range task.States() {
		rules = append(rules, Rule{Writes: rowWrites, Why: "changed a row that has become " + string(state), Change: to("st", op.S(string(state)))})
	}
	return rules
}

func laneRules() []Rule {
	full := func(_ *Sample, it op.Item) bool { it["open"] = it["slots"]; return true }
	empty := func(_ *Sample, it op.Item) bool { it["open"], it["ready"] = op.N(0), op.N(0); return true }
	return []Rule{
		{Writes: "lane.enter_slot lane.release_slot", Why: "took a slot that is not there", Change: full},
		{Writes: "lane.enter_slot", Why: "passed over those who wait", Change: to("ready", op.N(1))},
		{Writes: "lane.enter_slot lane.release_slot lane.adopt", Why: "named a queued task twice", Change: names(op.VerbSet, "q#", "q#")},
		{Writes: "lane.enter_slot lane.release_slot lane.adopt", Why: "named a running task as queued", Change: names(op.VerbSet, "q#", "r#")},
		{Writes: "lane.adopt", Why: "named a queued task as running too", Change: names(op.VerbSet, "r#", "q#")},
		{Writes: "lane.adopt", Why: "named a running task twice", Change: names(op.VerbSet, "r#", "r#")},
		{Writes: "lane.enter_slot lane.enter_ready lane.enter_held", Why: "took no notice of what entered since", Change: fresh(to("entered", op.N(far)))},
		{Writes: "lane.enter_slot lane.enter_ready lane.enter_held", Why: "took no notice of lowered slots or a pause", Change: fresh(more("cut"))},
		{Writes: "lane.enter_slot lane.release_slot", Why: "gave a slot on an old count of other lanes' tasks", Change: func(s *Sample, it op.Item) bool {
			return s.Write.Key == taskop.LaneKey("retry") && to("oq", op.N(far))(s, it)
		}},
		{Writes: "lane.enter_ready", Why: "let a task wait beside a free slot", Change: empty},
		{Writes: "lane.enter_ready", Why: "refused to let a task wait for a slot", Holds: true, Change: func(_ *Sample, it op.Item) bool {
			it["open"], it["ready"] = it["slots"], op.N(0)
			return true
		}},
		{Writes: "lane.enter_ready", Why: "refused to let a task wait behind others", Holds: true, Change: func(_ *Sample, it op.Item) bool {
			it["open"], it["ready"] = op.N(0), op.N(1)
			return true
		}},
		{Writes: "lane.begin_run lane.leave_slot lane.park_slot lane.unrelease_slot", Why: "changed a slot that its task does not have", Change: unnamed("q#")},
		{Writes: "lane.end_run lane.hand_over", Why: "gave a slot that its attempt does not have", Change: unnamed("r#")},
		{Writes: "lane.hand_over", Why: "named a running task twice", Change: func(s *Sample, it op.Item) bool {
			return s.touched(op.VerbRemove, "r#") != "" && names(op.VerbSet, "r#", "r#")(s, it)
		}},
		{Writes: "lane.hand_over", Why: "named a queued task as running too", Change: func(s *Sample, it op.Item) bool {
			return s.touched(op.VerbRemove, "r#") != "" && names(op.VerbSet, "r#", "q#")(s, it)
		}},
		{Writes: "lane.leave_ready lane.leave_waiting lane.park_ready lane.release_slot", Why: "uncounted a task where none waits", Change: short("ready")},
		{Writes: "lane.leave_ready lane.leave_waiting lane.unpark lane.release_slot", Why: "uncounted a task where none is parked", Change: short("parked")},
		{Writes: "lane.leave_ready lane.leave_waiting", Why: "took more work than there is", Change: short("work")},
		{Writes: "lane.release_slot", Why: "released in a paused lane", Change: to("paused", op.N(1))},
		{Writes: "lane.recount", Why: "corrected a lane that has changed (entered)", Change: more("entered")},
		{Writes: "lane.recount", Why: "corrected a lane that has changed (ready)", Change: more("ready")},
		{Writes: "lane.recount", Why: "corrected a lane that has changed (parked)", Change: more("parked")},
		{Writes: "lane.recount", Why: "corrected a lane that has changed (work)", Change: more("work")},
		{Writes: "lane.recount", Why: "corrected a lane that has changed (open)", Change: more("open")},
		{Writes: "lane.recount publish publish.margins", Why: "overruled a later run", Change: to("ep", op.N(far))},
		{Writes: "lane.recount", Why: "refused a lane that was never corrected", Holds: true, Change: func(_ *Sample, it op.Item) bool {
			delete(it, "ep")
			return true
		}},
		{Writes: "lane.recount publish publish.margins", Why: "refused what an earlier run has written", Holds: true, Change: to("ep", op.N(0))},
		{Writes: "run.take", Why: "refused the lease of run 0", Holds: true, Change: zero("ep")},
		{Writes: "lane.enter_slot lane.release_slot", Why: "refused a lane that counts none of other lanes' tasks", Holds: true, Change: zero("oq")},
		{Writes: "lane.end_run", Why: "gave a slot back although somebody waits and the worker was to look again", Change: func(s *Sample, it op.Item) bool {
			it["ready"] = op.N(1)
			return strings.Contains(say(s.Write.Cond), "ready")
		}},
		{Writes: "run.*", Why: "took no notice of a later run", Change: more("ep")},
		{Writes: "run.renew run.end", Why: "changed the lease of another", Change: to("own", op.S("another"))},
		{Writes: "run.take", Why: "took a lease that was renewed meanwhile", Change: more("til")},
	}
}

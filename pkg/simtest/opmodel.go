package simtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/operate"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// operations is what the model knows of operators' acts and of the slow jobs of
// the aggregator. After every applied write it holds that
//
//   - whatever an operator's call changed is in the audit by then;
//   - nothing enters a paused lane and nothing is released in it; in prompt runs no
//     row either is accepted or released there, but what was under way, and no worker
//     hands a slot over that had seen the pause;
//   - only a running replay takes tasks out of quarantine, each at most once, no more
//     than its limit, no faster than its rate (prompt runs), and none that it did not ask for;
//   - a ledger that was tampered with stays off by just that until it is repaired,
//     and is right then; nobody repairs one that is right (model.wrote);
//   - no lease is voided whose worker lives.
type operations struct {
	w      *World
	audits map[string]int // entries by act and object
	acts   map[string]int // changes that need one

	paused  map[string]time.Time // lanes, since when
	replays map[string]*replayJob
	bent    map[string]sum // what tampered ledgers are off by

	played  Played
	circuit *circuit
}

// Played is how often things happened that a history should not be without.
type Played struct {
	Pauses, Replayed, Keys   int // by operators
	Measured, Bent, Repaired int // ledgers
	Halted, Canaries, Voided int // classes, tasks, leases
}

func (p *Played) add(q Played) {
	for i, n := range p.all() {
		*n += *q.all()[i]
	}
}

func (p *Played) all() []*int {
	return []*int{&p.Pauses, &p.Replayed, &p.Keys, &p.Measured, &p.Bent, &p.Repaired, &p.Halted, &p.Canaries, &p.Voided}
}

// complete says whether nothing is missing.
func (p *Played) complete() bool {
	return !slices.ContainsFunc(p.all(), func(n *int) bool { return *n == 0 })
}

// replayJob is a replay as the model sees it.
type replayJob struct {
	events.Replay
	running bool
	took    map[op.Key]bool
	times   []time.Time
}

func newOperations(w *World) *operations {
	return &operations{w: w, audits: map[string]int{}, acts: map[string]int{}, paused: map[string]time.Time{}, replays: map[string]*replayJob{}, bent: map[string]sum{}, circuit: newCircuit(w)}
}

// wrote is told of every applied write, after the model has taken it in.
func (o *operations) wrote(a memtable.Applied) {
	if o.w.current == nil {
		return // what the world itself puts there
	}
	if !o.w.echo && !o.w.current.abandoned { // what comes late is of an earlier call
		o.w.current.In.writes++
	}
	var taken, admitted int
	for _, e := range a.Effects {
		switch name := e.Write.Name; {
		case name == "audit":
			entry := taskop.DecodeAudit(e.Write.Key, e.After)
			o.audits[entry.Act+" "+entry.On]++
		case strings.HasPrefix(name, "lane."):
			o.lane(e)
		case strings.HasPrefix(name, "replay."):
			if name == "replay.take" {
				taken++
			}
			o.replay(e, a)
		case name == "tenant.put":
			o.act("tenant.create", tenantOf(e))
		case name == "tenant.tier":
			o.act("tenant.tier", tenantOf(e))
		case name == "key.list":
			o.act("key.create", tenantOf(e))
			o.played.Keys++
		case name == "key.unlist":
			o.act("key.delete", tenantOf(e))
		case name == "void_lease.row":
			o.voided(e)
		case name == "ledger.repair":
			o.played.Repaired++
		case strings.HasSuffix(name, ".row"):
			if name == "readmit.row" {
				admitted++
			}
			o.row(e)
		}
	}
	if by := o.w.current.In.Function; by == Aggregator && admitted != taken {
		o.w.violate("%s: the aggregator admitted %d tasks again and counted %d", a.Name, admitted, taken)
	}
	for act, n := range o.acts {
		if n > o.audits[act] {
			o.w.violate("%s: %q happened %d times and is in the audit %d times", a.Name, act, n, o.audits[act])
		}
	}
}

func tenantOf(e memtable.Effect) string { return strings.TrimPrefix(e.Write.Key.PK, "E#") }

func (o *operations) act(act, on string) { o.acts[act+" "+on]++ }

func (o *operations) lane(e memtable.Effect) {
	name := strings.TrimSuffix(strings.TrimPrefix(e.Write.Key.PK, taskop.LanePrefix), "#0")
	before, err1 := taskop.DecodeLane(name, e.Before)
	after, err2 := taskop.DecodeLane(name, e.After)
	if err1 != nil || err2 != nil {
		o.w.violate("%s: %v %v", e.Write.Name, err1, err2)
		return
	}
	o.circuit.lane(e, &before, &after)
	switch {
	case after.Paused && !before.Paused:
		o.act("lane.pause", name)
		o.played.Pauses++
		o.paused[name] = o.w.now()
	case before.Paused && !after.Paused:
		o.act("lane.resume", name)
		delete(o.paused, name)
	case before.Paused:
		switch e.Write.Name {
		case "lane.enter_slot", "lane.enter_ready", "lane.enter_held", "lane.enter_halted":
			o.w.violate("%s: something entered the paused lane %s", e.Write.Name, name)
		case "lane.release_slot":
			o.w.violate("%s: something was released in the paused lane %s", e.Write.Name, name)
		}
	}
}

// underWay is how long a decision may lie before its write in prompt runs: a few
// calls and the tries after lost races.
const underWay = time.Second

// row holds a row's change against the pause of its lane. What was decided
// before goes on.
func (o *operations) row(e memtable.Effect) {
	w := o.w
	t, err := taskop.DecodeRow(e.Write.Key, e.After)
	if e.After == nil || err != nil {
		return
	}
	o.circuit.row(e.Write.Name, t)
	since, paused := o.paused[t.AtLane]
	if !paused {
		return
	}
	c := w.current
	switch name := e.Write.Name; {
	case name == "hand_over.row" && c.knew:
		w.violate("%s: %s handed a slot of lane %s over, which it had seen paused", name, c.In.Name, t.AtLane)
	case name == "accept.row", name == "readmit.row", name == "hand_over.row", name == "release.row", name == "due.row" && t.State == task.Queued:
		if late := c.came.Sub(since); w.opts.Strict && late > underWay {
			w.violate("%s: task %s of lane %s, which has been paused for %v", name, t.ID, t.AtLane, late)
		}
	}
}

func (o *operations) replay(e memtable.Effect, a memtable.Applied) {
	w, id := o.w, e.Write.Key.SK
	now := taskop.DecodeReplay(e.Write.Key, e.After)
	if e.Before == nil {
		o.act("replay.start", id)
		rep, err := operate.ReplayOf(now)
		if err != nil || rep.DryRun {
			w.violate("%s: replay %s: %v, dry run: %t", e.Write.Name, id, err, rep.DryRun)
		}
		o.replays[id] = &replayJob{Replay: rep, running: true, took: map[op.Key]bool{}}
		return
	}
	job := o.replays[id]
	if job == nil {
		w.violate("%s: there is no replay %s", e.Write.Name, id)
		return
	}
	if now.State == string(events.ReplayStopped) && job.running {
		o.act("replay.stop", id)
	}
	if e.Write.Name == "replay.take" {
		o.take(job, a)
	}
	job.running = now.State == string(events.ReplayRunning)
	if now.Admitted != int64(len(job.took)) {
		w.violate("%s: replay %s says that it admitted %d, it was %d", e.Write.Name, id, now.Admitted, len(job.took))
	}
}

// take holds what a replay admits against its order.
func (o *operations) take(job *replayJob, a memtable.Applied) {
	w := o.w
	for _, e := range a.Effects {
		if e.Write.Name != "readmit.row" {
			continue
		}
		key, f := e.Write.Key, job.Filter
		b, err := taskop.DecodeRow(key, e.Before)
		switch {
		case err != nil || b.State != task.Quarantined:
			w.violate("replay %s took %s, which was not in quarantine: %v", job.ID, key.SK, err)
			return
		case !job.running:
			w.violate("replay %s took task %s after it was over", job.ID, key.SK)
		case job.took[key]:
			w.violate("replay %s took task %s twice", job.ID, key.SK)
		case f.Class != "" && f.Class != b.Class, f.Tenant != "" && f.Tenant != b.Tenant, f.Lane != "" && f.Lane != b.Lane,
			f.Signature != "" && f.Signature != b.Error.Signature, int64(job.CreatedAt)-b.QuarantinedMS < int64(f.MinAge):
			w.violate("replay %s took task %s, which its filter %+v does not mean", job.ID, key.SK, f)
		}
		job.took[key] = true
		o.played.Replayed++
		job.times = append(job.times, w.now())
	}
	if n := int64(len(job.took)); n > job.Limit {
		w.violate("replay %s took %d tasks, its limit is %d", job.ID, n, job.Limit)
	}
	if !w.opts.Strict {
		return // a clock that is read early may be acted on late
	}
	// It may have saved up two seconds of its rate, and a tick's work takes up to two.
	last := job.times[len(job.times)-1]
	for i, at := range job.times {
		if n, most := len(job.times)-i, 1+job.Rate*(last.Sub(at)+4*time.Second).Seconds(); float64(n) > most {
			w.violate("replay %s took %d tasks in %v, its rate is %v a second", job.ID, n, last.Sub(at), job.Rate)
		}
	}
}

// voided: only the lease of a worker that is gone may be ended before its time.
func (o *operations) voided(e memtable.Effect) {
	w := o.w
	t, err := taskop.DecodeRow(e.Write.Key, e.Before)
	if err != nil {
		w.violate("%s: %v", e.Write.Name, err)
		return
	}
	o.played.Voided++
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, in := range w.instances {
		if in.tokens[t.LeaseToken] && !in.dead {
			w.violations = append(w.violations, fmt.Sprintf("%s: the lease of task %s was voided while %s lives", e.Write.Name, t.ID, in.Name))
		}
	}
}

// read is told of every read that was answered.
func (o *operations) read(c *Call) {
	switch {
	case c.In.Function == Worker && c.Name == "get" && c.Where == where(taskop.LaneKey(c.In.Lane)):
		_, c.In.sawPause = o.paused[c.In.Lane]
	case c.In.Function == Aggregator && c.Name == "batch_get" && strings.HasPrefix(c.Where, taskop.LedgerPrefix):
		o.played.Measured++
	}
}

// off is what a tenant's ledger may be off by: what somebody's hand did to it.
func (o *operations) off(write, tenant string, ledger taskop.Ledger, s sum) sum {
	if write == "tamper" {
		o.played.Bent++
		o.bent[tenant] = sum{ledger.WorkMS - s.work, ledger.Active - s.active}
	}
	if write == "ledger.repair" {
		if o.bent[tenant] == (sum{}) {
			o.w.violate("%s: the ledger of %s was right", write, tenant)
		}
		delete(o.bent, tenant)
	}
	return o.bent[tenant]
}

// settled says whether no lane is paused, no replay runs and no ledger is off.
func (o *operations) settled() bool { return o.left() == "" }

func (o *operations) left() string {
	out := o.circuit.left()
	for lane := range o.paused {
		out = append(out, "lane "+lane+" is paused")
	}
	for id, job := range o.replays {
		if job.running {
			out = append(out, fmt.Sprintf("replay %s runs, it took %d of %d", id, len(job.took), job.Limit))
		}
	}
	for tenant, by := range o.bent {
		if by != (sum{}) {
			out = append(out, fmt.Sprintf("the ledger of %s is off by %+v", tenant, by))
		}
	}
	return strings.Join(out, "; ")
}

// seed puts the tenants' contracts there, as a deployment does.
func (w *World) seed() {
	for _, tenant := range w.cfg.TenantNames() {
		t, _ := w.cfg.Tenant(tenant)
		w.put(taskop.PutTenant(tenant, t.Tier))
	}
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

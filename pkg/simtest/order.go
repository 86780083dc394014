package simtest

import (
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/fair"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// rowChange is what an applied write did to a task; nil: there was, or is, none.
type rowChange struct {
	name          string
	before, after *task.Task
	rk, rs        string // its keys in the ready index afterwards
}

// orderModel knows what must be true of the fair order. After every applied write it
// holds that
//
//   - a waiting task stands in the part of the index where it belongs, at the key
//     that its frozen start tag, shift and amount give;
//   - a finish tag moves only with a task, and by exactly what that task is charged
//     or given back: at any time a tenant has paid, for each of its tasks, what its attempts in
//     the admitting lane took and one attempt more while that is still to come;
//   - the virtual time of a lane never falls, and reaches the place of what begins;
//   - ordering keys: see chainModel; to whom slots are given: see releaseModel.
type orderModel struct {
	w       *World
	virtual map[string]int64
	chains  chainModel
	release releaseModel
}

func newOrderModel(w *World) *orderModel {
	return &orderModel{w: w, virtual: map[string]int64{}, chains: newChainModel(w), release: newReleaseModel(w)}
}

// wrote is told of every applied write, after the model of the rows.
func (o *orderModel) wrote(a memtable.Applied, rows []rowChange) {
	moved := map[string]*finishTags{}
	for _, e := range a.Effects {
		pk := e.Write.Key.PK
		switch {
		case strings.HasPrefix(pk, taskop.LedgerPrefix):
			moved[pk[len(taskop.LedgerPrefix):]] = &finishTags{taskop.DecodeLedger(e.Before).Finish, taskop.DecodeLedger(e.After).Finish}
		case strings.HasPrefix(pk, taskop.LanePrefix):
			o.lane(strings.TrimSuffix(pk[len(taskop.LanePrefix):], "#0"), e)
		case strings.HasPrefix(pk, chainPrefix):
			o.chains.wrote(a.Name, e)
		}
	}
	for _, r := range rows {
		o.place(r)
		o.charge(r, moved)
		o.chains.row(r)
		o.release.row(r)
	}
	for tenant, f := range moved {
		for lane, tag := range f.after {
			if tag != f.before[lane] {
				o.w.violate("%s: moved the finish tag of %s in lane %s from %d to %d for no task", a.Name, tenant, lane, f.before[lane], tag)
			}
		}
	}
	o.chains.hold(a.Name)
}

func (o *orderModel) lane(name string, e memtable.Effect) {
	l := o.w.model.lanes[name]
	if l == nil {
		return
	}
	if l.Virtual < o.virtual[name] {
		o.w.violate("%s: the virtual time of lane %s fell from %d to %d", e.Write.Name, name, o.virtual[name], l.Virtual)
	}
	o.virtual[name] = l.Virtual
	o.begins(name, l, e)
	o.release.lane(name, l)
}

// begins: by whatever task begins out of the backlog the virtual time has reached its place.
func (o *orderModel) begins(name string, l *taskop.Lane, e memtable.Effect) {
	if o.w.echo || e.Write.Name != "lane.hand_over" {
		return // a repeated write does not know what has become of its task
	}
	for _, named := range l.Tasks {
		if e.Before.Has(taskop.RunningEntry(named.ID)) || e.Before.Has(taskop.QueuedEntry(named.ID)) {
			continue
		}
		t := o.w.model.tasks[taskop.RowKey(named.Tenant, named.ID)]
		// A write that comes late may be of an attempt that is over, after which the task has another tag.
		if t != nil && t.AtLane == name && t.State == task.Running && t.AttemptMS == named.SinceMS && l.Virtual < fair.Virtual(t.Tag, t.ShiftMS) {
			o.w.violate("%s: task %s with tag %d, shift %d begins in lane %s and leaves its virtual time at %d", e.Write.Name, t.ID, t.Tag, t.ShiftMS, name, l.Virtual)
		}
	}
}

// place holds a waiting task to its place in the index, and what its place rests on
// to what it was.
func (o *orderModel) place(r rowChange) {
	a, b := r.after, r.before
	if a == nil {
		return
	}
	if admitted(r) {
		tier, _ := o.w.cfg.Tier(tiers[a.Tenant])
		if shift := fair.Shift(policy.PriorityRank(a.Priority)); a.ShiftMS != shift {
			o.w.violate("%s: task %s of priority %s has the shift %d, not %d", r.name, a.ID, a.Priority, a.ShiftMS, shift)
		}
		if cost := fair.Cost(a.AmountMS, tier.Weight); a.TagCost != cost {
			o.w.violate("%s: task %s of %d ms costs %d, at weight %v it is %d", r.name, a.ID, a.AmountMS, a.TagCost, tier.Weight, cost)
		}
		if l := o.w.model.lanes[a.Lane]; o.w.opts.Tight && a.State == task.Queued && l != nil && l.Virtual < a.Tag {
			o.w.violate("%s: task %s with tag %d got a free slot of lane %s at once and leaves its virtual time at %d", r.name, a.ID, a.Tag, a.Lane, l.Virtual)
		}
		if low := a.Priority == "low" && o.w.cfg.LowSlots(a.Lane, o.w.cfg.Slots(a.Lane)) > 0; a.Low != low {
			o.w.violate("%s: task %s of priority %s in lane %s is low: %t", r.name, a.ID, a.Priority, a.Lane, a.Low)
		}
	} else if b != nil {
		// The slot was taken before, for the row as it was read then; this write holds for that row alone.
		if l := o.w.model.lanes[a.AtLane]; b.State == task.Waiting && a.State == task.Queued && l != nil && l.Virtual < fair.Virtual(a.Tag, a.ShiftMS) {
			o.w.violate("%s: task %s with tag %d, shift %d is released in lane %s and leaves its virtual time at %d", r.name, a.ID, a.Tag, a.ShiftMS, a.AtLane, l.Virtual)
		}
		goesOn := b.State == task.Running && a.State == task.Waiting && b.Charged()
		comesBack := b.State == task.RetryWait && (a.State == task.Queued || a.State == task.Waiting)
		if a.ShiftMS != b.ShiftMS || a.TagCost != b.TagCost || a.Low != b.Low || a.Tag != b.Tag && !goesOn && !comesBack {
			o.w.violate("%s: task %s moved from tag %d, shift %d, cost %d, low %t to %d, %d, %d, %t", r.name, a.ID, b.Tag, b.ShiftMS, b.TagCost, b.Low, a.Tag, a.ShiftMS, a.TagCost, a.Low)
		}
		if comesBack && a.Tag != taskop.RetryTag(policy.PriorityRank(a.Priority), b.NotBeforeMS) {
			o.w.violate("%s: the retry of task %s, of priority %s and not before %d, has the tag %d", r.name, a.ID, a.Priority, b.NotBeforeMS, a.Tag)
		}
	}
	switch {
	case a.Held && a.State != task.Waiting:
		o.w.violate("%s: task %s is held and %s", r.name, a.ID, a.State)
	case a.State == task.Quarantined:
		if e, err := taskop.ParseQuarantineSort(r.rs); err != nil || r.rk != taskop.QuarantinePartition(a.Lane) || e.ID != a.ID || e.AtMS != a.QuarantinedMS {
			o.w.violate("%s: the quarantined task %s stands at %s %s", r.name, a.ID, r.rk, r.rs)
		}
	case a.State != task.Waiting && r.rk+r.rs != "":
		o.w.violate("%s: task %s is %s and stands at %s %s", r.name, a.ID, a.State, r.rk, r.rs)
	case a.State == task.Waiting:
		o.stand(r)
	}
}

// stand holds a waiting task to its place in the index.
func (o *orderModel) stand(r rowChange) {
	a := r.after
	rk := taskop.ReadyPartition(a.AtLane)
	switch {
	case a.Held, a.Parked:
		rk = taskop.ParkedPartition(a.AtLane)
	case a.Low && a.AtLane == a.Lane:
		rk = taskop.LowPartition(a.AtLane)
	}
	e, err := taskop.ParseReadySort(r.rs)
	owner := map[bool]string{true: a.Tenant}[a.Parked]
	if a.Held {
		owner = taskop.HeldOwner()
	}
	if _, halted := taskop.HaltedClass(e.Tenant); halted && !a.Held {
		owner = e.Tenant
	}
	if err != nil || r.rk != rk || e.Tag != a.Tag+a.ShiftMS || e.SubmittedMS != a.Since() || e.ID != a.ID || e.AmountMS != a.AmountMS || e.Tenant != owner {
		o.w.violate("%s: task %s (tag %d, shift %d, held %t, parked %t, low %t) stands at %s %s", r.name, a.ID, a.Tag, a.ShiftMS, a.Held, a.Parked, a.Low, r.rk, r.rs)
	}
}

// admitted says whether the change is an admission: the first, or out of quarantine.
func admitted(r rowChange) bool {
	return r.after != nil && (r.before == nil || r.before.State == task.Quarantined && r.after.State.Live())
}

// finishTags are a ledger's finish tags by lane, of which what is accounted for is taken away.
type finishTags struct{ before, after map[string]int64 }

func (f *finishTags) take(lane string) (before, after int64) {
	if f == nil {
		return 0, 0
	}
	before, after = f.before[lane], f.after[lane]
	delete(f.after, lane)
	return before, after
}

// charge holds a finish tag to what the change of a task moves it by.
func (o *orderModel) charge(r rowChange, moved map[string]*finishTags) {
	b, a := r.before, r.after
	t := b
	if a != nil {
		t = a
	}
	cost := func(t *task.Task) int64 {
		if t == nil || !t.Charged() {
			return 0
		}
		return t.TagCost
	}
	before, after := moved[t.Tenant].take(t.Lane)
	due := cost(a) - cost(b)
	if admitted(r) {
		due = cost(a)
	}
	ended := b != nil && b.State == task.Running && (a == nil || a.State != task.Running)
	if n := len(t.Attempts); ended && b.Charged() && n > 0 {
		// The attempt that has ended stays paid, for what it took.
		took := t.Attempts[n-1].EndMS - t.Attempts[n-1].StartMS
		due += cost(b) + fair.Correction(b.TagCost, b.AmountMS, max(took, 0))
	}
	if after-before == due {
		return
	}
	// A new place may begin later than the tenant's last one ended: at the lane's virtual time.
	if placed := admitted(r) || ended && cost(a) > 0; placed && after-before > due && after == a.Tag+a.TagCost {
		return
	}
	o.w.violate("%s: task %s went from %v to %v and moved the finish tag of %s in lane %s by %d (%d → %d), not by %d; its tag is %d, its cost %d", r.name, t.ID,
		stateOf(b), stateOf(a), t.Tenant, t.Lane, after-before, before, after, due, t.Tag, t.TagCost)
}

func stateOf(t *task.Task) task.State {
	if t == nil {
		return task.None
	}
	return t.State
}

// lagging is how long something may take to be seen by everybody: indexes lag, and a count
// that a fault has left wrong is repaired by the second check that finds it.
func (w *World) lagging() time.Duration {
	if w.opts.Tight {
		return time.Second
	}
	return 20 * time.Second
}

const chainPrefix = "O#"

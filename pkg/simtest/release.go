package simtest

import (
	"cmp"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// releaseModel knows to whom a slot may be given. After every applied write by which a
// task got one it holds that
//
//   - it was not one of those kept for low priority while that holds fewer than these,
//     and one of low priority stood in the order;
//   - no other task of its part of the order stood before it.
//
// Both among tasks that have stood there, and could have been given a slot, for longer than it
// takes to be seen. In lanes that several lanes share there are other reasons to be passed over.
type releaseModel struct {
	w     *World
	ready map[string]map[string]*standing // per lane, by id
	held  map[string]int                  // per lane: slots that tasks of low priority hold, by their rows
	fewer map[string]time.Time            // per lane: since when it is fewer than are kept
	full  map[string]time.Time            // per tenant: when it was last at max_active
}

// standing is a task in a lane's order.
type standing struct {
	t     *task.Task
	since time.Time
}

func newReleaseModel(w *World) releaseModel {
	return releaseModel{w: w, ready: map[string]map[string]*standing{}, held: map[string]int{}, fewer: map[string]time.Time{}, full: map[string]time.Time{}}
}

func lowAt(t *task.Task) bool { return t != nil && t.Low && t.AtLane == t.Lane }

func open(t *task.Task) bool { return t != nil && (t.State == task.Queued || t.State == task.Running) }

func stands(t *task.Task) bool {
	return t != nil && t.State == task.Waiting && !t.Parked && !t.Held && t.AtLane == t.Lane
}

func (o *releaseModel) kept(lane string) int { return o.w.cfg.LowSlots(lane, o.w.cfg.Slots(lane)) }

// lane takes in a lane's item.
func (o *releaseModel) lane(name string, l *taskop.Lane) {
	for _, e := range l.Tasks {
		if t := o.w.model.tasks[taskop.RowKey(e.Tenant, e.ID)]; t != nil && t.AtLane == name && e.Low != lowAt(t) {
			o.w.violate("%s: lane %s says that task %s is of low priority: %t", l.Name, name, e.ID, e.Low)
		}
	}
	o.count(name)
}

// count notes since when a lane's low priority holds fewer slots than are kept for it.
func (o *releaseModel) count(lane string) {
	held := o.held[lane]
	if l := o.w.model.lanes[lane]; l != nil {
		held = max(held, l.LowHeld()) // a slot is taken before the row's write, and given back after it
	}
	if held >= o.kept(lane) {
		delete(o.fewer, lane)
	} else if o.fewer[lane].IsZero() {
		o.fewer[lane] = o.w.now()
	}
}

// row takes in what became of a task.
func (o *releaseModel) row(r rowChange) {
	b, a, now := r.before, r.after, o.w.now()
	if a != nil {
		if l, known := o.w.model.ledgers[a.Tenant]; known && l.Active >= l.MaxActive {
			o.full[a.Tenant] = now
		}
		if open(a) && !open(b) {
			o.given(r)
		}
	}
	var since time.Time
	if stands(b) {
		since = o.ready[b.AtLane][b.ID].since
		delete(o.ready[b.AtLane], b.ID)
	}
	if stands(a) {
		if since.IsZero() {
			since = now
		}
		if o.ready[a.AtLane] == nil {
			o.ready[a.AtLane] = map[string]*standing{}
		}
		o.ready[a.AtLane][a.ID] = &standing{a, since}
	}
	for i, t := range []*task.Task{b, a} {
		if lowAt(t) && open(t) {
			o.held[t.AtLane] += 2*i - 1
		}
	}
	if b != nil {
		o.count(b.AtLane)
	}
	if a != nil {
		o.count(a.AtLane)
	}
}

// before says whether a waiting task's key is the smaller one.
func before(x, y *task.Task) bool {
	return cmp.Or(cmp.Compare(x.Tag+x.ShiftMS, y.Tag+y.ShiftMS), cmp.Compare(x.Since(), y.Since()), cmp.Compare(x.ID, y.ID)) < 0
}

// given holds a slot that a task got against those who stood there for it.
func (o *releaseModel) given(r rowChange) {
	b, a := r.before, r.after
	lane, now, lag := o.w.model.lanes[a.AtLane], o.w.now(), o.w.lagging()
	if a.AtLane != a.Lane || lane == nil {
		return
	}
	if c := o.w.current; c != nil && now.Sub(c.In.frozenUntil) < lag {
		return // it was paused, perhaps between its look at the order and this
	}
	named := map[string]bool{}
	for _, e := range lane.Tasks {
		named[e.ID] = true
	}
	// Where indexes lag, a place that the task had a moment ago may have been what was seen.
	own := o.ready[a.AtLane][a.ID]
	settled := own != nil && now.Sub(own.since) >= lag || o.w.faults.Lag == 0
	fewer, is := o.fewer[a.AtLane]
	reserved := is && now.Sub(fewer) >= lag
	for _, l := range o.ready[a.AtLane] {
		switch {
		case l.t.ID == a.ID, now.Sub(l.since) < lag, now.Sub(o.full[l.t.Tenant]) < lag: // not seen yet, or not allowed to run
		case l.t.TooLate(now.Add(lag).UnixMilli()), lane.Halts(l.t.Class), named[l.t.ID]: // or about to be something else
		case reserved && l.t.Low && !a.Low:
			o.w.violate("%s: task %s got a slot of lane %s, of which low priority holds %d and %d are kept for it, although %s waits since %v",
				r.name, a.ID, a.AtLane, o.held[a.AtLane], o.kept(a.AtLane), l.t.ID, now.Sub(l.since))
		case settled && b != nil && b.State == task.Waiting && l.t.Low == a.Low && before(l.t, b):
			o.w.violate("%s: task %s with key %d got a slot of lane %s, before which %s with key %d waits since %v", r.name, a.ID, b.Tag+b.ShiftMS,
				a.AtLane, l.t.ID, l.t.Tag+l.t.ShiftMS, now.Sub(l.since))
		}
	}
}

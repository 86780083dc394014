package simtest

import (
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// lowModel knows what must be true of the slots that lanes keep for low priority: while
// low priority holds fewer than these, the next slot that comes free is its own. After
// every applied write it holds that no other task was given a slot although one of low priority
// stood in the order, and could have been given it, for longer than it takes to be seen.
type lowModel struct {
	w     *World
	ready map[string]map[string]*lowTask // per lane, by id
	held  map[string]int                 // per lane: slots that tasks of low priority hold, by their rows
	fewer map[string]time.Time           // per lane: since when it is fewer than are kept
	full  map[string]time.Time           // per tenant: when it was last at max_active
}

type lowTask struct {
	t     *task.Task
	since time.Time
}

func newLowModel(w *World) lowModel {
	return lowModel{w: w, ready: map[string]map[string]*lowTask{}, held: map[string]int{}, fewer: map[string]time.Time{}, full: map[string]time.Time{}}
}

func lowAt(t *task.Task) bool { return t != nil && t.Low && t.AtLane == t.Lane }

func open(t *task.Task) bool { return t != nil && (t.State == task.Queued || t.State == task.Running) }

func (o *lowModel) kept(lane string) int { return o.w.cfg.LowSlots(lane, o.w.cfg.Slots(lane)) }

func (o *lowModel) lane(l *taskop.Lane) { o.count(l.Name) }

// count notes since when a lane's low priority holds fewer slots than are kept for it.
func (o *lowModel) count(lane string) {
	kept, held := o.kept(lane), o.held[lane]
	if l := o.w.model.lanes[lane]; l != nil {
		held = max(held, l.LowHeld()) // a slot is taken before the row's write, and given back after it
	}
	if held >= kept {
		delete(o.fewer, lane)
	} else if o.fewer[lane].IsZero() {
		o.fewer[lane] = o.w.now()
	}
}

func (o *lowModel) row(r rowChange) {
	b, a := r.before, r.after
	now := o.w.now()
	if a != nil {
		if l, known := o.w.model.ledgers[a.Tenant]; known && l.Active >= l.MaxActive {
			o.full[a.Tenant] = now
		}
	}
	for i, t := range []*task.Task{b, a} {
		if !lowAt(t) {
			continue
		}
		ready := o.ready[t.AtLane]
		if ready == nil {
			ready = map[string]*lowTask{}
			o.ready[t.AtLane] = ready
		}
		stands := t.State == task.Waiting && !t.Parked && !t.Held
		was := ready[t.ID]
		delete(ready, t.ID)
		if i == 1 && stands {
			if was == nil || b.Parked || b.Held || b.State != task.Waiting {
				was = &lowTask{since: now}
			}
			was.t = t
			ready[t.ID] = was
		} else if i == 0 && stands {
			ready[t.ID] = was // till the change itself is looked at
		}
		if open(t) {
			o.held[t.AtLane] += 2*i - 1
		}
	}
	if a != nil {
		o.given(r)
		o.count(a.AtLane)
	}
}

// given: a task that got a slot did not get one of those that are kept for others.
func (o *lowModel) given(r rowChange) {
	b, a := r.before, r.after
	if !open(a) || open(b) || lowAt(a) || o.kept(a.AtLane) == 0 {
		return
	}
	lane, now, lag := o.w.model.lanes[a.AtLane], o.w.now(), o.w.lagging()
	fewer, is := o.fewer[a.AtLane]
	if lane == nil || !is || now.Sub(fewer) < lag {
		return
	}
	named := map[string]bool{}
	for _, e := range lane.Tasks {
		named[e.ID] = true
	}
	for _, l := range o.ready[a.AtLane] {
		switch {
		case now.Sub(l.since) < lag, now.Sub(o.full[l.t.Tenant]) < lag: // not seen yet, or not allowed to run
		case l.t.TooLate(now.Add(lag).UnixMilli()), lane.Halts(l.t.Class), named[l.t.ID]: // or about to be something else
		default:
			o.w.violate("%s: task %s got a slot of lane %s, of which low priority holds %d and %d are kept for it, although %s waits since %v",
				r.name, a.ID, a.AtLane, o.held[a.AtLane], o.kept(a.AtLane), l.t.ID, now.Sub(l.since))
		}
	}
}

package simtest

import (
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// setBroken puts what handlers with "broken" and "useless" need out of order, or mends it.
func (w *World) setBroken(is bool) {
	w.note("--- broken: %t", is)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = is
}

func (w *World) isBroken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken
}

// storm submits tasks of one class that all fail in the same way until a time,
// and goes on a little longer.
func storm(c *Client, do string, n int, mended time.Duration) {
	c.w.post("storm", func() {
		c.w.setBroken(true)
		c.w.after(mended, func() { c.w.setBroken(false) })
	})
	for range n {
		c.submit(c.submission("plain", work{Do: do, MS: 400}, ""))
		c.pause(0, time.Second)
	}
}

// circuit holds what leaves a halted class's queue against the circuit: only the
// aggregator's canaries do, apart from what was under way, and while all of them fail
// not two at once (most; that is for runs without faults).
type circuit struct {
	w      *World
	since  map[string]time.Time // by lane and class that is halted there
	out    map[string]string    // canaries under way, and their classes
	most   int                  // of them at once, while none had succeeded
	proven map[string]bool      // classes of which a canary has succeeded
}

func newCircuit(w *World) *circuit {
	return &circuit{w: w, since: map[string]time.Time{}, out: map[string]string{}, proven: map[string]bool{}}
}

// lane is told of a lane's change.
func (k *circuit) lane(e memtable.Effect, before, after *taskop.Lane) {
	for _, class := range before.Halted {
		if !after.Halts(class) {
			delete(k.since, after.Name+" "+class)
		}
	}
	for _, class := range after.Halted {
		if !before.Halts(class) {
			k.w.model.ops.played.Halted++
			k.since[after.Name+" "+class] = k.w.now()
			k.proven[class] = false
		}
	}
	name := e.Write.Name
	if name != "lane.enter_slot" && name != "lane.release_slot" {
		return
	}
	for _, t := range after.Tasks {
		if t.Running || !before.Halts(t.Class) || slices.ContainsFunc(before.Tasks, func(o taskop.Open) bool { return o.ID == t.ID }) {
			continue
		}
		by := k.w.current.In.Function
		if name == "lane.enter_slot" && by == Admission || (name == "lane.enter_slot" || by != Aggregator) && k.late(after.Name, t.Class) {
			k.w.violate("%s: the %s gave a slot of lane %s to task %s of class %s, which is halted", name, by, after.Name, t.ID, t.Class)
		}
		k.out[t.ID] = t.Class
		k.w.model.ops.played.Canaries++
		if !k.proven[t.Class] {
			k.most = max(k.most, len(k.out))
		}
	}
}

// late says whether the current call came so long after a class was halted that it
// was not under way then.
func (k *circuit) late(lane, class string) bool {
	since, halted := k.since[lane+" "+class]
	return halted && k.w.opts.Strict && k.w.current.came.Sub(since) > underWay
}

// row is told of a task's change.
func (k *circuit) row(name string, t *task.Task) {
	if name == "hand_over.row" && k.late(t.AtLane, t.Class) {
		if _, canary := k.out[t.ID]; !canary {
			k.w.violate("%s: a worker took task %s of class %s, which is halted", name, t.ID, t.Class)
		}
	}
	if class, canary := k.out[t.ID]; canary && t.State != task.Queued && t.State != task.Running {
		delete(k.out, t.ID)
		k.proven[class] = k.proven[class] || t.State == task.Succeeded
	}
}

// left says which lanes hold a class back.
func (k *circuit) left() (out []string) {
	for _, name := range k.w.cfg.LaneNames() {
		if l := k.w.model.lanes[name]; l != nil && len(l.Halted) > 0 {
			out = append(out, "lane "+name+" holds "+l.Halted[0]+" back")
		}
	}
	return out
}

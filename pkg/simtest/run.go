package simtest

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// Result is what a run did.
type Result struct {
	Calls      int // outside calls granted
	Violations []string
	Trace      []string
	Accepted, Refused, Unavailable,
	Timeouts int
	Ends                     map[task.State]int
	Played                   Played
	Virtual                  time.Duration
	Dead, Given, Kept, Loops int
}

// quietTime is how long the world may take to come to rest after the faults end.
const quietTime = 20 * time.Minute

// Run plays a script in a world of its own and lets it come to rest.
func Run(t *testing.T, o Options, script func(w *World)) (res Result) {
	synctest.Test(t, func(*testing.T) {
		w := newWorld(o)
		script(w)
		w.loop(w.start.Add(w.opts.Active), func() bool { return w.clients == 0 })
		w.faults = Faults{}
		w.note("--- faults end, %d clients still at work", w.clients)
		w.loop(w.now().Add(quietTime), w.quiet)
		if len(w.violations) == 0 {
			if !w.quiet() {
				w.violate("nothing has come to rest after %v: %s", quietTime, w.left())
			}
			w.final()
		}
		m := w.model
		w.mu.Lock()
		res = Result{Calls: w.calls, Violations: w.violations, Trace: w.trace, Accepted: m.accepted, Refused: m.refused, Unavailable: m.unavailable,
			Timeouts: m.timeouts, Dead: m.counted, Given: m.given, Kept: len(m.garbage), Loops: m.loops,
			Ends: m.ends, Played: m.ops.played, Virtual: w.now().Sub(w.start)}
		w.mu.Unlock()
		w.end()
		time.Sleep(time.Hour) // for goroutines that only sleep: the bubble must end empty
	})
	return res
}

// quiet says whether nothing is under way any more.
func (w *World) quiet() bool {
	if w.clients > 0 {
		return false
	}
	for c := range w.open {
		if c.In.Function != Aggregator || c.abandoned {
			return false
		}
	}
	for s, n := range w.model.ends {
		if s.Live() && n > 0 {
			return false
		}
	}
	for _, q := range w.queues {
		if q.running > 0 {
			return false
		}
	}
	for _, l := range w.model.lanes {
		if !l.Empty() || len(l.Tasks) > 0 {
			return false
		}
	}
	return w.model.ops.settled() && len(w.deadLeft()) == 0
}

// left says what is still under way.
func (w *World) left() string {
	var out []string
	for c := range w.open {
		out = append(out, "call "+c.String())
	}
	for _, t := range w.model.tasks {
		if t.State.Live() {
			out = append(out, fmt.Sprintf("task %s of %s: %s at %s, generation %d, parked %t, due %d, now %d, start by %d", t.ID, t.Tenant, t.State, t.AtLane, t.Gen, t.Parked,
				t.DueMS, w.now().UnixMilli(), t.StartByMS))
		}
	}
	for _, l := range w.model.lanes {
		if !l.Empty() || len(l.Tasks) > 0 {
			out = append(out, fmt.Sprintf("lane %s: open %d ready %d parked %d work %d %v", l.Name, l.Open, l.Ready, l.Parked, l.WorkMS, l.Tasks))
		}
	}
	for _, q := range w.queues {
		if q.running > 0 {
			out = append(out, fmt.Sprintf("queue %s: %d invocations", q.lane, q.running))
		}
	}
	if ops := w.model.ops.left(); ops != "" {
		out = append(out, ops)
	}
	return strings.Join(append(out, w.deadLeft()...), "; ")
}

// final checks the world at rest.
func (w *World) final() {
	m := w.model
	m.kept()
	for tenant, l := range m.ledgers {
		if l.WorkMS != 0 || l.Active != 0 {
			w.violate("at rest the ledger of %s has work %d, active %d", tenant, l.WorkMS, l.Active)
		}
	}
	for key := range m.promised {
		if m.tasks[key] == nil {
			w.violate("task %s was accepted and has no row", key.SK)
		}
	}
	for key, t := range m.tasks {
		if t.State == task.Succeeded {
			if e := m.journal[attemptID{t.ID, int(t.Attempt)}]; e == nil || !e.ok {
				w.violate("task %s succeeded in attempt %d, which no handler has finished", t.ID, t.Attempt)
			}
		}
		if m.stopped[key] && t.State != task.Cancelled {
			w.violate("task %s was cancelled and is %s", t.ID, t.State)
		}
		if t.CancelRequested && t.State != task.Cancelled && t.State != task.Succeeded {
			w.violate("a cancel of task %s was requested and it is %s", t.ID, t.State)
		}
	}
	w.table.Each(func(key op.Key, it op.Item) {
		if t := m.tasks[key]; t != nil && (it.Has("dk") || it.Has("rk") && t.State != task.Quarantined) {
			w.violations = append(w.violations, fmt.Sprintf("at rest %v (%s) is still in an index: %s %s", key, t.State, it["dk"], it["rk"]))
		}
	})
}

// told notes that a client was told that its cancel holds; final: that the task
// is cancelled, else that it will be unless it succeeds.
func (m *model) told(key op.Key, final bool) {
	t := m.tasks[key]
	switch {
	case t == nil:
		m.w.violate("a cancel of %s was answered, which has no row", key.SK)
	case final && t.State != task.Cancelled:
		m.w.violate("a cancel of %s was answered as done and it is %s", key.SK, t.State)
	case !t.CancelRequested && t.State != task.Cancelled && t.State != task.Succeeded:
		m.w.violate("a cancel of %s was answered and is not noted on it (%s)", key.SK, t.State)
	}
	if final {
		m.stopped[key] = true
	}
}

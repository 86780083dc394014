package taskop_test

import (
	"fmt"
	"reflect"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// laneModel is a lane as it should be, beside the item as it is.
type laneModel struct {
	item   op.Item
	open   map[string]taskop.Open
	ready  []taskop.Open // who waits, in no order
	parked []taskop.Open
	slots  int64
}

const laneName = "standard"

func newLane(t fataler, slots int64) *laneModel {
	w := taskop.CreateLane(laneName, slots)
	return &laneModel{item: must(t, w, nil), open: map[string]taskop.Open{}, slots: slots}
}

func (m *laneModel) lane(t fataler) taskop.Lane {
	t.Helper()
	l, err := taskop.DecodeLane(laneName, m.item)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return l
}

// do performs a write that must be refused or go through as expected. One that
// is not marked Once must not count twice when an engine repeats it.
func (m *laneModel) do(t fataler, w op.Write, want bool) bool {
	t.Helper()
	after, ok := perform(t, w, m.item)
	if ok != want {
		t.Fatalf("%s: went through %v, expected %v on %v", w.Name, ok, want, m.item)
	}
	if ok && !w.Once {
		if again, twice := perform(t, w, after); twice && !reflect.DeepEqual(again, after) {
			t.Fatalf("%s counts twice when it is repeated: %v, then %v", w.Name, after, again)
		}
	}
	m.item = after
	return ok
}

// check compares the item with the model.
func (m *laneModel) check(t fataler) {
	t.Helper()
	l := m.lane(t)
	var work int64
	for _, list := range [][]taskop.Open{m.ready, m.parked} {
		for _, o := range list {
			work += o.AmountMS
		}
	}
	have := map[string]taskop.Open{}
	for _, o := range l.Tasks {
		have[o.ID] = o
	}
	for _, o := range m.open {
		if !o.Running {
			work += o.AmountMS
		}
	}
	if l.Open != int64(len(m.open)) || l.Ready != int64(len(m.ready)) || l.Parked != int64(len(m.parked)) || l.WorkMS != work || !reflect.DeepEqual(have, m.open) {
		t.Fatalf("the lane says %+v; expected %d open %v, %d ready, %d parked, work %d", l, len(m.open), m.open, len(m.ready), len(m.parked), work)
	}
	if l.Empty() != (len(m.open)+len(m.ready)+len(m.parked) == 0) {
		t.Fatalf("empty: %v, %+v", l.Empty(), l)
	}
}

// pick draws a task that is open in the given way.
func (m *laneModel) pick(t *rapid.T, running bool) (taskop.Open, bool) {
	var ids []string
	for id, o := range m.open {
		if o.Running == running {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return taskop.Open{}, false
	}
	sort.Strings(ids)
	return m.open[rapid.SampledFrom(ids).Draw(t, "open task")], true
}

func take(t *rapid.T, list *[]taskop.Open) (taskop.Open, bool) {
	if len(*list) == 0 {
		return taskop.Open{}, false
	}
	i := rapid.IntRange(0, len(*list)-1).Draw(t, "waiting task")
	o := (*list)[i]
	*list = append((*list)[:i:i], (*list)[i+1:]...)
	return o, true
}

// TestLaneItemKeepsCount drives a lane item through everything the services do
// to it, in any order, and holds its counts and entries against a model; and
// every write but those marked Once may be repeated without counting twice.
func TestLaneItemKeepsCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, next := newLane(t, rapid.Int64Range(1, 3).Draw(t, "slots")), 0
		fresh := func() taskop.Open {
			next++
			return taskop.Open{ID: fmt.Sprint("t", next), Class: "c", Bucket: "b", Tenant: "a", SinceMS: int64(next), AmountMS: rapid.Int64Range(1, 9).Draw(t, "amount")}
		}
		free := func() bool { return int64(len(m.open)) < m.slots }
		runs := func(o taskop.Open) { o.Running = true; m.open[o.ID] = o }
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { m.check(t) },
			"enter": func(t *rapid.T) {
				o, l := fresh(), m.lane(t)
				guard := &taskop.Guard{EnteredMaxMS: l.EnteredMS + rapid.Int64Range(-1, 1).Draw(t, "room"), Cut: l.Cut + rapid.Int64Range(0, 1).Draw(t, "cut")}
				holds := guard.EnteredMaxMS >= l.EnteredMS && guard.Cut == l.Cut
				if m.do(t, taskop.EnterSlot(laneName, o, guard), holds && free() && len(m.ready) == 0) {
					m.open[o.ID] = o
				} else if m.do(t, taskop.EnterReady(laneName, o.AmountMS, guard), holds && !(free() && len(m.ready) == 0)) {
					m.ready = append(m.ready, o)
				}
				if after := m.lane(t); after.EnteredMS < l.EnteredMS || after.EnteredMS-l.EnteredMS != after.WorkMS-l.WorkMS {
					t.Fatalf("entered went from %d to %d, work from %d to %d", l.EnteredMS, after.EnteredMS, l.WorkMS, after.WorkMS)
				}
			},
			"begin": func(t *rapid.T) {
				if o, ok := m.pick(t, false); ok {
					o.Running = true
					m.do(t, taskop.BeginRun(laneName, o), true)
					runs(o)
				}
			},
			"leave": func(t *rapid.T) {
				if o, ok := m.pick(t, false); ok {
					m.do(t, taskop.LeaveSlot(laneName, o), true)
					delete(m.open, o.ID)
				}
				m.do(t, taskop.LeaveSlot(laneName, fresh()), false)
			},
			"leave the order": func(t *rapid.T) {
				parked := rapid.Bool().Draw(t, "parked")
				list := &m.ready
				if parked {
					list = &m.parked
				}
				if o, ok := take(t, list); ok {
					m.do(t, taskop.LeaveReady(laneName, o.AmountMS, parked), true)
				} else {
					m.do(t, taskop.LeaveReady(laneName, 1, parked), false)
				}
			},
			"release": func(t *rapid.T) {
				if o, ok := take(t, &m.ready); ok {
					if m.do(t, taskop.ReleaseSlot(laneName, o, false), free()) {
						m.open[o.ID] = o
					} else {
						m.ready = append(m.ready, o)
					}
				}
			},
			"unrelease": func(t *rapid.T) {
				if o, ok := m.pick(t, false); ok {
					m.do(t, taskop.UnreleaseSlot(laneName, o, false), true)
					delete(m.open, o.ID)
					m.ready = append(m.ready, o)
				}
			},
			"end": func(t *rapid.T) {
				if o, ok := m.pick(t, true); ok {
					polite := rapid.Bool().Draw(t, "if nothing is ready")
					if m.do(t, taskop.EndRun(laneName, o.ID, polite), !polite || len(m.ready) == 0) {
						delete(m.open, o.ID)
					}
				}
				m.do(t, taskop.EndRun(laneName, "nobody", false), false)
			},
			"hand over": func(t *rapid.T) {
				if ended, ok := m.pick(t, true); ok {
					if o, ok := take(t, &m.ready); ok {
						o.Running = true
						m.do(t, taskop.HandOverSlot(laneName, ended.ID, o, false), true)
						delete(m.open, ended.ID)
						runs(o)
					}
				}
			},
			"go on, and take one's own slot": func(t *rapid.T) {
				if o, ok := m.pick(t, true); ok {
					m.do(t, taskop.GoOn(laneName, o.AmountMS), true)
					o.SinceMS++
					m.do(t, taskop.HandOverSlot(laneName, o.ID, o, false), true)
					runs(o)
				}
			},
			"park": func(t *rapid.T) {
				if o, ok := m.pick(t, false); ok && rapid.Bool().Draw(t, "a queued one") {
					m.do(t, taskop.ParkSlot(laneName, o.ID), true)
					delete(m.open, o.ID)
					m.parked = append(m.parked, o)
				} else if o, ok := take(t, &m.ready); ok {
					m.do(t, taskop.ParkReady(laneName), true)
					m.parked = append(m.parked, o)
				}
			},
			"unpark": func(t *rapid.T) {
				if o, ok := take(t, &m.parked); ok {
					m.do(t, taskop.Unpark(laneName), true)
					m.ready = append(m.ready, o)
				} else {
					m.do(t, taskop.Unpark(laneName), false)
				}
			},
			"adopt": func(t *rapid.T) {
				o := fresh()
				o.Running = rapid.Bool().Draw(t, "running")
				m.do(t, taskop.AdoptOpen(laneName, o), true)
				m.open[o.ID] = o
			},
			"change the slots": func(t *rapid.T) {
				l := m.lane(t)
				slots := rapid.Int64Range(0, 4).Draw(t, "slots")
				m.do(t, taskop.SetSlots(&l, slots), true)
				m.slots = slots
				if cut := m.lane(t).Cut; (cut > l.Cut) != (slots < l.Slots) {
					t.Fatalf("from %d to %d slots cut went from %d to %d", l.Slots, slots, l.Cut, cut)
				}
			},
		})
	})
}

func TestAPausedLaneReleasesNothing(t *testing.T) {
	m := newLane(t, 1)
	blocker, o := taskop.Open{ID: "b", AmountMS: 1}, taskop.Open{ID: "o", AmountMS: 1}
	m.do(t, taskop.EnterSlot(laneName, blocker, nil), true)
	m.do(t, taskop.EnterReady(laneName, 1, nil), true)
	m.do(t, taskop.LeaveSlot(laneName, blocker), true)
	l := m.lane(t)
	m.do(t, taskop.PauseLane(&l, true), true)
	m.do(t, taskop.ReleaseSlot(laneName, o, false), false)
	paused := m.lane(t)
	if !paused.Paused || paused.Cut != l.Cut+1 {
		t.Fatalf("%+v", paused)
	}
	m.do(t, taskop.EnterReady(laneName, 1, &taskop.Guard{EnteredMaxMS: 100, Cut: l.Cut}), false) // decided before the pause
	m.do(t, taskop.PauseLane(&paused, false), true)
	m.do(t, taskop.ReleaseSlot(laneName, o, false), true)
}

func TestRecountNeedsTheItemAsItWasRead(t *testing.T) {
	m := newLane(t, 2)
	m.do(t, taskop.EnterSlot(laneName, taskop.Open{ID: "o", AmountMS: 5}, nil), true)
	read := m.lane(t)
	right := taskop.Count{Open: 1, Ready: 1, WorkMS: 9}
	before := m.item
	for name, attr := range map[string]string{"open": "open", "ready": "ready", "parked": "parked", "work": "work", "entered": "entered"} {
		it := before.Clone()
		it[attr] = op.N(it.Int(attr) + 1)
		if _, ok := perform(t, taskop.Recount(&read, right, 1), it); ok {
			t.Errorf("recounted although %s has changed", name)
		}
	}
	m.do(t, taskop.Recount(&read, right, 2), true)
	got := m.lane(t)
	if got.Counts() != right || got.EnteredMS != read.EnteredMS+4 {
		t.Errorf("%+v: work that nobody knew of must void the copies of before", got)
	}
	if _, ok := perform(t, taskop.Recount(&got, right, 1), m.item); ok {
		t.Error("an earlier epoch recounted after a later one")
	}
}

func FuzzDecodeLane(f *testing.F) {
	f.Add("q#id", "class|bucket|tenant|1|2", "r#", "||||")
	f.Add("r#id", "class|bucket|tenant|1|2|origin", "q#x", "a|b|c|-1|9223372036854775807")
	f.Add("open", "x", "q#", "|")
	f.Fuzz(func(t *testing.T, attr1, v1, attr2, v2 string) {
		it := op.Item{"open": op.N(2), attr1: op.S(v1), attr2: op.S(v2)}
		l, err := taskop.DecodeLane("l", it)
		if err != nil {
			return
		}
		for _, o := range l.Tasks {
			w := taskop.AdoptOpen("l", o)
			after := must(t, w, op.Item{})
			again, err := taskop.DecodeLane("l", after)
			if err != nil || len(again.Tasks) != 1 || again.Tasks[0] != o {
				t.Errorf("%+v came back as %+v, %v", o, again.Tasks, err)
			}
		}
	})
}

// TestATaskThatTakesItsOwnSlotIsNotUncountedTwice: nothing in the item tells a
// repeated hand-over to itself from the first, so engines must not repeat it.
func TestATaskThatTakesItsOwnSlotIsNotUncountedTwice(t *testing.T) {
	o := taskop.Open{ID: "o", AmountMS: 1, Running: true}
	if !taskop.HandOverSlot(laneName, "o", o, false).Once {
		t.Error("an engine may repeat it")
	}
}

package simtest

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"sort"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/execute"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
)

// Options describe one run.
type Options struct {
	Seed   uint64
	Config *policy.Config
	Faults Faults
	// Plan decides the fate of each call instead of chance.
	Plan func(*Call) Fate
	// Takes is how long a call takes at least, on top of chance.
	Takes func(*Call) time.Duration
	// All makes every call go by the scheduler. Else most queries of the due index,
	// sixteen a second for each aggregator, are answered directly.
	All bool
	// Mutate changes every write on its way to the table; for mutants.
	Mutate func(op.Write) op.Write
	// Saw is told of every applied write and the item it met.
	Saw func(op.Write, op.Item)
	// Tight also holds lanes to no more open tasks than slots, which repairs after
	// faults may exceed for a while.
	Tight bool
	// Watch is told of every transaction as its caller saw it; it must be safe for
	// concurrent use. A caller that died saw an unavailable store.
	Watch func(tx op.Tx, began, ended time.Time, err error)
	// After runs in a worker's invocation behind its batch. Relays lets functions
	// that messages start send some, to show what Lambda does with such chains.
	After  func(ctx context.Context, in *Instance, batch []execute.Delivery)
	Relays bool
	// Cold starts every invocation in an instance of its own, without memory.
	Cold  bool
	Trace bool
	// Active is how long clients and faults may last; 0 is 2 minutes.
	Active time.Duration
	// Strict also holds lanes to "never too empty" at every step, which is
	// promised as long as no call takes longer than the checks allow for.
	Strict bool
}

// World is a running simulation. Its methods that end in "Locked" or are
// called from events run on the scheduler; everything else comes in by calls.
type World struct {
	opts  Options
	cfg   *policy.Config
	rng   *rand.Rand // of the scheduler only
	table *memtable.Table
	start time.Time

	mu       sync.Mutex // of what other goroutines hand in
	arrived  []*Call
	wake     chan struct{}
	ended    bool
	granting atomic.Bool // the scheduler is inside the table
	broken   bool        // what handlers with "broken" need is out of order

	events    eventHeap
	seq       int
	faults    Faults
	open      map[*Call]bool
	instances []*Instance
	idle      map[string][]*Instance
	queues    map[string]*laneQueue
	clients   int // still at work
	runs      int // of the aggregator, under way
	model     *model
	current   *Call
	phase     string                   // set by scripts
	echo      bool                     // the current call arrives a second time
	down      bool                     // everything is being started again
	behind    map[string]time.Duration // clocks of a function's instances

	calls      int
	violations []string
	trace      []string
}

// event is something that happens at a time.
type event struct {
	at  time.Time
	seq int
	do  func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

func newWorld(o Options) *World {
	if o.Active == 0 {
		o.Active = 2 * time.Minute
	}
	w := &World{
		opts: o, cfg: o.Config, rng: rand.New(rand.NewPCG(o.Seed, 1)), start: clock.System(), wake: make(chan struct{}, 1),
		faults: o.Faults, open: map[*Call]bool{}, idle: map[string][]*Instance{}, queues: map[string]*laneQueue{},
	}
	w.model = newModel(w)
	chance := func(p *float64) func() bool {
		return func() bool { return w.granting.Load() && w.hit(*p) }
	}
	w.table = memtable.New(memtable.Options{
		Now: func() int64 { return clock.System().UnixNano() },
		LagNS: func() int64 {
			if !w.hit(w.faults.Lag) {
				return 0
			}
			return w.rng.Int64N(int64(w.faults.LagMost))
		},
		ShortPage: chance(&w.faults.ShortPage), EmptyPage: chance(&w.faults.EmptyPage), Stale: chance(&w.faults.Stale),
		Wrote: w.model.wrote,
	})
	for _, name := range w.cfg.LaneNames() {
		w.queues[name] = newLaneQueue(w, name)
	}
	w.seed()
	return w
}

// hit draws on the scheduler.
func (w *World) hit(p float64) bool { return p > 0 && w.rng.Float64() < p }

// between draws a time, with nanoseconds so that no two things coincide.
func (w *World) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rng.Int64N(int64(most-least)+1))
}

func (w *World) now() time.Time { return clock.System() }

func (w *World) at(t time.Time, do func()) {
	w.seq++
	heap.Push(&w.events, event{t, w.seq, do})
}

func (w *World) after(d time.Duration, do func()) { w.at(w.now().Add(d), do) }

// Violate notes a broken promise.
func (w *World) violate(format string, a ...any) {
	if len(w.violations) < 10 {
		w.violations = append(w.violations, fmt.Sprintf("%s ", w.stamp())+fmt.Sprintf(format, a...))
	}
	w.note("VIOLATION "+format, a...)
}

func (w *World) stamp() string { return fmt.Sprintf("%9.3fs", w.now().Sub(w.start).Seconds()) }

func (w *World) note(format string, a ...any) {
	if w.opts.Trace {
		w.trace = append(w.trace, w.stamp()+" "+fmt.Sprintf(format, a...))
	}
}

// arrive hands a call to the scheduler.
func (w *World) arrive(c *Call) {
	w.arrived = append(w.arrived, c)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// settle waits until everybody else is blocked and takes in what came.
func (w *World) settle() {
	synctest.Wait()
	w.mu.Lock()
	came := w.arrived
	w.arrived = nil
	w.mu.Unlock()
	if len(came) > 1 { // what came together has no order of its own
		sort.SliceStable(came, func(i, j int) bool { return came[i].order() < came[j].order() })
	}
	for _, c := range came {
		w.admit(c)
	}
}

// loop runs the world until stop says so, or until a time.
func (w *World) loop(until time.Time, stop func() bool) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.settle()
		if len(w.violations) > 0 || stop() {
			return
		}
		now := w.now()
		next := until
		if len(w.events) > 0 && w.events[0].at.Before(until) {
			next = w.events[0].at
		}
		if next.After(now) {
			timer.Reset(next.Sub(now))
			select {
			case <-w.wake:
			case <-timer.C:
			}
			continue
		}
		if !now.Before(until) {
			return
		}
		e, _ := heap.Pop(&w.events).(event)
		e.do()
	}
}

// end kills everything, so that all goroutines of the bubble return.
func (w *World) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	for _, in := range w.instances {
		w.kill(in)
	}
	for c := range w.open {
		close(c.done)
	}
	for _, c := range w.arrived {
		if c.done != nil {
			close(c.done)
		}
	}
}

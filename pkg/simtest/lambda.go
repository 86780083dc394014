package simtest

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/pkg/aggregate"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/execute"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/redrive"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
)

// The functions.
const (
	Admission  = "admission"
	Worker     = "worker"
	Aggregator = "aggregator"
)

// Instance is one execution environment of a function: a process with its own
// memory, clock and randomness, that handles one invocation at a time.
type Instance struct {
	Name     string
	Function string // Admission, Worker, Aggregator or Redrive
	Lane     string // of a worker

	w    *World
	skew time.Duration
	life context.Context
	die  context.CancelFunc
	inv  *invocation
	hops int // of the messages that it was started with; on the scheduler

	writes   int  // of it that were applied
	sawPause bool // a worker: its lane was paused when it looked last

	rngMu sync.Mutex
	rng   *rand.Rand

	// Under the world's lock.
	dead        bool
	frozenUntil time.Time
	tokens      map[string]bool // lease tokens it has made

	intake    *intake.Service
	execute   *execute.Service
	aggregate *aggregate.Service
	redrive   *redrive.Service
}

type invocation struct {
	in   *Instance
	over bool
	end  func(ok bool) // on the scheduler: it returned, or its instance died
}

func (in *Instance) gone() bool {
	in.w.mu.Lock()
	defer in.w.mu.Unlock()
	return in.dead || in.w.ended
}

func (in *Instance) clock() time.Time { return clock.System().Add(in.skew) }

func (in *Instance) float() float64 {
	in.rngMu.Lock()
	defer in.rngMu.Unlock()
	return in.rng.Float64()
}

func (in *Instance) bits() (b [16]byte) {
	in.rngMu.Lock()
	defer in.rngMu.Unlock()
	for i := range b {
		b[i] = byte(in.rng.Uint32())
	}
	return b
}

func (in *Instance) newID() string {
	b := in.bits()
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return uuid.UUID(b).String()
}

func (in *Instance) newToken() string {
	b := in.bits()
	token := hex.EncodeToString(b[:8])
	in.w.mu.Lock()
	in.tokens[token] = true
	in.w.mu.Unlock()
	return token
}

// acquire takes a warm instance or makes a new one. On the scheduler.
func (w *World) acquire(function, lane string) *Instance {
	pool := function + "/" + lane
	if idle := w.idle[pool]; len(idle) > 0 && !w.opts.Cold && !w.hit(0.1) {
		i := w.rng.IntN(len(idle))
		in := idle[i]
		w.idle[pool] = append(idle[:i:i], idle[i+1:]...)
		return in
	}
	in := &Instance{Name: fmt.Sprintf("%s%s#%d", function, lane, len(w.instances)), Function: function, Lane: lane, w: w,
		rng: rand.New(rand.NewPCG(w.rng.Uint64(), 2)), tokens: map[string]bool{}}
	if s := w.faults.Skew; s > 0 {
		in.skew = w.between(0, 2*s) - s
	}
	in.skew -= w.behind[function]
	in.life, in.die = context.WithCancel(context.Background())
	w.instances = append(w.instances, in)
	t := shell{in}
	switch function {
	case Admission:
		in.intake = intake.New(intake.Deps{Config: w.cfg, Table: t, Queue: t, Clock: in.clock, Tally: tally.New(), Float: in.float, NewID: in.newID, Wake: in.wake})
	case Worker:
		in.execute = execute.New(execute.Deps{Config: w.cfg, Table: t, Mux: w.handlers(in), Clock: in.clock, Tally: tally.New(), Float: in.float, NewID: in.newToken})
	case Aggregator:
		in.aggregate = aggregate.New(aggregate.Deps{Config: w.cfg, Table: t, Queue: t, Clock: in.clock, Tally: tally.New(), Float: in.float, NewID: in.newID})
	case Redrive:
		in.redrive = redrive.New(redrive.Deps{Config: w.cfg, Table: t, Clock: in.clock, Tally: tally.New()})
	}
	return in
}

// invoke runs body in an instance with a time limit; end is called on the
// scheduler when it has returned (ok) or its instance has died. On the scheduler.
func (w *World) invoke(function, lane string, limit time.Duration, body func(ctx context.Context, in *Instance), end func(ok bool)) *Instance {
	if w.down && function != Recovery {
		w.after(time.Millisecond, func() { end(false) })
		return nil
	}
	in := w.acquire(function, lane)
	inv := &invocation{in: in, end: end}
	in.inv, in.hops = inv, 0
	deadline := w.now().Add(limit)
	w.at(deadline, func() {
		if !inv.over {
			w.note("%s: TIMED OUT", in.Name)
			w.model.timeouts++
			w.kill(in)
		}
	})
	ctx, cancel := context.WithDeadline(in.life, deadline)
	go func() {
		defer cancel()
		defer func() {
			if p := recover(); p != nil {
				w.post("panic "+in.Name, func() { w.violate("%s panicked: %v", in.Name, p) })
			}
		}()
		body(skewed{ctx, in.skew}, in)
		w.post("end "+in.Name, func() { w.finish(inv, true) })
	}()
	return in
}

func (w *World) finish(inv *invocation, ok bool) {
	if inv.over {
		return
	}
	inv.over = true
	if in := inv.in; ok && !in.dead {
		pool := in.Function + "/" + in.Lane
		w.idle[pool] = append(w.idle[pool], in)
	}
	inv.end(ok)
}

// kill ends an instance: none of its calls has an effect from here on.
func (w *World) kill(in *Instance) {
	w.mu.Lock()
	was := in.dead
	in.dead = true
	w.mu.Unlock()
	if was {
		return
	}
	in.die()
	pool := in.Function + "/" + in.Lane
	w.idle[pool] = slices.DeleteFunc(w.idle[pool], func(idle *Instance) bool { return idle == in })
	for c := range w.open {
		if c.In == in {
			delete(w.open, c)
			close(c.done)
		}
	}
	if in.inv != nil && !w.ended {
		w.finish(in.inv, false)
	}
}

// post hands something to the scheduler, from any goroutine.
func (w *World) post(name string, do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	w.arrive(&Call{Kind: internal, Name: name, do: func() error { do(); return nil }})
}

// skewed is a context whose deadline is read from the instance's own clock.
type skewed struct {
	context.Context
	by time.Duration
}

func (s skewed) Deadline() (time.Time, bool) {
	t, ok := s.Context.Deadline()
	return t.Add(s.by), ok
}

// wake is the asynchronous invocation of the aggregator by an admission.
func (in *Instance) wake(context.Context) {
	w := in.w
	w.post("wake "+in.Name, func() {
		if !w.hit(w.faults.WakeLost) {
			w.after(w.between(time.Millisecond, 50*time.Millisecond), func() { w.runAggregator(false) })
		}
	})
}

const aggregatorTimeout = 200 * time.Second

func (w *World) runAggregator(insist bool) {
	w.runs++
	w.invoke(Aggregator, "", aggregatorTimeout, func(ctx context.Context, in *Instance) {
		rep, err := in.aggregate.Run(ctx, insist)
		w.post("note", func() { w.note("%s: run ended: %+v %v", in.Name, rep, err) })
	}, func(bool) { w.runs-- })
}

// schedule starts a run each minute, as the schedule does.
func (w *World) schedule(first time.Duration) {
	w.after(first, func() {
		w.runAggregator(true)
		w.schedule(time.Minute + w.between(0, 2*time.Second))
	})
}

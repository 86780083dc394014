package fair

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/pkg/aggregate"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/execute"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// span is one attempt, as the table saw it. Times are ms since the world began.
type span struct {
	t            *task.Task // as it was claimed
	came         int64
	accepted     int64
	began, ended int64 // ended 0: still running
	service      int64 // what its payload asks for
}

func (s *span) delay() int64 { return s.began - s.came }

// world is the services, their table and queues, and a log of what ran.
type world struct {
	cfg   *policy.Config
	off   without
	start time.Time
	table *memtable.Table
	in    *intake.Service
	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup
	lanes map[string]chan struct{} // a token per worker
	mux   *worker.Mux              // for classes that no builtin runs

	rngMu sync.Mutex
	rng   *rand.Rand

	mu       sync.Mutex
	spans    []*span
	running  map[string]*span
	waiting  map[string]int   // per tenant, accepted and not begun
	pending  map[string]*span // the same by id
	accepted int
	wru      float64
	// When a task was last cancelled, and when the world ended.
	lastCancel, sinceEnd int64
	orders               keyOrder
	ready                map[string]int64 // when eligible tasks of the lane work became so
	full                 bool             // the lane work
	fullMS, idleMS       int64            // when it was full last; the longest an eligible task waited beside a free slot
}

// newWorld starts one. It must run in a bubble of testing/synctest.
func newWorld(cfg *policy.Config, seed uint64, off without) *world {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	w := &world{cfg: cfg, off: off, start: clock.System(), rng: rand.New(rand.NewPCG(seed, 7)), lanes: map[string]chan struct{}{}, mux: worker.New(),
		running: map[string]*span{}, waiting: map[string]int{}, pending: map[string]*span{}, ready: map[string]int64{}, orders: keyOrder{live: map[string]map[string]int64{}}}
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.table = memtable.New(memtable.Options{Now: func() int64 { return clock.System().UnixNano() },
		LagNS: func() int64 { return w.int64N(int64(20 * time.Millisecond)) }, Wrote: w.wrote})
	t := view{w, w.table}
	w.in = intake.New(intake.Deps{Config: cfg, Table: t, Queue: w, Clock: clock.System, Tally: tally.New(), Float: w.float, NewID: w.newID})
	for _, lane := range cfg.LaneNames() {
		workers := make(chan struct{}, cfg.Workers(lane))
		for range cap(workers) {
			workers <- struct{}{}
		}
		w.lanes[lane] = workers
	}
	w.wg.Go(func() {
		agg := aggregate.New(aggregate.Deps{Config: cfg, Table: t, Queue: w, Clock: clock.System, Tally: tally.New(), Float: w.float, NewID: w.newID})
		for w.ctx.Err() == nil {
			if _, err := agg.Run(w.ctx, true); err != nil {
				time.Sleep(time.Second)
			}
		}
	})
	return w
}

// end stops everything and waits for it.
func (w *world) end() {
	w.sinceEnd = w.sinceMS()
	w.stop()
	w.wg.Wait()
}

func (w *world) float() float64 {
	w.rngMu.Lock()
	defer w.rngMu.Unlock()
	return w.rng.Float64()
}

func (w *world) exp(mean time.Duration) time.Duration {
	w.rngMu.Lock()
	defer w.rngMu.Unlock()
	return time.Duration(w.rng.ExpFloat64() * float64(mean))
}

// about is d give or take a half, so that tasks do not end in step.
func (w *world) about(d time.Duration) time.Duration {
	return d/2 + time.Duration(w.int64N(int64(d)+1))
}

func (w *world) normal() float64 {
	w.rngMu.Lock()
	defer w.rngMu.Unlock()
	return w.rng.NormFloat64()
}

func (w *world) int64N(n int64) int64 {
	w.rngMu.Lock()
	defer w.rngMu.Unlock()
	return w.rng.Int64N(n)
}

func (w *world) newID() string {
	w.rngMu.Lock()
	defer w.rngMu.Unlock()
	var b uuid.UUID
	for i := range b {
		b[i] = byte(w.rng.Uint32())
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return b.String()
}

// pause is what a call of the store takes.
func (w *world) pause() {
	time.Sleep(time.Millisecond + time.Duration(w.int64N(int64(4*time.Millisecond))))
}

func (w *world) sinceMS() int64 { return clock.System().Sub(w.start).Milliseconds() }

// Send delivers a message to a worker of the lane as soon as one is free.
func (w *world) Send(_ context.Context, lane string, m queue.Outgoing) error {
	w.pause()
	w.deliver(lane, m.Body, 1)
	return nil
}

func (w *world) deliver(lane, body string, receives int) {
	w.wg.Go(func() {
		time.Sleep(5*time.Millisecond + time.Duration(w.int64N(int64(25*time.Millisecond))))
		select {
		case <-w.ctx.Done():
			return
		case <-w.lanes[lane]:
		}
		defer func() { w.lanes[lane] <- struct{}{} }()
		svc := execute.New(execute.Deps{Config: w.cfg, Table: view{w, w.table}, Mux: w.mux, Clock: clock.System, Tally: tally.New(), Float: w.float, NewID: w.newID})
		ctx, cancel := context.WithTimeout(w.ctx, w.cfg.FunctionTimeout(lane).Std())
		defer cancel()
		if failed := svc.Batch(ctx, lane, []execute.Delivery{{MessageID: "m", Body: []byte(body), Receives: receives}}); len(failed) > 0 {
			time.Sleep(time.Second)
			w.deliver(lane, body, receives+1)
		}
	})
}

// wrote logs what begins and ends, and adds up write units.
func (w *world) wrote(a memtable.Applied) {
	w.mu.Lock()
	defer w.mu.Unlock()
	times := 1.0
	if len(a.Effects) > 1 {
		times = 2
	}
	for _, e := range a.Effects {
		w.wru += times*units(max(size(e.Write.Key, e.Before), size(e.Write.Key, e.After))) + indexUnits(e)
		w.idle(e)
		if !strings.HasPrefix(e.Write.Key.PK, "T#") {
			continue
		}
		w.moved(e)
	}
}

func (w *world) moved(e memtable.Effect) {
	state := func(it op.Item) task.State { return task.State(it.Str("st")) }
	from, to := state(e.Before), state(e.After)
	if from == to {
		return
	}
	t, err := taskop.DecodeRow(e.Write.Key, e.After)
	if err != nil {
		return // removed
	}
	now := w.sinceMS()
	if t.OrderingKey != "" {
		w.orders.moved(t)
		if to == task.Quarantined && t.AdmittedMS == 0 {
			w.takeUp(t)
		}
		if from == task.Quarantined && to.Live() {
			w.orders.replayed++
		}
	}
	switch {
	case from == task.None:
		w.waiting[t.Tenant]++
		w.accepted++
		w.pending[t.ID] = &span{t: t, came: t.Since() - w.start.UnixMilli(), accepted: now}
	case to == task.Running:
		s := &span{t: t, came: t.Since() - w.start.UnixMilli(), began: now}
		var p worker.SleepPayload
		if json.Unmarshal([]byte(t.Payload), &p) == nil {
			s.service = p.SleepMS
		}
		w.spans = append(w.spans, s)
		w.running[t.ID] = s
		if t.Attempt == 1 {
			s.accepted = w.pending[t.ID].accepted
			w.waiting[t.Tenant]--
			delete(w.pending, t.ID)
		}
	case from == task.Running:
		if s := w.running[t.ID]; s != nil {
			s.ended = now
			delete(w.running, t.ID)
		}
	case to.Terminal() && t.Attempt == 0:
		w.waiting[t.Tenant]--
		delete(w.pending, t.ID)
	}
}

func size(key op.Key, it op.Item) int {
	if it == nil {
		return 0
	}
	return op.Size(key, it)
}

func units(bytes int) float64 { return float64(max(1, (bytes+1023)/1024)) }

// indexUnits are what a write costs in the indexes: one to enter or leave, two to move.
func indexUnits(e memtable.Effect) (n float64) {
	for _, ix := range op.Indexes() {
		pk, sk := ix.Keys()
		a, b := e.Before.Str(pk)+"\x00"+e.Before.Str(sk), e.After.Str(pk)+"\x00"+e.After.Str(sk)
		if a == b {
			continue
		}
		for _, k := range []string{a, b} {
			if k != "\x00" {
				n++
			}
		}
	}
	return n
}

// refused charges for failed conditions.
func (w *world) refused(err error, times float64) {
	ce := op.FailedCond(err)
	if ce == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range ce.Failed {
		w.wru += times * units(size(op.Key{}, f.Item))
	}
}

// submit submits a task that takes service; "" when it was refused.
func (w *world) submit(tenant, class, priority string, service time.Duration, more ...func(*intake.Submission)) string {
	t, _ := w.cfg.Tenant(tenant)
	sub := intake.Submission{Class: class, Priority: priority, Payload: fmt.Sprintf(`{"sleep_ms":%d}`, service.Milliseconds()), RequestHash: "h"}
	for _, m := range more {
		m(&sub)
	}
	out, err := w.in.Submit(w.ctx, intake.Principal{Tenant: tenant, Tier: t.Tier}, sub)
	if err != nil {
		return ""
	}
	return out.Task.ID
}

// backlog keeps n tasks of a tenant waiting until a time.
func (w *world) backlog(until int64, n int, tenant string, submit func()) {
	w.wg.Go(func() {
		for w.sinceMS() < until && w.ctx.Err() == nil {
			w.mu.Lock()
			have := w.waiting[tenant]
			w.mu.Unlock()
			if have >= n {
				time.Sleep(50 * time.Millisecond)
				continue
			}
			submit()
		}
	})
}

// now and then: submits at random times, on average every so often, until a time.
func (w *world) nowAndThen(until int64, every time.Duration, submit func()) {
	w.wg.Go(func() {
		for {
			time.Sleep(w.exp(every))
			if w.sinceMS() >= until || w.ctx.Err() != nil {
				return
			}
			submit()
		}
	})
}

// sleepUntil waits for a time of the world.
func (w *world) sleepUntil(ms int64) {
	time.Sleep(time.Duration(ms-w.sinceMS()) * time.Millisecond)
}

// log is the spans of which keep says yes.
func (w *world) log(keep func(*span) bool) []*span {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*span
	for _, s := range w.spans {
		if keep(s) {
			out = append(out, s)
		}
	}
	return out
}

// delays are the start delays of first attempts that came between two times, of some
// tenants or of all; of tasks that had not begun when the world ended what they had waited by then.
func (w *world) delays(from, to int64, tenants ...string) (out []int64) {
	in := within(from, to, tenants...)
	for _, s := range w.log(in) {
		out = append(out, s.delay())
	}
	for _, s := range w.pending {
		s.t.Attempt = 1
		if in(s) {
			out = append(out, w.sinceEnd-s.came)
		}
	}
	return out
}

// firstFree is how long after tasks came the first slot of the lane came free that could
// be given to them: after they were accepted, and not given to another of them.
func (w *world) firstFree(lane string, spans []*span) (out []int64) {
	var ends []int64
	for _, s := range w.log(func(s *span) bool { return s.t.AtLane == lane && s.ended > 0 }) {
		ends = append(ends, s.ended)
	}
	slices.Sort(ends)
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b *span) int { return cmp.Compare(a.accepted, b.accepted) })
	next := 0
	for _, s := range spans {
		at, _ := slices.BinarySearch(ends, s.accepted)
		if at = max(at, next); at < len(ends) {
			out, next = append(out, ends[at]-s.came), at+1
		}
	}
	return out
}

// cancel cancels a task that waits.
func (w *world) cancel(tenant, id string) {
	t, _ := w.cfg.Tenant(tenant)
	_, _, _ = w.in.Cancel(w.ctx, intake.Principal{Tenant: tenant, Tier: t.Tier}, id)
	w.mu.Lock()
	w.lastCancel = w.sinceMS()
	w.mu.Unlock()
}

package fair

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
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

// world is a stage on the virtual clock: the services, their table and queues.
type world struct {
	*stage
	cfg   *policy.Config
	off   without
	table *memtable.Table
	in    *intake.Service
	lanes map[string]chan struct{} // a token per worker
	mux   *worker.Mux              // for classes that no builtin runs

	wru            float64
	orders         keyOrder
	ready          map[string]int64 // when eligible tasks of the lane work became so
	full           bool             // the lane work
	fullMS, idleMS int64            // when it was full last; the longest an eligible task waited beside a free slot
}

// newWorld starts one. It must run in a bubble of testing/synctest.
func newWorld(cfg *policy.Config, seed uint64, off without) *world {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	w := &world{stage: newStage(seed), cfg: cfg, off: off, lanes: map[string]chan struct{}{}, mux: worker.New(),
		ready: map[string]int64{}, orders: keyOrder{live: map[string]map[string]int64{}}}
	w.door = w
	w.table = memtable.New(memtable.Options{Now: func() int64 { return clock.System().UnixNano() },
		LagNS: func() int64 { return w.int64N(int64(20 * time.Millisecond)) }, Wrote: w.wrote})
	t := w.view()
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

// view is the table as services see it.
func (w *world) view() op.Table { return view{w, w.off.table(w.table)} }

// end stops everything and waits for it.
func (w *world) end() {
	w.sinceEnd = w.sinceMS()
	w.stop()
	w.wg.Wait()
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
		svc := execute.New(execute.Deps{Config: w.cfg, Table: w.view(), Mux: w.mux, Clock: clock.System, Tally: tally.New(), Float: w.float, NewID: w.newID})
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

// enter submits to the admission itself.
func (w *world) enter(tenant string, s intake.Submission) string {
	out, err := w.in.Submit(w.ctx, w.principal(tenant), s)
	if err != nil {
		return ""
	}
	return out.Task.ID
}

func (w *world) withdraw(tenant, id string) {
	_, _, _ = w.in.Cancel(w.ctx, w.principal(tenant), id)
}

func (w *world) principal(tenant string) intake.Principal {
	t, _ := w.cfg.Tenant(tenant)
	return intake.Principal{Tenant: tenant, Tier: t.Tier}
}

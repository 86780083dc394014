package simtest

import (
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/execute"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

// message is one message of a lane's queue.
type message struct {
	id       string
	body     string
	sent     time.Time
	visible  time.Time
	receives int
	hops     int // functions and queues on the way to it, since something else began it
	gone     bool
	counted  bool // by redrive, on its task's row
}

// laneQueue is a lane's queue with its event source mapping and dead-letter
// queue. It is touched on the scheduler only.
type laneQueue struct {
	w       *World
	lane    string
	n       int
	waiting []*message
	dead    *deadQueue
	running int // invocations

	downUntil time.Time // until when no worker starts
}

func newLaneQueue(w *World, lane string) *laneQueue {
	q := &laneQueue{w: w, lane: lane}
	q.dead = &deadQueue{q: q}
	return q
}

// send is an instance's.
func (q *laneQueue) send(in *Instance, m queue.Outgoing) {
	w := q.w
	w.model.sends(in, q.lane)
	copies := 1
	switch {
	case w.hit(w.faults.MessageLost):
		copies = 0
		w.note("    → the message is lost")
	case w.hit(w.faults.MessageTwice):
		copies = 2
	}
	for range copies {
		q.put(m, in.hops+1)
	}
}

func (q *laneQueue) put(m queue.Outgoing, hops int) {
	w := q.w
	q.n++
	q.waiting = append(q.waiting, &message{id: fmt.Sprintf("%s-%d", q.lane, q.n), body: m.Body, sent: w.now(), visible: w.now().Add(m.Delay), hops: hops})
	q.poll(w.between(time.Millisecond, 200*time.Millisecond))
}

// poll looks for messages after a while.
func (q *laneQueue) poll(after time.Duration) { q.w.after(after, q.dispatch) }

// dispatch starts an invocation for visible messages, in no order.
func (q *laneQueue) dispatch() {
	w := q.w
	if w.down {
		q.poll(time.Second)
		return
	}
	now := w.now()
	left := q.waiting[:0]
	var visible []*message
	for _, m := range q.waiting {
		if m.gone {
			continue
		}
		left = append(left, m)
		if !m.visible.After(now) {
			visible = append(visible, m)
		}
	}
	q.waiting = left
	if len(visible) == 0 || q.running >= w.cfg.Workers(q.lane) {
		return
	}
	lane, _ := w.cfg.Lane(q.lane)
	w.rng.Shuffle(len(visible), func(i, j int) { visible[i], visible[j] = visible[j], visible[i] })
	hidden := w.cfg.VisibilityTimeout(q.lane).Std()
	if w.hit(w.faults.EarlyVisible) {
		hidden = w.between(time.Millisecond, 5*time.Second)
	}
	var batch []*message
	for _, m := range visible {
		if len(batch) == lane.Batch.Size {
			break
		}
		if m.receives++; m.receives > lane.DLQ.MaxReceives {
			q.bury(m)
			continue
		}
		if m.hops > recursionLimit {
			w.note("%s: Lambda takes message %s for a loop", q.lane, m.id)
			w.model.loops++
			q.bury(m)
			continue
		}
		m.visible = now.Add(hidden)
		batch = append(batch, m)
	}
	if len(batch) == 0 {
		return
	}
	w.at(now.Add(hidden+1), q.dispatch)
	if w.hit(w.faults.Throttled) {
		w.note("%s: a batch was throttled", q.lane)
		q.backAgain(batch)
		return
	}
	if !q.failsToStart(batch) {
		q.start(batch)
	}
	if len(visible) > len(batch) {
		q.poll(w.between(time.Millisecond, 20*time.Millisecond))
	}
}

func (q *laneQueue) start(batch []*message) {
	w := q.w
	deliveries := make([]execute.Delivery, len(batch))
	for i, m := range batch {
		deliveries[i] = execute.Delivery{MessageID: m.id, Body: []byte(m.body), Receives: m.receives}
	}
	q.running++
	var failed []string
	hops := 0
	for _, m := range batch {
		hops = max(hops, m.hops)
	}
	in := w.invoke(Worker, q.lane, w.cfg.FunctionTimeout(q.lane).Std(), func(ctx context.Context, in *Instance) {
		w.post("note", func() { w.note("%s: begins with %v", in.Name, ids(batch)) })
		failed = in.execute.Batch(ctx, q.lane, deliveries)
		if w.opts.After != nil {
			w.opts.After(ctx, in, deliveries)
		}
	}, func(ok bool) {
		q.running--
		if ok {
			q.handled(batch, failed)
		}
		q.poll(w.between(time.Millisecond, 20*time.Millisecond))
	})
	if in != nil { // not while the whole machine is down
		in.hops = hops
	}
}

func ids(batch []*message) (out []string) {
	for _, m := range batch {
		out = append(out, m.id)
	}
	return out
}

// handled deletes what did not fail.
func (q *laneQueue) handled(batch []*message, failed []string) {
	again := map[string]bool{}
	for _, id := range failed {
		again[id] = true
	}
	var kept []*message
	for _, m := range batch {
		switch {
		case again[m.id]:
			kept = append(kept, m)
		case !q.w.hit(q.w.faults.DeleteFails):
			m.gone = true
		}
	}
	q.backAgain(kept)
}

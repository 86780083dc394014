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
	visible  time.Time
	receives int
	gone     bool
}

// laneQueue is a lane's queue with its event source mapping and dead-letter
// queue. It is touched on the scheduler only.
type laneQueue struct {
	w       *World
	lane    string
	n       int
	waiting []*message
	dead    []*message
	running int // invocations
}

func newLaneQueue(w *World, lane string) *laneQueue { return &laneQueue{w: w, lane: lane} }

func (q *laneQueue) send(m queue.Outgoing) {
	w := q.w
	copies := 1
	switch {
	case w.hit(w.faults.MessageLost):
		copies = 0
		w.note("    → the message is lost")
	case w.hit(w.faults.MessageTwice):
		copies = 2
	}
	for range copies {
		q.n++
		q.waiting = append(q.waiting, &message{id: fmt.Sprintf("%s-%d", q.lane, q.n), body: m.Body, visible: w.now().Add(m.Delay)})
		q.poll(w.between(time.Millisecond, 200*time.Millisecond))
	}
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
			m.gone = true
			q.dead = append(q.dead, m)
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
		return
	}
	q.start(batch)
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
	w.invoke(Worker, q.lane, w.cfg.FunctionTimeout(q.lane).Std(), func(ctx context.Context, in *Instance) {
		w.post("note", func() { w.note("%s: begins with %v", in.Name, ids(batch)) })
		failed = in.execute.Batch(ctx, q.lane, deliveries)
	}, func(ok bool) {
		q.running--
		if ok {
			q.handled(batch, failed)
		}
		q.poll(w.between(time.Millisecond, 20*time.Millisecond))
	})
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
	for _, m := range batch {
		if !again[m.id] && !q.w.hit(q.w.faults.DeleteFails) {
			m.gone = true
		}
	}
}

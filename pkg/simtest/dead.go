package simtest

import (
	"context"
	"fmt"
	"strconv"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"

	"github.com/lanekeeper/lanekeeper/pkg/queue"
	"github.com/lanekeeper/lanekeeper/pkg/sqsevent"
)

// Redrive is the function on the dead-letter queues.
const Redrive = "redrive"

// Its mapping and function, as the deployment makes them.
const (
	redriveTimeout    = time.Minute
	redriveVisibility = 6 * redriveTimeout
	redriveBatch      = 10
	redriveAtOnce     = 2
)

// recursionLimit is how many SQS→Lambda→SQS hops Lambda lets a chain make
// before it takes the message for a loop and puts it into the dead-letter queue.
const recursionLimit = 16

// deadQueue is a lane's dead-letter queue with the mapping of the redrive
// function. It is touched on the scheduler only.
type deadQueue struct {
	q       *laneQueue
	waiting []*message
	ever    []*message // all that ever came here
	running int        // invocations
}

// bury moves a message to the dead-letter queue; its id and the time that it
// was sent stay.
func (q *laneQueue) bury(m *message) {
	w := q.w
	m.gone = true
	letter := &message{id: m.id, body: m.body, sent: m.sent, visible: w.now(), hops: m.hops + 1}
	w.note("%s: message %s is dead", q.lane, m.id)
	q.dead.waiting = append(q.dead.waiting, letter)
	q.dead.ever = append(q.dead.ever, letter)
	w.model.died(letter)
	q.dead.poll(w.between(time.Millisecond, time.Second))
}

func (d *deadQueue) poll(after time.Duration) { d.q.w.after(after, d.dispatch) }

// dispatch starts an invocation of the redrive function for letters that are
// visible, in no order.
func (d *deadQueue) dispatch() {
	w, now := d.q.w, d.q.w.now()
	left := d.waiting[:0]
	var batch []*message
	for _, m := range d.waiting {
		if m.gone {
			continue
		}
		left = append(left, m)
		if !m.visible.After(now) {
			batch = append(batch, m)
		}
	}
	d.waiting = left
	if len(batch) == 0 || d.running >= redriveAtOnce {
		return
	}
	w.rng.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
	if len(batch) > redriveBatch {
		batch = batch[:redriveBatch]
		d.poll(w.between(time.Millisecond, 20*time.Millisecond))
	}
	hidden := redriveVisibility
	if w.hit(w.faults.EarlyVisible) {
		hidden = w.between(time.Millisecond, 5*time.Second)
	}
	for _, m := range batch {
		m.visible = now.Add(hidden)
	}
	w.at(now.Add(hidden+1), d.dispatch)
	if w.hit(w.faults.Throttled) {
		w.note("%s: a batch of dead letters was throttled", d.q.lane)
		d.backAgain(batch)
		return
	}
	d.start(batch)
}

func (d *deadQueue) start(batch []*message) {
	w := d.q.w
	event := lambdaevents.SQSEvent{}
	for _, m := range batch {
		event.Records = append(event.Records, lambdaevents.SQSMessage{MessageId: m.id, Body: m.body, EventSourceARN: "arn:aws:sqs:sim:0:sim-" + d.q.lane + "-dlq",
			Attributes: map[string]string{"SentTimestamp": strconv.FormatInt(m.sent.UnixMilli(), 10)}})
	}
	d.running++
	hops := 0
	for _, m := range batch {
		hops = max(hops, m.hops)
	}
	var answer lambdaevents.SQSEventResponse
	in := w.invoke(Redrive, "", redriveTimeout, func(ctx context.Context, in *Instance) {
		w.post("note", func() { w.note("%s: begins with %v of %s", in.Name, ids(batch), d.q.lane) })
		var err error
		if answer, err = sqsevent.NewDead(in.redrive).Handle(ctx, event); err != nil {
			w.post("error of "+in.Name, func() { w.violate("%s failed as a whole: %v", in.Name, err) })
		}
	}, func(ok bool) {
		d.running--
		if ok {
			d.handled(batch, answer)
		}
		d.poll(w.between(time.Millisecond, 20*time.Millisecond))
	})
	if in != nil { // not while the whole machine is down
		in.hops = hops
	}
}

// handled deletes what did not fail.
func (d *deadQueue) handled(batch []*message, answer lambdaevents.SQSEventResponse) {
	w := d.q.w
	again := map[string]bool{}
	for _, f := range answer.BatchItemFailures {
		again[f.ItemIdentifier] = true
	}
	var failed []*message
	for _, m := range batch {
		switch {
		case again[m.id]:
			failed = append(failed, m)
			delete(again, m.id)
		case !w.hit(w.faults.DeleteFails):
			m.gone = true
		}
	}
	if len(again) > 0 {
		w.violate("redrive names messages as failed that are not in its batch: %v", again)
	}
	d.backAgain(failed)
}

// backAgain makes letters visible before their time, so that a history need not
// last for hours.
func (d *deadQueue) backAgain(batch []*message) {
	for _, m := range batch {
		m.visible = d.q.w.now().Add(d.q.w.between(time.Second, 20*time.Second))
		d.q.w.at(m.visible.Add(1), d.dispatch)
	}
}

// backAgain is the same for a lane's queue. Five receives take no less than
// 0.8 s, which is more than clocks are apart.
func (q *laneQueue) backAgain(batch []*message) {
	for _, m := range batch {
		m.visible = q.w.now().Add(q.w.between(200*time.Millisecond, 5*time.Second))
		q.w.at(m.visible.Add(1), q.dispatch)
	}
}

// failsToStart plays a worker that does not come up: its batch was received,
// took a worker's place for a while and ran no handler.
func (q *laneQueue) failsToStart(batch []*message) bool {
	w := q.w
	if !q.downUntil.After(w.now()) && !w.hit(w.faults.InitFails) {
		return false
	}
	w.note("%s: a worker failed to start for %v", q.lane, ids(batch))
	q.running++
	w.after(w.between(10*time.Millisecond, 500*time.Millisecond), func() {
		q.running--
		q.backAgain(batch)
		q.poll(w.between(time.Millisecond, 20*time.Millisecond))
	})
	return true
}

// misfortunes plays, as long as faults last, what happens to queues from
// outside: workers that cannot start for a while, bodies that are not ours, and
// an operator who moves dead letters back by hand.
func (w *World) misfortunes() {
	w.after(w.between(time.Second, 9*time.Second), func() {
		if w.faults == (Faults{}) {
			return
		}
		for _, lane := range w.cfg.LaneNames() {
			q := w.queues[lane]
			if w.hit(w.faults.Outage) {
				q.down(w.between(5*time.Second, 60*time.Second))
			}
			if w.hit(w.faults.Garbage) {
				q.inject(garbage[w.rng.IntN(len(garbage))])
			}
			if w.hit(w.faults.Moved) {
				q.moveBack()
			}
		}
		w.misfortunes()
	})
}

// down lets no worker of the lane start for a time.
func (q *laneQueue) down(d time.Duration) {
	q.w.note("%s: no worker starts for %v", q.lane, d)
	q.downUntil = q.w.now().Add(d)
}

// moveBack is an operator's native redrive: what lies in the dead-letter queue
// gets a new id and a new time. Some of it is old, since others may have
// copies; some goes to a queue that it is not from.
func (q *laneQueue) moveBack() {
	w := q.w
	for _, m := range append([]*message(nil), q.dead.ever...) {
		if m.gone && !w.hit(0.3) {
			continue
		}
		m.gone = true
		to := q
		if w.hit(0.1) {
			to = w.queues[w.cfg.LaneNames()[w.rng.IntN(len(w.cfg.LaneNames()))]]
		}
		w.note("%s: an operator moves %s to %s", q.lane, m.id, to.lane)
		to.put(queue.Outgoing{Body: m.body}, 0)
	}
}

// inject puts a body that is no message of this build into the queue.
func (q *laneQueue) inject(body string) {
	q.w.note("%s: somebody sends %.40q", q.lane, body)
	q.w.model.garbage[body] = true
	q.put(queue.Outgoing{Body: body}, 0)
}

// deadLeft says what lies in dead-letter queues, and which unreadable messages
// have not come there yet.
func (w *World) deadLeft() (out []string) {
	for _, lane := range w.cfg.LaneNames() {
		q := w.queues[lane]
		letters := 0
		for _, m := range q.dead.waiting {
			if !m.gone {
				letters++
			}
		}
		if letters > 0 || q.dead.running > 0 {
			out = append(out, fmt.Sprintf("dead letters of %s: %d, %d invocations", lane, letters, q.dead.running))
		}
		for _, m := range q.waiting {
			if !m.gone && w.model.garbage[m.body] {
				out = append(out, fmt.Sprintf("queue %s: unreadable message %s", lane, m.id))
			}
		}
	}
	return out
}

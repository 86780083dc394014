package rig

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/lanekeeper/lanekeeper/pkg/execute"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

// Queue keeps what was sent, per lane, until it is taken.
type Queue struct {
	mu    sync.Mutex
	sent  int
	lanes map[string][]execute.Delivery
	fault func(n int) Fault
}

// NewQueue makes an empty queue.
func NewQueue() *Queue { return &Queue{lanes: map[string][]execute.Delivery{}} }

// Fail sets what decides about the n-th send from now on; nil: all go well.
func (q *Queue) Fail(decide func(n int) Fault) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent, q.fault = 0, decide
}

// Send keeps a message.
func (q *Queue) Send(_ context.Context, lane string, m queue.Outgoing) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent++
	fault := None
	if q.fault != nil {
		fault = q.fault(q.sent)
	}
	if fault == None || fault == Applied {
		q.lanes[lane] = append(q.lanes[lane], execute.Delivery{MessageID: strconv.Itoa(q.sent), Body: []byte(m.Body), Receives: 1})
	}
	if fault != None {
		return errors.New("rig: the queue failed: " + fault.String())
	}
	return nil
}

// Sent is how many sends there were since the last Fail.
func (q *Queue) Sent() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sent
}

// Len is how many messages a lane's queue holds.
func (q *Queue) Len(lane string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lanes[lane])
}

// Take takes the oldest message.
func (q *Queue) Take(lane string) (execute.Delivery, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.lanes[lane]
	if len(list) == 0 {
		return execute.Delivery{}, false
	}
	q.lanes[lane] = list[1:]
	return list[0], true
}

// Return puts a message back that was taken.
func (q *Queue) Return(lane string, d execute.Delivery) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d.Receives++
	q.lanes[lane] = append(q.lanes[lane], d)
}

// Purge loses all messages of a lane.
func (q *Queue) Purge(lane string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lanes[lane] = nil
}

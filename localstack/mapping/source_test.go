package mapping

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

// fakeQueue is a queue in memory with visibility and receive counts. Inside a
// synctest bubble its clock is the bubble's.
type fakeQueue struct {
	mu       sync.Mutex
	messages []*fakeMessage
	changed  chan struct{} // closed and replaced at each change
	polls    int
	maxAsked int
	failNext int // receives that fail before one succeeds
	deleted  []string
}

type fakeMessage struct {
	queue.Message
	visibleAt time.Time
}

func newFakeQueue(ids ...string) *fakeQueue {
	q := &fakeQueue{changed: make(chan struct{})}
	q.send(ids...)
	return q
}

func (q *fakeQueue) send(ids ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range ids {
		q.messages = append(q.messages, &fakeMessage{Message: queue.Message{ID: id, Body: "body of " + id, SentAt: time.Now()}})
	}
	q.wake()
}

func (q *fakeQueue) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *fakeQueue) Receive(ctx context.Context, _ string, most int, wait, visibility time.Duration) ([]queue.Message, error) {
	end := time.Now().Add(wait)
	for {
		q.mu.Lock()
		q.polls++
		q.maxAsked = max(q.maxAsked, most)
		if q.failNext > 0 {
			q.failNext--
			q.mu.Unlock()
			return nil, errors.New("queue is down")
		}
		now, next := time.Now(), end
		var out []queue.Message
		for _, m := range q.messages {
			switch {
			case m.visibleAt.After(now):
				if m.visibleAt.Before(next) {
					next = m.visibleAt
				}
			case len(out) < most:
				m.Receives++
				if m.Receives == 1 {
					m.FirstReceived = now
				}
				m.ReceiptHandle = fmt.Sprint(m.ID, "/", m.Receives)
				m.visibleAt = now.Add(visibility)
				out = append(out, m.Message)
			}
		}
		changed := q.changed
		q.mu.Unlock()
		if len(out) > 0 || !now.Before(end) {
			return out, nil
		}
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		timer.Stop()
	}
}

func (q *fakeQueue) Delete(ctx context.Context, _, handle string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, m := range q.messages {
		if m.ReceiptHandle == handle {
			q.messages = append(q.messages[:i], q.messages[i+1:]...)
			q.deleted = append(q.deleted, m.ID)
			break
		}
	}
	return ctx.Err()
}

func (q *fakeQueue) ChangeVisibility(ctx context.Context, _, handle string, d time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.messages {
		if m.ReceiptHandle == handle {
			m.visibleAt = time.Now().Add(d)
		}
	}
	q.wake()
	return ctx.Err()
}

// left returns the messages that were not deleted, as id/receives.
func (q *fakeQueue) left() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := []string{}
	for _, m := range q.messages {
		out = append(out, fmt.Sprint(m.ID, "/", m.Receives))
	}
	return out
}

func (q *fakeQueue) polled() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.polls
}

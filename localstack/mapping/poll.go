package mapping

import (
	"context"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

// poll forms one batch after another, each in a slot of its own, until the
// polling ends.
func (m *Mapping) poll() {
	for {
		select {
		case m.slots <- struct{}{}:
		case <-m.polling.Done():
			return
		}
		batch := m.gather()
		if m.polling.Err() != nil {
			m.giveBack(batch)
			return
		}
		m.done.Go(func() {
			defer func() { <-m.slots }()
			m.process(batch)
		})
	}
}

// gather forms a batch: it waits for a first message, then for the window's
// length for more. It returns early, perhaps empty, when the polling ends.
func (m *Mapping) gather() []queue.Message {
	var batch []queue.Message
	for failures := 0; len(batch) == 0 && m.polling.Err() == nil; {
		var err error
		if batch, err = m.receive(m.cfg.BatchSize, longPoll); err != nil {
			failures++
			m.pause(failures)
		} else {
			failures = 0
		}
	}
	if m.cfg.Window == 0 {
		return batch
	}
	for end := m.cfg.Now().Add(m.cfg.Window); len(batch) < m.cfg.BatchSize && m.polling.Err() == nil; {
		left := end.Sub(m.cfg.Now())
		if left < time.Millisecond { // queues count in milliseconds
			break
		}
		more, err := m.receive(m.cfg.BatchSize-len(batch), min(left, longPoll))
		batch = append(batch, more...)
		if err != nil {
			break // go on with what there is
		}
	}
	return batch
}

func (m *Mapping) receive(n int, wait time.Duration) ([]queue.Message, error) {
	messages, err := m.cfg.Source.Receive(m.polling, m.cfg.Queue, n, wait, m.cfg.Visibility)
	m.count(func(s *Stats) { s.Received += int64(len(messages)) })
	if err != nil && m.polling.Err() == nil {
		m.count(func(s *Stats) { s.Faults++ })
		m.cfg.Log.Error("receive failed", "error", err)
	}
	return messages, err
}

// pause backs off after failed receives: 100 ms doubled up to 6.4 s.
func (m *Mapping) pause(failures int) {
	timer := time.NewTimer(100 * time.Millisecond << min(failures-1, 6))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.polling.Done():
	}
}

// cleanUp is the time that deletes and the like may take; they happen also while
// the mapping is being stopped.
const cleanUp = 10 * time.Second

func (m *Mapping) giveBack(batch []queue.Message) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.life), cleanUp)
	defer cancel()
	for _, msg := range batch {
		if err := m.cfg.Source.ChangeVisibility(ctx, m.cfg.Queue, msg.ReceiptHandle, 0); err != nil {
			m.count(func(s *Stats) { s.Faults++ })
			m.cfg.Log.Error("message not given back; it returns when its visibility ends", "message_id", msg.ID, "error", err)
			continue
		}
		m.count(func(s *Stats) { s.Returned++ })
	}
}

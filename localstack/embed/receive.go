package embed

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

// sweepEveryMS is how often expired messages of a queue are removed at most.
const sweepEveryMS = 60_000

// Receive takes up to most (1 to queue.MaxReceive) messages and hides them for
// visibility (0: the queue's). When none is visible it waits up to wait (at most
// queue.MaxWait) and returns as soon as one is: sent, or its delay or visibility
// over. No message within wait is no error; the end of ctx is.
func (q *Queues) Receive(ctx context.Context, name string, most int, wait, visibility time.Duration) ([]queue.Message, error) {
	f, err := q.find(name)
	if err != nil {
		return nil, fmt.Errorf("embed: receive: %w", err)
	}
	if most < 1 || most > queue.MaxReceive || wait < 0 || wait > queue.MaxWait || visibility < 0 || visibility > queue.MaxVisibility {
		return nil, fmt.Errorf("embed: receive from %q: %w: most %d, wait %s, visibility %s", name, queue.ErrInvalid, most, wait, visibility)
	}
	if visibility == 0 {
		visibility = f.config().Visibility
	}
	messages, err := q.poll(ctx, f, most, wait, visibility)
	if err != nil {
		return nil, fmt.Errorf("embed: receive from %q: %w", name, err)
	}
	return messages, nil
}

func (q *Queues) poll(ctx context.Context, f *fifo, most int, wait, visibility time.Duration) ([]queue.Message, error) {
	deadline := q.db.nowMS() + wait.Milliseconds()
	leads := false
	defer func() {
		if leads {
			<-f.poll
		}
	}()
	for first := true; ; first = false {
		wake := f.wakeChan()
		next := int64(math.MaxInt64)
		if leads || first {
			messages, at, err := q.take(ctx, f, most, visibility)
			if err != nil || len(messages) > 0 {
				return messages, err
			}
			next = at
		}
		now := q.db.nowMS()
		if now >= deadline {
			return nil, nil
		}
		if q.polling != nil && leads {
			q.polling()
		}
		lead := f.poll
		if leads {
			lead = nil
		}
		timer := time.NewTimer(duration(max(1, min(deadline, next)-now)))
		select {
		case <-wake:
		case <-timer.C:
		case lead <- struct{}{}:
			leads = true
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-q.db.stop:
			timer.Stop()
			return nil, ErrClosed
		}
		timer.Stop()
	}
}

// take receives what is visible now. When that is nothing it returns when the
// next message will be (ms), math.MaxInt64 if none is there.
func (q *Queues) take(ctx context.Context, f *fifo, most int, visibility time.Duration) ([]queue.Message, int64, error) {
	// Asked outside the writer first: an idle queue's polls cost no commit.
	now := q.db.nowMS()
	var next int64
	switch err := q.nextVisible.QueryRowContext(ctx, f.id, f.cutoff(now)).Scan(&next); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, math.MaxInt64, nil
	case err != nil:
		return nil, 0, err
	case next > now:
		return nil, next, nil
	}
	cfg := f.config()
	var dead *fifo
	if cfg.MaxReceives > 0 {
		dead, _ = q.find(cfg.DeadLetter) // Create saw it; queues are never removed
	}
	var messages []queue.Message
	err := q.db.do(ctx, func(w *writer) error {
		r := receiving{w: w, q: q, f: f, cfg: cfg, dead: dead, now: q.db.nowMS(), visibility: visibility}
		err := r.run(most)
		messages = r.messages
		return err
	})
	return messages, 0, err
}

// receiving is one receive within a transaction.
type receiving struct {
	w          *writer
	q          *Queues
	f, dead    *fifo
	cfg        queue.Config
	now        int64
	visibility time.Duration
	messages   []queue.Message
}

type stored struct {
	id, sentAt, receives, first int64
	mid                         string
	body, attrs                 []byte
}

func (r *receiving) run(most int) error {
	cutoff := r.now - r.cfg.Retention.Milliseconds()
	if err := r.sweep(cutoff); err != nil {
		return err
	}
	for len(r.messages) < most {
		want, shuffle := most-len(r.messages), r.q.draw.hit(r.q.faults.Unordered)
		fetch := want
		if shuffle {
			fetch *= 10
		}
		found, err := r.find(cutoff, fetch)
		if err != nil {
			return err
		}
		if shuffle {
			for i := len(found) - 1; i > 0; i-- {
				j := r.q.draw.intN(i + 1)
				found[i], found[j] = found[j], found[i]
			}
		}
		dead := 0
		for _, m := range found[:min(want, len(found))] {
			if r.dead != nil && m.receives >= int64(r.cfg.MaxReceives) {
				dead++
				err = r.bury(m)
			} else {
				err = r.deliver(m)
			}
			if err != nil {
				return err
			}
		}
		if dead == 0 {
			return nil
		}
	}
	return nil
}

func (r *receiving) find(cutoff int64, limit int) ([]stored, error) {
	rows, err := r.w.findMessage.Query(r.f.id, r.now, cutoff, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []stored
	for rows.Next() {
		var m stored
		if err := rows.Scan(&m.id, &m.mid, &m.sentAt, &m.receives, &m.first, &m.body, &m.attrs); err != nil {
			return nil, err
		}
		found = append(found, m)
	}
	return found, rows.Err()
}

func (r *receiving) deliver(m stored) error {
	m.receives++
	if m.first == 0 {
		m.first = r.now
	}
	until := r.now + r.visibility.Milliseconds()
	if r.q.draw.hit(r.q.faults.Duplicates) {
		until = r.now
		r.w.after = append(r.w.after, r.f.signal)
	}
	if _, err := r.w.setMessage.Exec(until, m.receives, m.first, m.id); err != nil {
		return err
	}
	var attrs map[string]string
	if err := json.Unmarshal(m.attrs, &attrs); err != nil {
		return fmt.Errorf("message %s: attributes: %w", m.mid, err)
	}
	r.messages = append(r.messages, queue.Message{
		ID: m.mid, ReceiptHandle: handle{r.f.id, m.id, m.receives, m.mid}.encode(),
		Body: string(m.body), Attributes: attrs, Receives: int(m.receives),
		SentAt: time.UnixMilli(m.sentAt), FirstReceived: time.UnixMilli(m.first),
	})
	return nil
}

// bury moves a message to the dead-letter queue; it keeps its id, its counts and
// the time it was first sent, from which its retention there runs.
func (r *receiving) bury(m stored) error {
	r.w.after = append(r.w.after, r.dead.signal)
	_, err := r.w.moveMessage.Exec(r.dead.id, r.now, m.id)
	return err
}

// sweep removes expired messages; those not yet swept are never found anyway.
func (r *receiving) sweep(cutoff int64) error {
	r.f.mu.Lock()
	due := r.now-r.f.swept >= sweepEveryMS
	if due {
		r.f.swept = r.now
	}
	r.f.mu.Unlock()
	if !due {
		return nil
	}
	_, err := r.w.sweep.Exec(r.f.id, cutoff)
	return err
}

// handle is what a receipt handle says: the delivery of a message by a queue.
type handle struct {
	queue, id, receives int64
	mid                 string
}

func (h handle) encode() string {
	var out []byte
	for _, n := range []int64{h.queue, h.id, h.receives} {
		out = binary.AppendVarint(out, n)
	}
	return base64.RawURLEncoding.EncodeToString(appendString(out, h.mid))
}

func (f *fifo) decodeHandle(text string) (handle, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return handle{}, fmt.Errorf("%w: %w", queue.ErrBadHandle, err)
	}
	d := decoder{rest: raw}
	h := handle{d.varint(), d.varint(), d.varint(), d.string()}
	if d.err != nil || len(d.rest) > 0 || h.queue != f.id {
		return handle{}, queue.ErrBadHandle
	}
	return h, nil
}

// Delete removes a message. With the handle of an earlier delivery than the
// last it succeeds without deleting, as it may in SQS.
func (q *Queues) Delete(ctx context.Context, name, receipt string) error {
	f, err := q.find(name)
	if err != nil {
		return fmt.Errorf("embed: delete: %w", err)
	}
	h, err := f.decodeHandle(receipt)
	if err != nil {
		return fmt.Errorf("embed: delete from %q: %w", name, err)
	}
	err = q.db.do(ctx, func(w *writer) error {
		_, err := w.delMessage.Exec(h.id, h.queue, h.mid, h.receives)
		return err
	})
	if err != nil {
		return fmt.Errorf("embed: delete from %q: %w", name, err)
	}
	return nil
}

// ChangeVisibility hides an in-flight message for d (0 to queue.MaxVisibility)
// from now; 0 makes it visible at once. queue.ErrNotInFlight when it was deleted,
// is visible again or was delivered again since.
func (q *Queues) ChangeVisibility(ctx context.Context, name, receipt string, d time.Duration) error {
	f, err := q.find(name)
	if err != nil {
		return fmt.Errorf("embed: change visibility: %w", err)
	}
	h, err := f.decodeHandle(receipt)
	if err == nil && (d < 0 || d > queue.MaxVisibility) {
		err = fmt.Errorf("%w: visibility %s", queue.ErrInvalid, d)
	}
	if err != nil {
		return fmt.Errorf("embed: change visibility in %q: %w", name, err)
	}
	var changed int64
	err = q.db.do(ctx, func(w *writer) error {
		now := q.db.nowMS()
		w.after = append(w.after, f.signal)
		res, err := w.delayTo.Exec(now+d.Milliseconds(), h.id, h.queue, h.mid, h.receives, now)
		if err != nil {
			return err
		}
		changed, err = res.RowsAffected()
		return err
	})
	if err == nil && changed == 0 {
		err = queue.ErrNotInFlight
	}
	if err != nil {
		return fmt.Errorf("embed: change visibility in %q: %w", name, err)
	}
	return nil
}

// StartMove moves the visible messages of a dead-letter queue to another queue,
// as new messages with new ids and a new first sent time, and returns how many.
func (q *Queues) StartMove(ctx context.Context, from, to string) (int, error) {
	source, err := q.find(from)
	target, err2 := q.find(to)
	if err := errors.Join(err, err2); err != nil {
		return 0, fmt.Errorf("embed: move: %w", err)
	}
	if source == target {
		return 0, fmt.Errorf("embed: move: %w: from %q to itself", queue.ErrInvalid, from)
	}
	total := 0
	for {
		// In portions, so that other calls are served in between.
		moved := 0
		err := q.db.do(ctx, func(w *writer) error {
			moved = 0
			now := q.db.nowMS()
			r := receiving{w: w, f: source}
			r.now = now
			found, err := r.find(now-source.config().Retention.Milliseconds(), 100)
			if err != nil {
				return err
			}
			w.after = append(w.after, target.signal)
			for _, m := range found {
				id, err := q.newID()
				if err != nil {
					return err
				}
				if _, err := w.redrive.Exec(target.id, id, now, now, m.id); err != nil {
					return err
				}
			}
			moved = len(found)
			return nil
		})
		if err != nil {
			return total, fmt.Errorf("embed: move from %q to %q: %w", from, to, err)
		}
		if total += moved; moved == 0 {
			return total, nil
		}
	}
}

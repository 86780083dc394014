package embed

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

// QueueConfig is how a queue treats its messages.
type QueueConfig = queue.Config

// QueueFaults make the queues behave as SQS may. The zero value has none.
type QueueFaults struct {
	// Seed decides the draws below.
	Seed uint64
	// Duplicates is the share (0 to below 1) of deliveries after which the
	// message stays visible, so that it is delivered again at once.
	Duplicates float64
	// Unordered is the share (0 to 1) of receives that take messages in a
	// shuffled order.
	Unordered float64
}

// Queues are the embedded queues. A queue's name is its lane's name.
type Queues struct {
	db     *DB
	faults QueueFaults
	draw   *draw

	mu     sync.RWMutex
	byName map[string]*fifo

	randMu sync.Mutex

	counts, oldest, nextVisible *sql.Stmt

	// polling, if set by a test of this package, is called whenever a long poll
	// found nothing and is about to sleep.
	polling func()
}

var _ queue.Sender = (*Queues)(nil)

// fifo is a queue's state in memory.
type fifo struct {
	id   int64
	name string

	mu    sync.Mutex
	cfg   queue.Config
	wake  chan struct{} // closed and replaced when a message may have become visible
	swept int64         // ms, when expired messages were last removed

	// poll is held by the one long poll that watches the queue; the others
	// queue up behind it, so that a message wakes one reader and not all.
	poll chan struct{}
}

const (
	queryNextVisible = "SELECT visible_at FROM message WHERE queue = ? AND sent_at > ? ORDER BY visible_at LIMIT 1"
	queryFindMessage = `SELECT id, mid, sent_at, receives, first_received, body, attrs FROM message
		WHERE queue = ? AND visible_at <= ? AND sent_at > ? ORDER BY visible_at, id LIMIT ?`
)

func newQueues(db *DB) (*Queues, error) {
	q := &Queues{db: db, faults: db.opts.QueueFaults, draw: newDraw(db.opts.QueueFaults.Seed), byName: map[string]*fifo{}}
	if err := prepare(db.reads, map[**sql.Stmt]string{
		&q.counts: `SELECT COALESCE(SUM(visible_at <= ?2), 0), COALESCE(SUM(visible_at > ?2 AND delayed = 0), 0),
			COALESCE(SUM(visible_at > ?2 AND delayed = 1), 0) FROM message WHERE queue = ?1 AND sent_at > ?3`,
		&q.oldest:      "SELECT MIN(sent_at) FROM message WHERE queue = ? AND sent_at > ?",
		&q.nextVisible: queryNextVisible,
	}); err != nil {
		return nil, err
	}
	rows, err := db.reads.Query("SELECT id, name, visibility_ms, max_receives, dead_letter, retention_ms, delay_ms FROM queue")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		f := newFifo()
		var visibility, retention, delay int64
		if err := rows.Scan(&f.id, &f.name, &visibility, &f.cfg.MaxReceives, &f.cfg.DeadLetter, &retention, &delay); err != nil {
			return nil, err
		}
		f.cfg.Visibility, f.cfg.Retention, f.cfg.Delay = duration(visibility), duration(retention), duration(delay)
		q.byName[f.name] = f
	}
	return q, rows.Err()
}

func newFifo() *fifo {
	return &fifo{wake: make(chan struct{}), poll: make(chan struct{}, 1)}
}

func duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// Create makes a queue or, when there is one of that name, gives it the
// configuration; messages stay. The dead-letter queue must exist.
func (q *Queues) Create(ctx context.Context, name string, cfg QueueConfig) error {
	cfg = cfg.WithDefaults()
	if name == "" {
		return fmt.Errorf("%w: a queue without a name", queue.ErrInvalid)
	}
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("embed: create %q: %w", name, err)
	}
	if cfg.DeadLetter != "" {
		if _, err := q.find(cfg.DeadLetter); err != nil {
			return fmt.Errorf("embed: create %q: dead-letter queue: %w", name, err)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var id int64
	err := q.db.do(ctx, func(w *writer) error {
		return w.putQueue.QueryRow(name, cfg.Visibility.Milliseconds(), cfg.MaxReceives, cfg.DeadLetter,
			cfg.Retention.Milliseconds(), cfg.Delay.Milliseconds()).Scan(&id)
	})
	if err != nil {
		return fmt.Errorf("embed: create %q: %w", name, err)
	}
	f := q.byName[name]
	if f == nil {
		f = newFifo()
		f.id, f.name = id, name
		q.byName[name] = f
	}
	f.mu.Lock()
	f.cfg = cfg
	f.mu.Unlock()
	return nil
}

func (q *Queues) find(name string) (*fifo, error) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	f := q.byName[name]
	if f == nil {
		return nil, fmt.Errorf("%w: %q", queue.ErrNoQueue, name)
	}
	return f, nil
}

func (f *fifo) config() queue.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cfg
}

func (f *fifo) wakeChan() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wake
}

func (f *fifo) signal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.wake)
	f.wake = make(chan struct{})
}

func (q *Queues) wakeAll() {
	q.mu.RLock()
	defer q.mu.RUnlock()
	for _, f := range q.byName {
		f.signal()
	}
}

// Send sends a message.
func (q *Queues) Send(ctx context.Context, name string, m queue.Outgoing) error {
	f, err := q.find(name)
	if err != nil {
		return fmt.Errorf("embed: send: %w", err)
	}
	if err := m.Validate(); err != nil {
		return fmt.Errorf("embed: send to %q: %w", name, err)
	}
	id, err := q.newID()
	if err != nil {
		return fmt.Errorf("embed: send to %q: %w", name, err)
	}
	attrs, err := json.Marshal(m.Attributes)
	if err != nil {
		return fmt.Errorf("embed: send to %q: %w", name, err)
	}
	delay := m.Delay
	if delay == 0 {
		delay = f.config().Delay
	}
	err = q.db.do(ctx, func(w *writer) error {
		now := q.db.nowMS()
		w.after = append(w.after, f.signal)
		_, err := w.insMessage.Exec(f.id, id, now+delay.Milliseconds(), delay > 0, now, []byte(m.Body), attrs)
		return err
	})
	if err != nil {
		return fmt.Errorf("embed: send to %q: %w", name, err)
	}
	return nil
}

func (q *Queues) newID() (string, error) {
	q.randMu.Lock()
	defer q.randMu.Unlock()
	id, err := uuid.NewRandomFromReader(q.db.opts.Rand)
	return id.String(), err
}

// Counts returns the numbers of messages now; unlike SQS's they are exact.
func (q *Queues) Counts(ctx context.Context, name string) (queue.Counts, error) {
	f, err := q.find(name)
	if err != nil {
		return queue.Counts{}, fmt.Errorf("embed: counts: %w", err)
	}
	now := q.db.nowMS()
	var c queue.Counts
	if err := q.counts.QueryRowContext(ctx, f.id, now, f.cutoff(now)).Scan(&c.Visible, &c.InFlight, &c.Delayed); err != nil {
		return queue.Counts{}, fmt.Errorf("embed: counts of %q: %w", name, err)
	}
	return c, nil
}

// OldestAge returns the time since the queue's oldest message was first sent; 0
// when it is empty. Unlike SQS's metric it leaves no message out.
func (q *Queues) OldestAge(ctx context.Context, name string) (time.Duration, error) {
	f, err := q.find(name)
	if err != nil {
		return 0, fmt.Errorf("embed: oldest age: %w", err)
	}
	now := q.db.nowMS()
	var sent sql.NullInt64
	if err := q.oldest.QueryRowContext(ctx, f.id, f.cutoff(now)).Scan(&sent); err != nil {
		return 0, fmt.Errorf("embed: oldest age of %q: %w", name, err)
	}
	if !sent.Valid {
		return 0, nil
	}
	return duration(max(0, now-sent.Int64)), nil
}

// cutoff is the time from which messages are kept: those sent at it or before
// have expired.
func (f *fifo) cutoff(nowMS int64) int64 { return nowMS - f.config().Retention.Milliseconds() }

// Purge removes all messages of a queue.
func (q *Queues) Purge(ctx context.Context, name string) error {
	f, err := q.find(name)
	if err != nil {
		return fmt.Errorf("embed: purge: %w", err)
	}
	err = q.db.do(ctx, func(w *writer) error {
		_, err := w.purge.Exec(f.id)
		return err
	})
	if err != nil {
		return fmt.Errorf("embed: purge %q: %w", name, err)
	}
	return nil
}

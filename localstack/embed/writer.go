package embed

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
)

// maxBatch bounds how many calls share a commit, and so how long one waits.
const maxBatch = 128

// job is one atomic call. Its run may be called again if the batch it was in
// failed, so it must set its results afresh. It returns faults of the database
// only; an answer like "the condition failed" is a result, and then run has
// written nothing.
type job struct {
	run   func(w *writer) error
	state atomic.Int32
	done  chan error
}

const (
	jobQueued int32 = iota
	jobRunning
	jobAbandoned
)

// writer owns the one connection that writes.
type writer struct {
	db    *DB
	conn  *sql.Conn
	after []func() // to be done once the transaction is committed

	begin, commit, rollback             *sql.Stmt
	getItem, insItem, updItem, delItem  *sql.Stmt
	insEntry, delEntry                  *sql.Stmt
	expired, insExpiry, delExpiry       *sql.Stmt
	insMessage, delMessage, findMessage *sql.Stmt
	setMessage, moveMessage, delayTo    *sql.Stmt
	putQueue, purge, sweep              *sql.Stmt
	redrive                             *sql.Stmt
}

func newWriter(db *DB) (*writer, error) {
	conn, err := db.writes.Conn(context.Background())
	if err != nil {
		return nil, err
	}
	w := &writer{db: db, conn: conn}
	return w, prepare(conn, map[**sql.Stmt]string{
		&w.begin: "BEGIN IMMEDIATE", &w.commit: "COMMIT", &w.rollback: "ROLLBACK",
		&w.getItem:  "SELECT v FROM item WHERE pk = ? AND sk = ?",
		&w.insItem:  "INSERT INTO item (v, pk, sk) VALUES (?, ?, ?)",
		&w.updItem:  "UPDATE item SET v = ? WHERE pk = ? AND sk = ?",
		&w.delItem:  "DELETE FROM item WHERE pk = ? AND sk = ?",
		&w.insEntry: "INSERT INTO entry (ix, ipk, isk, pk, sk) VALUES (?, ?, ?, ?, ?)",
		&w.delEntry: "DELETE FROM entry WHERE ix = ? AND ipk = ? AND isk = ? AND pk = ? AND sk = ?",

		&w.expired:   queryExpired,
		&w.insExpiry: "INSERT OR IGNORE INTO expiry (at, pk, sk) VALUES (?, ?, ?)",
		&w.delExpiry: "DELETE FROM expiry WHERE at = ? AND pk = ? AND sk = ?",

		&w.insMessage: `INSERT INTO message (queue, mid, visible_at, delayed, sent_at, receives, first_received, body, attrs)
			VALUES (?, ?, ?, ?, ?, 0, 0, ?, ?)`,
		&w.delMessage:  "DELETE FROM message WHERE id = ? AND queue = ? AND mid = ? AND receives = ?",
		&w.findMessage: queryFindMessage,
		&w.setMessage:  "UPDATE message SET visible_at = ?, delayed = 0, receives = ?, first_received = ? WHERE id = ?",
		&w.moveMessage: "UPDATE message SET queue = ?, visible_at = ?, delayed = 0 WHERE id = ?",
		&w.delayTo: `UPDATE message SET visible_at = ? WHERE id = ? AND queue = ? AND mid = ? AND receives = ?
			AND delayed = 0 AND visible_at > ?`,
		&w.putQueue: `INSERT INTO queue (name, visibility_ms, max_receives, dead_letter, retention_ms, delay_ms)
			VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET visibility_ms = excluded.visibility_ms,
			max_receives = excluded.max_receives, dead_letter = excluded.dead_letter,
			retention_ms = excluded.retention_ms, delay_ms = excluded.delay_ms RETURNING id`,
		&w.purge: "DELETE FROM message WHERE queue = ?",
		&w.sweep: "DELETE FROM message WHERE queue = ? AND sent_at <= ?",
		&w.redrive: `UPDATE message SET queue = ?, mid = ?, visible_at = ?, delayed = 0, sent_at = ?, receives = 0,
			first_received = 0 WHERE id = ?`,
	})
}

// do runs a job and returns once it is committed. When ctx ends before the job
// began nothing was written and the error is ctx's; a job that began is waited
// for, which takes no longer than a commit.
func (db *DB) do(ctx context.Context, run func(w *writer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{run: run, done: make(chan error, 1)}
	select {
	case db.jobs <- j:
	case <-ctx.Done():
		return ctx.Err()
	case <-db.stop:
		return ErrClosed
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		if j.state.CompareAndSwap(jobQueued, jobAbandoned) {
			return ctx.Err()
		}
	case <-db.stopped:
		// The writer may have answered just before it stopped.
		select {
		case err := <-j.done:
			return err
		default:
			return ErrClosed
		}
	}
	return <-j.done
}

func (w *writer) loop() {
	defer close(w.db.stopped)
	defer w.conn.Close() // closing the file, which follows, says what went wrong
	batch := make([]*job, 0, maxBatch)
	for {
		batch = batch[:0]
		select {
		case j := <-w.db.jobs:
			batch = append(batch, j)
		case <-w.db.stop:
			return
		}
	gather:
		for len(batch) < maxBatch {
			select {
			case j := <-w.db.jobs:
				batch = append(batch, j)
			default:
				break gather
			}
		}
		w.serve(batch)
	}
}

// serve commits a batch and answers its jobs. If the batch fails, each job is
// tried alone, so that one call's trouble is no other's.
func (w *writer) serve(batch []*job) {
	live := batch[:0]
	for _, j := range batch {
		if j.state.CompareAndSwap(jobQueued, jobRunning) {
			live = append(live, j)
		}
	}
	if len(live) == 0 {
		return
	}
	err := w.transaction(live)
	for i, j := range live {
		if err != nil && len(live) > 1 {
			j.done <- w.transaction(live[i : i+1])
			continue
		}
		j.done <- err
	}
}

func (w *writer) transaction(jobs []*job) error {
	w.after = w.after[:0]
	if _, err := w.begin.Exec(); err != nil {
		return err
	}
	for _, j := range jobs {
		if err := j.run(w); err != nil {
			return w.undo(err)
		}
	}
	if h := w.db.table.history; h != nil {
		// Stale reads combine the file with the history: both must move together.
		h.mu.Lock()
		defer h.mu.Unlock()
	}
	if _, err := w.commit.Exec(); err != nil {
		return w.undo(err)
	}
	for _, f := range w.after {
		f()
	}
	return nil
}

func (w *writer) undo(err error) error {
	w.after = w.after[:0]
	_, rollbackErr := w.rollback.Exec()
	return errors.Join(err, rollbackErr)
}

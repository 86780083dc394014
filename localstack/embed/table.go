package embed

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// Table is the embedded op.Table.
type Table struct {
	db      *DB
	faults  *faults
	history *history // nil unless faults ask for stale reads

	get, scan                              *sql.Stmt
	itemsUp, itemsDown, indexUp, indexDown *sql.Stmt
}

var _ op.Table = (*Table)(nil)

// The statements of a query. In an index a row's place is the triple (isk, pk,
// sk), and both bounds are exclusive.
const (
	queryItemsUp   = "SELECT sk, v FROM item WHERE pk = ? AND sk >= ? AND sk < ? ORDER BY sk LIMIT ?"
	queryItemsDown = "SELECT sk, v FROM item WHERE pk = ? AND sk >= ? AND sk < ? ORDER BY sk DESC LIMIT ?"
	queryIndexUp   = `SELECT isk, pk, sk FROM entry WHERE ix = ? AND ipk = ? AND (isk, pk, sk) > (?, ?, ?)
		AND (isk, pk, sk) < (?, ?, ?) ORDER BY isk, pk, sk LIMIT ?`
	queryIndexDown = `SELECT isk, pk, sk FROM entry WHERE ix = ? AND ipk = ? AND (isk, pk, sk) > (?, ?, ?)
		AND (isk, pk, sk) < (?, ?, ?) ORDER BY isk DESC, pk DESC, sk DESC LIMIT ?`
)

func newTable(db *DB) (*Table, error) {
	t := &Table{db: db, faults: newFaults(db.opts.Faults)}
	if db.opts.Faults.stale() {
		t.history = &history{}
	}
	return t, prepare(db.reads, map[**sql.Stmt]string{
		&t.get:     "SELECT v FROM item WHERE pk = ? AND sk = ?",
		&t.scan:    "SELECT pk, sk, v FROM item WHERE pk >= ? AND pk < ? ORDER BY pk, sk",
		&t.itemsUp: queryItemsUp, &t.itemsDown: queryItemsDown, &t.indexUp: queryIndexUp, &t.indexDown: queryIndexDown,
	})
}

// unavailable turns an engine's fault into the port's.
func unavailable(name string, err error) error {
	reason := op.Internal
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		reason = op.Timeout
	}
	return &op.Unavailable{Name: name, Reason: reason, Err: err}
}

// Get reads one item.
func (t *Table) Get(ctx context.Context, key op.Key, consistent bool) (op.Item, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	old, release := t.stale(consistent, t.faults.ReadLag)
	defer release()
	return t.read(ctx, "get", key, old)
}

// read reads an item as it is, or as it was if old has it.
func (t *Table) read(ctx context.Context, name string, key op.Key, old map[op.Key]op.Item) (op.Item, error) {
	if item, ok := old[key]; ok {
		return item.Clone(), nil
	}
	return scanItem(t.get.QueryRowContext(ctx, []byte(key.PK), []byte(key.SK)), name)
}

func scanItem(row *sql.Row, name string) (op.Item, error) {
	var raw []byte
	switch err := row.Scan(&raw); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, unavailable(name, err)
	}
	item, err := decodeItem(raw)
	if err != nil {
		return nil, unavailable(name, err)
	}
	return item, nil
}

func checkKey(key op.Key) error {
	if key.PK == "" || key.SK == "" {
		return fmt.Errorf("embed: empty key %q/%q", key.PK, key.SK)
	}
	return nil
}

// BatchGet reads up to op.MaxBatchGet different items.
func (t *Table) BatchGet(ctx context.Context, keys []op.Key, consistent bool) ([]op.Item, error) {
	if len(keys) > op.MaxBatchGet {
		return nil, fmt.Errorf("embed: batch of %d keys, allowed are %d", len(keys), op.MaxBatchGet)
	}
	seen := make(map[op.Key]bool, len(keys))
	for _, key := range keys {
		if err := checkKey(key); err != nil {
			return nil, err
		}
		if seen[key] {
			return nil, fmt.Errorf("embed: batch names %v twice", key)
		}
		seen[key] = true
	}
	items := make([]op.Item, len(keys))
	for i, key := range keys {
		// Each item is read for itself and may be stale by another amount.
		old, release := t.stale(consistent, t.faults.ReadLag)
		item, err := t.read(ctx, "batch get", key, old)
		release()
		if err != nil {
			return nil, err
		}
		items[i] = item
	}
	return items, nil
}

// Write performs one conditional write.
func (t *Table) Write(ctx context.Context, w op.Write) (op.Item, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	if w.Action == op.Check {
		return nil, fmt.Errorf("embed: write %q: a check outside a transaction", w.Name)
	}
	r, err := t.commit(ctx, w.Name, []op.Write{w})
	if err != nil {
		return nil, err
	}
	return r[0].after.Clone(), nil
}

// Transact performs all writes or none.
func (t *Table) Transact(ctx context.Context, tx op.Tx) error {
	if err := tx.Validate(); err != nil {
		return err
	}
	_, err := t.commit(ctx, tx.Name, tx.Writes)
	return err
}

// effect is what a write does to its item.
type effect struct {
	key           op.Key
	before, after op.Item
	raw           []byte // of after
}

func (t *Table) commit(ctx context.Context, name string, writes []op.Write) ([]effect, error) {
	var effects []effect
	var refused error
	err := t.db.do(ctx, func(w *writer) error {
		var err error
		if effects, refused, err = w.plan(name, writes); err != nil || refused != nil {
			return err
		}
		return w.perform(effects)
	})
	if err != nil {
		return nil, unavailable(name, err)
	}
	return effects, refused
}

// plan evaluates the writes without writing. refused is the answer when they may
// not be done, err a fault of the database.
func (w *writer) plan(name string, writes []op.Write) (effects []effect, refused, err error) {
	effects = make([]effect, 0, len(writes))
	failed := &op.CondError{Name: name}
	total := 0
	for i, wr := range writes {
		before, err := w.current(name, wr.Key)
		if err != nil {
			return nil, nil, err
		}
		if !op.Eval(wr.Cond, wr.Key, before) {
			failed.Failed = append(failed.Failed, op.CondFailure{Write: i, Item: before})
			continue
		}
		e := effect{key: wr.Key, before: before, after: before}
		switch wr.Action {
		case op.Put:
			if e.after = wr.Item; e.after == nil {
				e.after = op.Item{}
			}
		case op.Delete:
			e.after = nil
		case op.Update:
			after, err := op.Apply(before, wr.Changes)
			if err != nil && refused == nil {
				refused = fmt.Errorf("embed: write %q: %w", wr.Name, err)
			}
			e.after = after
		case op.Check:
			total += op.Size(wr.Key, before)
			continue
		}
		size := op.Size(wr.Key, e.after)
		total += size
		if size > op.MaxItemBytes && refused == nil {
			refused = fmt.Errorf("embed: write %q: %d bytes: %w", wr.Name, size, op.ErrTooLarge)
		}
		effects = append(effects, e)
	}
	if len(failed.Failed) > 0 {
		return nil, failed, nil
	}
	if refused == nil && len(writes) > 1 && total > op.MaxTxBytes {
		refused = fmt.Errorf("embed: transaction %q: %d bytes: %w", name, total, op.ErrTooLarge)
	}
	if refused != nil {
		return nil, refused, nil
	}
	for i := range effects {
		if effects[i].after != nil {
			effects[i].raw = encodeItem(effects[i].after)
		}
	}
	return effects, nil, nil
}

func (w *writer) current(name string, key op.Key) (op.Item, error) {
	return scanItem(w.getItem.QueryRow([]byte(key.PK), []byte(key.SK)), name)
}

// perform writes items and index entries.
func (w *writer) perform(effects []effect) error {
	for _, e := range effects {
		var err error
		pk, sk := []byte(e.key.PK), []byte(e.key.SK)
		switch {
		case e.after == nil && e.before == nil:
			continue
		case e.after == nil:
			_, err = w.delItem.Exec(pk, sk)
		case e.before == nil:
			_, err = w.insItem.Exec(e.raw, pk, sk)
		default:
			_, err = w.updItem.Exec(e.raw, pk, sk)
		}
		if err != nil {
			return err
		}
		for n, ix := range op.Indexes() {
			if err := w.reindex(n, ix, e); err != nil {
				return err
			}
		}
		if err := w.keepExpiry(e); err != nil {
			return err
		}
	}
	if h := w.db.table.history; h != nil {
		w.after = append(w.after, func() { h.append(w.db.nowMS(), effects) })
	}
	return nil
}

func (w *writer) reindex(n int, ix op.Index, e effect) error {
	was, wasIn := entryOf(ix, e.before)
	is, isIn := entryOf(ix, e.after)
	if was == is && wasIn == isIn {
		return nil
	}
	pk, sk := []byte(e.key.PK), []byte(e.key.SK)
	if wasIn {
		if _, err := w.delEntry.Exec(n, []byte(was.PK), []byte(was.SK), pk, sk); err != nil {
			return err
		}
	}
	if isIn {
		if _, err := w.insEntry.Exec(n, []byte(is.PK), []byte(is.SK), pk, sk); err != nil {
			return err
		}
	}
	return nil
}

// entryOf returns the item's key in an index; false when it is not in it.
func entryOf(ix op.Index, item op.Item) (op.Key, bool) {
	pk, sk := ix.Keys()
	key := op.Key{PK: item.Str(pk), SK: item.Str(sk)}
	if key.PK == "" || key.SK == "" {
		return op.Key{}, false
	}
	return key, true
}

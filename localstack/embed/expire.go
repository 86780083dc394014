package embed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

const (
	// tidyEvery is how often the engine looks for items that have had their time.
	tidyEvery = time.Minute
	// tidyBatch is how many it deletes at once: what else is to be written waits no longer than these take.
	tidyBatch = 50

	queryExpired = "SELECT at, pk, sk FROM expiry WHERE at <= ? ORDER BY at LIMIT ?"
)

// tidy runs until the DB is closed.
func (db *DB) tidy() {
	defer close(db.tidied)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ticker := time.NewTicker(db.opts.TidyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-db.stop:
			return
		}
		if n, err := db.Tidy(ctx); err != nil && !errors.Is(err, ErrClosed) {
			slog.WarnContext(ctx, "expired items were not deleted; they will be later", "deleted", n, "error", err)
		}
	}
}

// Tidy deletes the items whose time (op.TTL) has come and returns how many those were. The engine does so by itself every
// Options.TidyEvery; as in DynamoDB that is late, in no order that anybody may rely on, and never needed. What it frees
// in the file is used again; the file does not shrink.
func (db *DB) Tidy(ctx context.Context) (int, error) {
	total := 0
	for {
		var some int
		err := db.reads.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM expiry WHERE at <= ?)", db.nowMS()/1000).Scan(&some)
		if err != nil || some == 0 { // nothing to do costs no commit
			return total, err
		}
		var deleted int
		err = db.do(ctx, func(w *writer) (err error) {
			deleted, err = w.expire(db.nowMS() / 1000)
			return err
		})
		if err != nil {
			return total, err
		}
		total += deleted
	}
}

// expire deletes a batch of what may go at a time, in seconds. An entry that its item does not stand by (written by a build
// that did not keep entries) only goes itself.
func (w *writer) expire(now int64) (deleted int, err error) {
	type place struct {
		at     int64
		pk, sk []byte
	}
	var places []place
	rows, err := w.expired.Query(now, tidyBatch)
	if err != nil {
		return 0, err
	}
	for rows.Next() {
		var p place
		if err := rows.Scan(&p.at, &p.pk, &p.sk); err != nil {
			return 0, errors.Join(err, rows.Close())
		}
		places = append(places, p)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return 0, err
	}
	var effects []effect
	for _, p := range places {
		key := op.Key{PK: string(p.pk), SK: string(p.sk)}
		item, err := w.current("expire", key)
		if err != nil {
			return 0, err
		}
		if at := expiryOf(item); at == 0 || at > now {
			if _, err := w.delExpiry.Exec(p.at, p.pk, p.sk); err != nil {
				return 0, fmt.Errorf("expire: %w", err)
			}
			continue
		}
		effects = append(effects, effect{key: key, before: item})
	}
	return len(effects), w.perform(effects)
}

// keepExpiry keeps the entry of an item's time to go.
func (w *writer) keepExpiry(e effect) error {
	was, is := expiryOf(e.before), expiryOf(e.after)
	if was == is {
		return nil
	}
	pk, sk := []byte(e.key.PK), []byte(e.key.SK)
	if was != 0 {
		if _, err := w.delExpiry.Exec(was, pk, sk); err != nil {
			return err
		}
	}
	if is != 0 {
		if _, err := w.insExpiry.Exec(is, pk, sk); err != nil {
			return err
		}
	}
	return nil
}

// expiryOf is the second from which on an item may go, 0 when it stays.
func expiryOf(item op.Item) int64 { return max(item.Int(op.TTL), 0) }

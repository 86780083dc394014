package embed

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/lanekeeper/lanekeeper/pkg/clock"
)

// Errors of the engine itself.
var (
	// ErrInUse says that another process has the file open.
	ErrInUse = errors.New("embed: the file is in use by another process")
	// ErrClosed says that the DB was closed; nothing was written.
	ErrClosed = errors.New("embed: closed")
)

// Options configure a DB. The zero value is right for production.
type Options struct {
	// Now is the clock of queues and lags; nil is the system's. When a test
	// moves its clock it calls [DB.Wake] afterwards.
	Now func() time.Time
	// Rand feeds message ids; nil is crypto/rand. It need not be safe for
	// concurrent use.
	Rand io.Reader
	// Readers is the number of read connections; 0 is 4.
	Readers int
	// Sync makes every commit wait for the disk, so that a power cut loses
	// nothing either. About a hundred times slower.
	Sync bool
	// TidyEvery is how often items that have had their time are deleted; 0 is a
	// minute. See [DB.Tidy].
	TidyEvery time.Duration
	// Faults and QueueFaults make the engine behave as badly as AWS may.
	Faults      Faults
	QueueFaults QueueFaults
}

// DB is an open file.
type DB struct {
	opts    Options
	lock    *os.File
	writes  *sql.DB
	reads   *sql.DB
	jobs    chan *job
	stop    chan struct{}
	stopped chan struct{} // the writer has
	tidied  chan struct{} // and so has what tidies
	close   sync.Once

	table  *Table
	queues *Queues
}

const schema = `
CREATE TABLE IF NOT EXISTS item (
	pk BLOB NOT NULL, sk BLOB NOT NULL, v BLOB NOT NULL,
	PRIMARY KEY (pk, sk)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entry (
	ix INTEGER NOT NULL, ipk BLOB NOT NULL, isk BLOB NOT NULL, pk BLOB NOT NULL, sk BLOB NOT NULL,
	PRIMARY KEY (ix, ipk, isk, pk, sk)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS expiry (
	at INTEGER NOT NULL, pk BLOB NOT NULL, sk BLOB NOT NULL,
	PRIMARY KEY (at, pk, sk)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue (
	id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
	visibility_ms INTEGER NOT NULL, max_receives INTEGER NOT NULL, dead_letter TEXT NOT NULL,
	retention_ms INTEGER NOT NULL, delay_ms INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS message (
	id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, mid TEXT NOT NULL,
	visible_at INTEGER NOT NULL, delayed INTEGER NOT NULL, sent_at INTEGER NOT NULL,
	receives INTEGER NOT NULL, first_received INTEGER NOT NULL,
	body BLOB NOT NULL, attrs BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS message_visible ON message (queue, visible_at, id);
`

// schemaVersion is stored in the file, so that a later layout can tell.
const schemaVersion = 1

// Open opens or creates the file at path; its directory must exist. Beside it
// SQLite keeps path-wal and path-shm, and the engine path.lock.
func Open(path string, opts Options) (*DB, error) {
	if opts.Now == nil {
		opts.Now = clock.System
	}
	if opts.Rand == nil {
		opts.Rand = rand.Reader
	}
	if opts.Readers <= 0 {
		opts.Readers = 4
	}
	if opts.TidyEvery <= 0 {
		opts.TidyEvery = tidyEvery
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("embed: open %s: %w", path, err)
	}
	lock, err := lockFile(abs + ".lock")
	if err != nil {
		return nil, fmt.Errorf("embed: open %s: %w", path, err)
	}
	db := &DB{
		opts: opts, lock: lock,
		jobs: make(chan *job, maxBatch), stop: make(chan struct{}), stopped: make(chan struct{}), tidied: make(chan struct{}),
	}
	if err := db.start(abs); err != nil {
		return nil, errors.Join(fmt.Errorf("embed: open %s: %w", path, err), db.release())
	}
	return db, nil
}

func (db *DB) start(path string) error {
	synchronous := "NORMAL"
	if db.opts.Sync {
		synchronous = "FULL"
	}
	dsn := func(extra ...string) string {
		pragmas := append([]string{"busy_timeout(5000)", "cache_size(-16000)"}, extra...)
		return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + url.Values{"_pragma": pragmas}.Encode()
	}
	var err error
	db.writes, err = sql.Open("sqlite", dsn("journal_mode(WAL)", "synchronous("+synchronous+")", "journal_size_limit(67108864)"))
	if err != nil {
		return err
	}
	db.writes.SetMaxOpenConns(1)
	var version int
	if err := db.writes.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version > schemaVersion {
		return fmt.Errorf("the file has layout %d, this build knows %d", version, schemaVersion)
	}
	if _, err := db.writes.Exec(schema + fmt.Sprintf("PRAGMA user_version = %d;", schemaVersion)); err != nil {
		return err
	}
	db.reads, err = sql.Open("sqlite", dsn("query_only(1)"))
	if err != nil {
		return err
	}
	db.reads.SetMaxOpenConns(db.opts.Readers)
	db.reads.SetMaxIdleConns(db.opts.Readers)
	w, err := newWriter(db)
	if err != nil {
		return err
	}
	if db.table, err = newTable(db); err != nil {
		return err
	}
	if db.queues, err = newQueues(db); err != nil {
		return err
	}
	go w.loop()
	go db.tidy()
	return nil
}

// Table returns the table.
func (db *DB) Table() *Table { return db.table }

// Queues returns the queues.
func (db *DB) Queues() *Queues { return db.queues }

// Wake makes every waiting Receive look at the clock again. Only tests that
// inject a clock need it.
func (db *DB) Wake() { db.queues.wakeAll() }

// Close waits for the writes under way, refuses later calls and closes the file.
func (db *DB) Close() error {
	err := error(nil)
	db.close.Do(func() {
		close(db.stop)
		<-db.stopped
		<-db.tidied
		err = db.release()
	})
	return err
}

func (db *DB) release() error {
	var errs []error
	if db.reads != nil {
		errs = append(errs, db.reads.Close())
	}
	if db.writes != nil {
		// Everything into the one file: a copy of it is then a copy of all.
		if _, err := db.writes.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			errs = append(errs, err)
		}
		errs = append(errs, db.writes.Close())
	}
	return errors.Join(append(errs, db.lock.Close())...)
}

func (db *DB) nowMS() int64 { return db.opts.Now().UnixMilli() }

// prepare prepares statements on a connection, pool or transaction.
func prepare(on interface {
	PrepareContext(context.Context, string) (*sql.Stmt, error)
}, into map[**sql.Stmt]string) error {
	for stmt, text := range into {
		var err error
		if *stmt, err = on.PrepareContext(context.Background(), text); err != nil {
			return fmt.Errorf("prepare %q: %w", text, err)
		}
	}
	return nil
}

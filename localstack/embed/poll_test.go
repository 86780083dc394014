package embed

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

const startMS = 1_700_000_000_000

// pollDB has a clock that stands still until moved, and tells when a long poll
// goes to sleep.
func pollDB(t *testing.T) (db *DB, now *atomic.Int64, asleep chan struct{}) {
	t.Helper()
	now = &atomic.Int64{}
	now.Store(startMS)
	db, err := Open(filepath.Join(t.TempDir(), "db"), Options{Now: func() time.Time { return time.UnixMilli(now.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Queues().Create(t.Context(), "q", QueueConfig{Visibility: 10 * time.Second}); err != nil {
		t.Fatal(err)
	}
	asleep = make(chan struct{}, 100)
	db.queues.polling = func() { asleep <- struct{}{} }
	return db, now, asleep
}

func TestLongPollSleepsUntilWoken(t *testing.T) {
	for name, wake := range map[string]func(t *testing.T, q *Queues, handle string, move func(time.Duration)){
		"send": func(t *testing.T, q *Queues, _ string, _ func(time.Duration)) {
			if err := q.Send(t.Context(), "q", queue.Outgoing{Body: "new"}); err != nil {
				t.Error(err)
			}
		},
		"visibility ends": func(_ *testing.T, _ *Queues, _ string, move func(time.Duration)) { move(10 * time.Second) },
		"given back": func(t *testing.T, q *Queues, handle string, _ func(time.Duration)) {
			if err := q.ChangeVisibility(t.Context(), "q", handle, 0); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			db, now, asleep := pollDB(t)
			q := db.Queues()
			if err := q.Send(t.Context(), "q", queue.Outgoing{Body: "old"}); err != nil {
				t.Fatal(err)
			}
			held, err := q.Receive(t.Context(), "q", 1, 0, 0)
			if err != nil || len(held) != 1 {
				t.Fatal(held, err)
			}
			got := make(chan []queue.Message, 1)
			go func() {
				messages, err := q.Receive(t.Context(), "q", 1, queue.MaxWait, 0)
				if err != nil {
					t.Error(err)
				}
				got <- messages
			}()
			<-asleep
			wake(t, q, held[0].ReceiptHandle, func(d time.Duration) { now.Add(d.Milliseconds()); db.Wake() })
			if messages := <-got; len(messages) != 1 {
				t.Fatalf("received %v", messages)
			}
		})
	}
}

// Without an injected clock nobody calls Wake: the poll's own timer must end it.
func TestLongPollWakesByItself(t *testing.T) {
	db, err := Open(filepath.Join(t.TempDir(), "db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	q := db.Queues()
	if err := q.Create(t.Context(), "q", QueueConfig{Visibility: 50 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if err := q.Send(t.Context(), "q", queue.Outgoing{Body: "x"}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		got, err := q.Receive(t.Context(), "q", 1, queue.MaxWait, 0)
		if err != nil || len(got) != 1 || got[0].Receives != i+1 {
			t.Fatalf("received %v, %v", got, err)
		}
	}
	got, err := q.Receive(t.Context(), "q", 1, 5*time.Millisecond, 0)
	if err != nil || len(got) != 0 {
		t.Fatalf("received %v, %v", got, err)
	}
}

// One poll watches, the others wait their turn: a cancelled watcher hands over.
func TestLongPollHandsOver(t *testing.T) {
	db, _, asleep := pollDB(t)
	q := db.Queues()
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := q.Receive(ctx, "q", 1, queue.MaxWait, 0)
		first <- err
	}()
	<-asleep
	got := make(chan []queue.Message, 2)
	for range 2 {
		go func() {
			messages, err := q.Receive(t.Context(), "q", 1, queue.MaxWait, 0)
			if err != nil {
				t.Error(err)
			}
			got <- messages
		}()
	}
	cancel()
	if err := <-first; err == nil {
		t.Fatal("the cancelled poll returned no error")
	}
	<-asleep // the next one watches now
	for range 2 {
		if err := q.Send(t.Context(), "q", queue.Outgoing{Body: "x"}); err != nil {
			t.Fatal(err)
		}
		if messages := <-got; len(messages) != 1 {
			t.Fatalf("received %v", messages)
		}
	}
}

// One call's fault of the database does not fail the calls it shares a commit with.
func TestFailedBatchIsTriedOneByOne(t *testing.T) {
	db, _, _ := pollDB(t)
	blocked, release := make(chan struct{}), make(chan struct{})
	go func() {
		_ = db.do(context.Background(), func(*writer) error { close(blocked); <-release; return nil })
	}()
	<-blocked
	results := make(chan error, 3)
	for i := range 3 {
		go func() {
			results <- db.do(t.Context(), func(w *writer) error {
				if i == 1 {
					_, err := w.conn.ExecContext(context.Background(), "INSERT INTO no_such_table VALUES (1)")
					return err
				}
				_, err := w.insItem.Exec([]byte{1}, []byte{byte(i)}, []byte("s"))
				return err
			})
		}()
	}
	for len(db.jobs) < 3 { // all three are in the next batch
		runtime.Gosched()
	}
	close(release)
	failed := 0
	for range 3 {
		if err := <-results; err != nil {
			failed++
		}
	}
	var rows int
	if err := db.reads.QueryRow("SELECT COUNT(*) FROM item").Scan(&rows); err != nil || rows != 2 || failed != 1 {
		t.Fatalf("%d rows, %d failed, %v", rows, failed, err)
	}
}

// A message that moves to the dead-letter queue wakes its readers.
func TestLongPollOfDeadLettersWakes(t *testing.T) {
	db, now, asleep := pollDB(t)
	q := db.Queues()
	if err := q.Create(t.Context(), "source", QueueConfig{MaxReceives: 1, DeadLetter: "q", Visibility: time.Second}); err != nil {
		t.Fatal(err)
	}
	if err := q.Send(t.Context(), "source", queue.Outgoing{Body: "x"}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds that it was received often enough
		if _, err := q.Receive(t.Context(), "source", 1, 0, 0); err != nil {
			t.Fatal(err)
		}
		if now.Load() == startMS {
			now.Add(1000)
			go func() {
				if got, err := q.Receive(t.Context(), "q", 1, queue.MaxWait, 0); err != nil || len(got) != 1 {
					t.Errorf("received %v, %v", got, err)
				}
				close(asleep)
			}()
			<-asleep
		}
	}
	for range asleep {
	}
}

// Every query walks its index: none scans or sorts.
func TestQueryPlans(t *testing.T) {
	db, _, _ := pollDB(t)
	for text, args := range map[string]int{
		queryIndexUp: 9, queryIndexDown: 9, queryItemsUp: 4, queryItemsDown: 4, queryNextVisible: 2, queryFindMessage: 4, queryExpired: 2,
	} {
		list := make([]any, args)
		for i := range list {
			list[i] = []byte("1")
		}
		rows, err := db.reads.Query("EXPLAIN QUERY PLAN "+text, list...)
		if err != nil {
			t.Fatal(err)
		}
		steps := 0
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			steps++
			if !strings.HasPrefix(detail, "SEARCH") {
				t.Errorf("%s: %s", text, detail)
			}
			t.Log(detail)
		}
		if err := rows.Err(); err != nil || steps == 0 {
			t.Fatal(steps, err)
		}
	}
}

// TestAnEntryThatItsItemDoesNotStandByGoesAlone: nothing is deleted on the word of an entry.
func TestAnEntryThatItsItemDoesNotStandByGoesAlone(t *testing.T) {
	db, now, _ := pollDB(t)
	key := op.Key{PK: "p", SK: "s"}
	later := now.Load()/1000 + 60
	if _, err := db.table.Write(t.Context(), op.Write{Name: "put", Key: key, Action: op.Put, Item: op.Item{op.TTL: op.N(later)}}); err != nil {
		t.Fatal(err)
	}
	err := db.do(t.Context(), func(w *writer) error {
		for _, sk := range []string{"s", "none"} {
			if _, err := w.insExpiry.Exec(1, []byte("p"), []byte(sk)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := db.Tidy(t.Context()); err != nil || n != 0 {
		t.Fatalf("deleted %d, %v", n, err)
	}
	if item, err := db.table.Get(t.Context(), key, true); err != nil || item == nil {
		t.Fatalf("got %v, %v", item, err)
	}
}

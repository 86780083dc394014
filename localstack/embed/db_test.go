package embed_test

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

func TestReopen(t *testing.T) {
	path, ctx, c := filepath.Join(t.TempDir(), "db"), t.Context(), newClock()
	reopen := func(db *embed.DB) *embed.DB {
		t.Helper()
		if db != nil {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		db, err := embed.Open(path, embed.Options{Now: c.Now})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := reopen(nil)
	key := op.Key{PK: "p", SK: "s"}
	if _, err := db.Table().Write(ctx, op.Write{Name: "put", Key: key, Action: op.Put, Item: op.Item{"n": op.N(1), "rk": op.S("r"), "rs": op.S("1")}}); err != nil {
		t.Fatal(err)
	}
	create(t, db.Queues(), "dlq", embed.QueueConfig{})
	create(t, db.Queues(), "q", embed.QueueConfig{Visibility: time.Minute, MaxReceives: 1, DeadLetter: "dlq"})
	send(t, db.Queues(), "q", "x")
	first := receive(t, db.Queues(), "q", 1)[0]

	db = reopen(db)
	if item, err := db.Table().Get(ctx, key, true); err != nil || item.Int("n") != 1 {
		t.Fatalf("got %v, %v", item, err)
	}
	if page, err := db.Table().Query(ctx, op.Query{Index: op.IndexReady, PK: "r"}); err != nil || len(page.Rows) != 1 {
		t.Fatalf("got %v, %v", page, err)
	}
	q := db.Queues()
	if got := receive(t, q, "q", 1); len(got) != 0 {
		t.Fatalf("a message in flight came again after a restart: %v", got)
	}
	if err := q.ChangeVisibility(ctx, "q", first.ReceiptHandle, 0); err != nil {
		t.Fatalf("a handle from before the restart: %v", err)
	}
	if got := receive(t, q, "q", 1); len(got) != 0 {
		t.Fatalf("received %v past max receives", got)
	}
	if got := receive(t, q, "dlq", 1); len(got) != 1 || got[0].ID != first.ID {
		t.Fatalf("dead letters: %v", got)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db, err := embed.Open(path, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := embed.Open(path, embed.Options{}); !errors.Is(err, embed.ErrInUse) {
		t.Fatalf("got %v, want ErrInUse", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db, err = embed.Open(path, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenNowhere(t *testing.T) {
	if _, err := embed.Open(filepath.Join(t.TempDir(), "no", "dir", "db"), embed.Options{}); err == nil {
		t.Fatal("opened a file in a directory that is not there")
	}
}

func TestClosed(t *testing.T) {
	db, err := embed.Open(filepath.Join(t.TempDir(), "db"), embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, db.Queues(), "q", embed.QueueConfig{})
	polled := make(chan error, 1)
	go func() {
		_, err := db.Queues().Receive(t.Context(), "q", 1, queue.MaxWait, 0)
		polled <- err
	}()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatalf("closed again: %v", err)
	}
	if err := <-polled; err == nil {
		t.Fatal("a long poll outlived Close without an error")
	}
	w := op.Write{Name: "put", Key: op.Key{PK: "p", SK: "s"}, Action: op.Put}
	if _, err := db.Table().Write(t.Context(), w); !errors.Is(err, embed.ErrClosed) || !op.IsUnavailable(err) {
		t.Fatalf("write: %v", err)
	}
	if _, err := db.Table().Get(t.Context(), w.Key, true); !op.IsUnavailable(err) {
		t.Fatalf("get: %v", err)
	}
}

func TestCancelledCallsWriteNothing(t *testing.T) {
	db := open(t, embed.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	key := op.Key{PK: "p", SK: "s"}
	_, err := db.Table().Write(ctx, op.Write{Name: "put", Key: key, Action: op.Put, Item: op.Item{"n": op.N(1)}})
	var unavailable *op.Unavailable
	if !errors.As(err, &unavailable) || unavailable.Reason != op.Timeout || unavailable.Name != "put" || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if item, err := db.Table().Get(t.Context(), key, true); item != nil || err != nil {
		t.Fatalf("got %v, %v", item, err)
	}
	if _, err := db.Table().Get(ctx, key, true); !op.IsUnavailable(err) {
		t.Fatalf("get: %v", err)
	}
}

func TestScan(t *testing.T) {
	db := open(t, embed.Options{})
	for _, key := range []op.Key{{PK: "T#a", SK: "1"}, {PK: "T#a", SK: "2"}, {PK: "T#b", SK: "1"}, {PK: "T", SK: "1"}, {PK: "U#a", SK: "1"}, {PK: "T#\xff\xff", SK: "1"}} {
		if _, err := db.Table().Write(t.Context(), op.Write{Name: "put", Key: key, Action: op.Put, Item: op.Item{"pk?": op.S(key.PK)}}); err != nil {
			t.Fatal(err)
		}
	}
	for prefix, want := range map[string][]op.Key{
		"":    {{PK: "T", SK: "1"}, {PK: "T#a", SK: "1"}, {PK: "T#a", SK: "2"}, {PK: "T#b", SK: "1"}, {PK: "T#\xff\xff", SK: "1"}, {PK: "U#a", SK: "1"}},
		"T#":  {{PK: "T#a", SK: "1"}, {PK: "T#a", SK: "2"}, {PK: "T#b", SK: "1"}, {PK: "T#\xff\xff", SK: "1"}},
		"T#a": {{PK: "T#a", SK: "1"}, {PK: "T#a", SK: "2"}},
		"X":   nil,
	} {
		var got []op.Key
		if err := db.Table().Scan(t.Context(), prefix, func(r op.Row) bool {
			if r.Item.Str("pk?") != r.Key.PK {
				t.Errorf("%v holds %v", r.Key, r.Item)
			}
			got = append(got, r.Key)
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("prefix %q: got %v, want %v", prefix, got, want)
		}
	}
	seen := 0
	if err := db.Table().Scan(t.Context(), "", func(op.Row) bool { seen++; return seen < 2 }); err != nil || seen != 2 {
		t.Fatalf("stopped after %d rows, %v", seen, err)
	}
}

// Items that the caller or a reader changes afterwards are not the table's.
func TestItemsAreCopies(t *testing.T) {
	db := open(t, embed.Options{Faults: embed.Faults{ReadLag: func() int { return 1 }}})
	table, key := db.Table(), op.Key{PK: "p", SK: "s"}
	mine := op.Item{"n": op.N(1)}
	got, err := table.Write(t.Context(), op.Write{Name: "put", Key: key, Action: op.Put, Item: mine})
	if err != nil {
		t.Fatal(err)
	}
	got["n"] = op.N(2)
	if mine.Int("n") != 1 {
		t.Fatal("the answer of a put is the caller's own item")
	}
	if _, err := table.Write(t.Context(), op.Write{Name: "add", Key: key, Action: op.Update, Changes: []op.Change{op.Add("n", 1)}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		old, err := table.Get(t.Context(), key, false)
		if err != nil || old.Int("n") != 1 {
			t.Fatalf("one write ago: %v, %v", old, err)
		}
		old["n"] = op.N(9)
	}
}

package embed_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// left are the sort keys of what is in the table, and of what is in the index.
func left(t *testing.T, db *embed.DB) string {
	t.Helper()
	var keys, entries []string
	for _, q := range []struct {
		q   op.Query
		out *[]string
	}{{op.Query{PK: "p", Consistent: true}, &keys}, {op.Query{Index: op.IndexDue, PK: "d"}, &entries}} {
		err := q.q.All(t.Context(), db.Table(), func(row op.Row) bool {
			*q.out = append(*q.out, row.Key.SK)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(keys, " ") + " | " + strings.Join(entries, " ")
}

func tidy(t *testing.T, db *embed.DB, want int, remain string) {
	t.Helper()
	if n, err := db.Tidy(t.Context()); err != nil || n != want {
		t.Fatalf("deleted %d, %v; wanted %d", n, err, want)
	}
	if got := left(t, db); got != remain {
		t.Fatalf("left are %q, wanted %q", got, remain)
	}
}

func TestItemsGoWhenTheirTimeHasCome(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), "db"), newClock()
	db, err := embed.Open(path, embed.Options{Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) op.Value { return op.N(c.Now().Add(d).Unix()) }
	entry := func(sk string, ttl op.Value) op.Item {
		return op.Item{"dk": op.S("d"), "ds": op.S(sk), op.TTL: ttl}
	}
	put(t, db.Table(), "a", entry("a", at(time.Hour)))
	put(t, db.Table(), "b", op.Item{"dk": op.S("d"), "ds": op.S("b")})
	put(t, db.Table(), "c", entry("c", at(time.Hour)))
	put(t, db.Table(), "d", entry("d", at(time.Hour)))
	put(t, db.Table(), "e", entry("e", at(2*time.Hour)))
	update := func(sk string, change op.Change) {
		t.Helper()
		w := op.Write{Name: "update", Key: op.Key{PK: "p", SK: sk}, Action: op.Update, Changes: []op.Change{change}}
		if _, err := db.Table().Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	update("c", op.Set(op.TTL, at(3*time.Hour))) // put off
	update("d", op.Remove(op.TTL))               // stays after all
	c.advance(db, time.Hour-time.Second)
	tidy(t, db, 0, "a b c d e | a b c d e")
	c.advance(db, time.Second)
	tidy(t, db, 1, "b c d e | b c d e")
	tidy(t, db, 0, "b c d e | b c d e")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = embed.Open(path, embed.Options{Now: c.Now}); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c.advance(db, time.Hour)
	tidy(t, db, 1, "b c d | b c d")
	put(t, db.Table(), "c", op.Item{}) // what is put anew has nothing of the old
	c.advance(db, time.Hour)
	tidy(t, db, 0, "b c d | b d")
}

func TestManyItemsGoInBatches(t *testing.T) {
	db, c := openClock(t, embed.Options{})
	for i := range 333 {
		put(t, db.Table(), fmt.Sprint(i), op.Item{op.TTL: op.N(c.Now().Unix() - int64(i))})
	}
	tidy(t, db, 333, " | ")
}

func TestTheEngineTidiesByItself(t *testing.T) {
	db, c := openClock(t, embed.Options{TidyEvery: time.Millisecond})
	put(t, db.Table(), "a", op.Item{op.TTL: op.N(c.Now().Unix() + 60)})
	c.advance(db, time.Hour)
	for limit := time.Now().Add(time.Minute); left(t, db) != " | "; {
		if time.Now().After(limit) {
			t.Fatal("the item is still there")
		}
	}
}

// TestTheFileStopsGrowing: what is deleted makes room for what comes.
func TestTheFileStopsGrowing(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), "db"), newClock()
	var sizes []int64
	for round := range 6 {
		db, err := embed.Open(path, embed.Options{Now: c.Now})
		if err != nil {
			t.Fatal(err)
		}
		var tx op.Tx
		for i := range 2000 {
			key := op.Key{PK: "p", SK: fmt.Sprintf("%d-%d", round, i)}
			tx.Writes = append(tx.Writes, op.Write{Name: "put", Key: key, Action: op.Put, Item: op.Item{"v": op.S(strings.Repeat("x", 500)), op.TTL: op.N(c.Now().Unix())}})
			if len(tx.Writes) == 100 {
				tx.Name = "fill"
				if err := db.Table().Transact(t.Context(), tx); err != nil {
					t.Fatal(err)
				}
				tx.Writes = nil
			}
		}
		if n, err := db.Tidy(t.Context()); err != nil || n != 2000 {
			t.Fatalf("deleted %d, %v", n, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Size())
	}
	if first, last := sizes[0], sizes[len(sizes)-1]; first < 1_000_000 || last > first+first/10 {
		t.Errorf("the file grew from round to round: %d bytes", sizes)
	}
}

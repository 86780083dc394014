package memtable_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/op/optest"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
)

func TestConformance(t *testing.T) {
	optest.Exercise(t, func(*testing.T) op.Table { return memtable.New(memtable.Options{}) }, optest.Options{})
}

// TestConformanceWhenUnhelpful runs the suite with lagging indexes, one-item
// and empty pages, and stale eventual reads.
func TestConformanceWhenUnhelpful(t *testing.T) {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(1, 2))
	chance := func(p float64) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return rng.Float64() < p
		}
	}
	now := time.Unix(0, 0)
	open := func(*testing.T) op.Table {
		return memtable.New(memtable.Options{
			Now: func() int64 { // moves on with every look
				mu.Lock()
				defer mu.Unlock()
				now = now.Add(50 * time.Millisecond)
				return now.UnixNano()
			},
			LagNS:     func() int64 { mu.Lock(); defer mu.Unlock(); return rng.Int64N(int64(time.Second)) },
			ShortPage: chance(0.3), EmptyPage: chance(0.3), Stale: chance(0.5),
		})
	}
	optest.Exercise(t, open, optest.Options{Tries: 50})
}

// TestIndexShowsWritesOfOneItemInOrder: a later write never appears before an
// earlier one, however the lags fall.
func TestIndexShowsWritesOfOneItemInOrder(t *testing.T) {
	now, lags := int64(0), []int64{100, 0}
	table := memtable.New(memtable.Options{Now: func() int64 { return now }, LagNS: func() int64 {
		lag := lags[0]
		lags = lags[1:]
		return lag
	}})
	key := op.Key{PK: "a", SK: "b"}
	for _, sort := range []string{"1", "2"} {
		if _, err := table.Write(t.Context(), op.Write{Name: "w", Key: key, Action: op.Put, Item: op.Item{"dk": op.S("d"), "ds": op.S(sort)}}); err != nil {
			t.Fatal(err)
		}
	}
	shown := func() string {
		page, err := table.Query(t.Context(), op.Query{Index: op.IndexDue, PK: "d"})
		if err != nil {
			t.Fatal(err)
		}
		out := ""
		for _, r := range page.Rows {
			out += r.Item.Str("ds")
		}
		return out
	}
	for _, c := range []struct {
		at   int64
		want string
	}{{0, ""}, {99, ""}, {100, "2"}} {
		if now = c.at; shown() != c.want {
			t.Errorf("at %d the index shows %q, want %q", c.at, shown(), c.want)
		}
	}
}

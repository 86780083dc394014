package embed

import (
	"math/rand/v2"
	"sync"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// Faults make the table behave as DynamoDB may. The zero value has none.
type Faults struct {
	// Seed decides the draws below.
	Seed uint64
	// IndexLag is asked once per index query: how many of the latest item
	// writes the index has not heard of yet. See [UpTo].
	IndexLag func() int
	// IndexLagMS is asked likewise: index queries do not see the writes of the
	// last so many milliseconds of Options.Now.
	IndexLagMS func() int64
	// ReadLag is asked once per eventually consistent item read or table query:
	// how many of the latest item writes it does not see.
	ReadLag func() int
	// ShortPages is the share (0 to 1) of queries answered with a page of one row.
	ShortPages float64
	// EmptyPages is the share (0 to below 1) of queries answered with no row but
	// a cursor.
	EmptyPages float64
}

// maxHistory bounds how far back stale reads can go, in item writes.
const maxHistory = 4096

func (f Faults) stale() bool {
	return f.IndexLag != nil || f.IndexLagMS != nil || f.ReadLag != nil
}

// UpTo returns a function that draws 0 to most from the seed; it is safe for
// concurrent use. Such a lag has an end: asked often enough, a reader sees the
// latest state.
func UpTo(seed uint64, most int) func() int {
	d := newDraw(seed)
	return func() int { return d.intN(most + 1) }
}

// draw is a seeded source for concurrent use.
type draw struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func newDraw(seed uint64) *draw {
	return &draw{rng: rand.New(rand.NewPCG(seed, 0x6c616e65))}
}

func (d *draw) intN(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// hit is true in a share of its calls.
func (d *draw) hit(share float64) bool {
	if share <= 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.Float64() < share
}

type faults struct {
	Faults
	draw *draw
}

func newFaults(f Faults) *faults { return &faults{Faults: f, draw: newDraw(f.Seed)} }

// history remembers the latest item writes in order, so that a read can see the
// table as it was some writes ago.
type history struct {
	mu      sync.RWMutex // held by readers over their whole read
	changes []change
}

type change struct {
	atMS   int64
	key    op.Key
	before op.Item
}

// append is called by the writer with mu held.
func (h *history) append(nowMS int64, effects []effect) {
	for _, e := range effects {
		h.changes = append(h.changes, change{nowMS, e.key, e.before})
	}
	if len(h.changes) > 2*maxHistory {
		h.changes = append([]change(nil), h.changes[len(h.changes)-maxHistory:]...)
	}
}

// ago returns what the items that were written in the last n writes, or after
// sinceMS, held before.
func (h *history) ago(n int, sinceMS int64) map[op.Key]op.Item {
	from := max(0, len(h.changes)-max(n, 0))
	for from > 0 && h.changes[from-1].atMS > sinceMS {
		from--
	}
	old := make(map[op.Key]op.Item, len(h.changes)-from)
	for _, c := range h.changes[from:] {
		if _, ok := old[c.key]; !ok {
			old[c.key] = c.before
		}
	}
	return old
}

// stale prepares a read: what it must see differently from the file. The
// returned function ends the read.
func (t *Table) stale(consistent bool, lag func() int) (map[op.Key]op.Item, func()) {
	if t.history == nil || consistent || lag == nil {
		return nil, func() {}
	}
	n := lag()
	t.history.mu.RLock()
	return t.history.ago(n, neverMS), t.history.mu.RUnlock
}

// staleQuery is stale for a query of the table or an index.
func (t *Table) staleQuery(q op.Query) (map[op.Key]op.Item, func()) {
	if q.Index == op.IndexNone {
		return t.stale(q.Consistent, t.faults.ReadLag)
	}
	if t.history == nil || (t.faults.IndexLag == nil && t.faults.IndexLagMS == nil) {
		return nil, func() {}
	}
	n, since := 0, int64(neverMS)
	if t.faults.IndexLag != nil {
		n = t.faults.IndexLag()
	}
	if t.faults.IndexLagMS != nil {
		since = t.db.nowMS() - t.faults.IndexLagMS()
	}
	t.history.mu.RLock()
	return t.history.ago(n, since), t.history.mu.RUnlock
}

const neverMS = 1<<63 - 1

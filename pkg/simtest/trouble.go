package simtest

import (
	"math/rand/v2"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// trouble is what happens in few histories, each at most once.
type trouble struct {
	Storms   int // a whole class fails for a while
	Bends    int // somebody's hand in a ledger
	Restarts int // of everything
}

func drawTrouble(rng *rand.Rand) (t trouble) {
	for _, o := range []struct {
		n      *int
		chance float64
	}{{&t.Storms, 0.01}, {&t.Bends, 0.04}, {&t.Restarts, 0.04}} {
		if rng.Float64() < o.chance {
			*o.n = 1
		}
	}
	return t
}

// happen lets it happen.
func (t trouble) happen(w *World) {
	if t.Storms > 0 {
		w.client("storm", "beta", func(c *Client) {
			storm(c, []string{"broken", "useless"}[c.rng.IntN(2)], 50, 20*time.Second+time.Duration(c.rng.Int64N(int64(40*time.Second))))
		})
	}
	if t.Bends > 0 {
		tenant := []string{"alpha", "beta"}[w.rng.IntN(2)]
		w.after(w.between(time.Second, 40*time.Second), func() { w.bendWork(tenant, w.rng.Float64()*4-1) })
	}
	if t.Restarts > 0 {
		w.after(w.between(time.Second, 40*time.Second), w.restart)
	}
}

// bendWork changes the work of a tenant's ledger by a part of it, or by some where
// there is none. It never becomes negative.
func (w *World) bendWork(tenant string, part float64) {
	if w.table.Peek(taskop.LedgerKey(tenant)) == nil {
		return // there is none before the first accept
	}
	by := int64(part * float64(w.model.ledgers[tenant].WorkMS))
	if by == 0 {
		by = 700
	}
	w.note("tampering with the ledger of %s: %+d", tenant, by)
	w.put(op.Write{Name: "tamper", Key: taskop.LedgerKey(tenant), Action: op.Update, Changes: []op.Change{op.Add("work", by)}})
}

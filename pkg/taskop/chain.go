package taskop

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// Tasks of one tenant with one ordering key form a chain: an item that says whose
// turn it is, and an entry for each task that has not been passed. Only
// the head of a chain stands in the ready order, or runs; the others are held. A row
// and its place in the chain are written together; that a head has ended is found out
// afterwards by whoever ended it, or by a visit to the next one (package chain).

const (
	oHead = "h" // the number of the head; missing when nobody is in the chain
	oLast = "n" // the last number given
	oWork = "w" // amounts of all that are in it, ms
	oTask = "t" // on an entry: the task
	oAmt  = "a" // its amount
	oWho  = "o" // and the nonce of the admission by which it entered

	chainEntry  = "e"
	chainHeader = "h"
)

// heldOwner stands where a parked task's tenant stands: no tenant has that name.
const heldOwner = "="

// HeldOwner is under whom the tasks are parked that wait for others of their
// ordering key.
func HeldOwner() string { return heldOwner }

// ChainKey is the key of the chain of a tenant's ordering key.
func ChainKey(tenant, orderingKey string) op.Key {
	sum := sha256.Sum256([]byte(orderingKey))
	return op.Key{PK: "O#" + tenant + "#" + hex.EncodeToString(sum[:16]), SK: chainHeader}
}

func chainEntryKey(tenant, orderingKey string, n int64) op.Key {
	return op.Key{PK: ChainKey(tenant, orderingKey).PK, SK: fmt.Sprintf("%s%016d", chainEntry, n)}
}

// Chain is a chain's item. The zero Chain is one that nobody is in.
type Chain struct{ Head, Last, WorkMS int64 }

// DecodeChain reads a chain's item, nil when there is none.
func DecodeChain(it op.Item) Chain {
	return Chain{Head: it.Int(oHead), Last: it.Int(oLast), WorkMS: it.Int(oWork)}
}

func (c Chain) unchanged() op.All { return op.All{op.Equals(oHead, c.Head), op.Equals(oLast, c.Last)} }

// Join are the writes by which a task enters the chain as it was read, in the
// transaction that accepts it: the chain's item, then its entry. t.Seq is its
// number, t.Held says that it is not the head.
func Join(t *task.Task, c Chain) []op.Write {
	changes := []op.Change{op.SetN(oLast, t.Seq), op.Add(oWork, t.AmountMS)}
	if !t.Held {
		changes = append(changes, op.SetN(oHead, t.Seq))
	}
	return []op.Write{
		{Name: "join.chain", Key: ChainKey(t.Tenant, t.OrderingKey), Action: op.Update, Cond: c.unchanged(), Changes: changes},
		{Name: "join.entry", Key: chainEntryKey(t.Tenant, t.OrderingKey, t.Seq), Action: op.Put,
			Item: op.Item{oTask: op.S(t.ID), oAmt: op.N(t.AmountMS), oWho: op.S(t.Nonce)}},
	}
}

// ChainEntry is a task's place in a chain.
type ChainEntry struct {
	N        int64
	ID       string
	AmountMS int64
	Nonce    string // of the admission by which it entered
}

// ChainEntries is the query of a chain's entries from a number on, in order.
func ChainEntries(tenant, orderingKey string, from int64) op.Query {
	k := chainEntryKey(tenant, orderingKey, from)
	return op.Query{PK: k.PK, From: k.SK, To: chainEntry + "~", Consistent: true}
}

// DecodeChainEntry reads a row of ChainEntries.
func DecodeChainEntry(key op.Key, it op.Item) (ChainEntry, error) {
	n, err := strconv.ParseInt(key.SK[len(chainEntry):], 10, 64)
	if err != nil {
		return ChainEntry{}, fmt.Errorf("taskop: bad chain entry %q: %w", key.SK, err)
	}
	return ChainEntry{N: n, ID: it.Str(oTask), AmountMS: it.Int(oAmt), Nonce: it.Str(oWho)}, nil
}

// PassOn makes the task with number next the head of a chain whose head, the entry
// ended, is over. With next 0 nobody is left and the chain's item goes. It holds only
// on the chain as it was read. Numbers begin afresh when nobody is left, so that the entry must
// also be of the same admission: a copy that comes late would else pass over another task.
func PassOn(tenant, orderingKey string, c Chain, ended ChainEntry, next int64) op.Tx {
	header := op.Write{Name: "pass_on.chain", Key: ChainKey(tenant, orderingKey), Action: op.Update, Cond: c.unchanged(),
		Changes: []op.Change{op.SetN(oHead, next), op.Add(oWork, -ended.AmountMS)}}
	if next == 0 {
		header.Action, header.Changes = op.Delete, nil
	}
	entry := op.Write{Name: "pass_on.entry", Key: chainEntryKey(tenant, orderingKey, ended.N), Action: op.Delete, Cond: op.Missing{Attr: oWho}}
	if ended.Nonce != "" {
		entry.Cond = op.Is(oWho, op.S(ended.Nonce))
	}
	return op.Tx{Name: "pass_on", Writes: []op.Write{header, entry}}
}

// UnholdRow puts the head of a chain, which was held, into the ready order.
func UnholdRow(t *task.Task) op.Write {
	back := *t
	back.Parked, back.Held = false, false
	rk, rs := readyKeys(&back)
	return rowUpdate("unhold.row", t, op.Exists{Attr: aHeld}, op.SetS(readyKey, rk), op.SetS(readySort, rs), op.Remove(aHeld))
}

// EnterHeld counts a task that waits for others of its ordering key.
func EnterHeld(lane string, amountMS int64, g *Guard) op.Write {
	return once(laneUpdate("lane.enter_held", lane, g.cond(), op.Add(nParked, 1), op.Add(nWork, amountMS), op.Add(nEntered, amountMS)))
}

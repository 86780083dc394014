package memtable

import (
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// place is a position in a partition: the sort key, then the item's key, which
// decides between equal ones. In the table itself pk is "" and sk repeats sort.
type place struct{ sort, pk, sk string }

func (p place) compare(q place) int {
	if c := strings.Compare(p.sort, q.sort); c != 0 {
		return c
	}
	if c := strings.Compare(p.pk, q.pk); c != 0 {
		return c
	}
	return strings.Compare(p.sk, q.sk)
}

// partition is a sorted list of places.
type partition struct{ places []place }

func (p *partition) insert(at place) {
	if i, there := slices.BinarySearchFunc(p.places, at, place.compare); !there {
		p.places = slices.Insert(p.places, i, at)
	}
}

func (p *partition) remove(at place) {
	if i, there := slices.BinarySearchFunc(p.places, at, place.compare); there {
		p.places = slices.Delete(p.places, i, i+1)
	}
}

// change is an item's move in an index that is not shown yet.
type change struct {
	showNS   int64
	key      op.Key
	from, to op.Key // keys of the index; zero: not in it
}

// index is what queries of a secondary index see.
type index struct {
	parts   map[string]*partition
	pending []change         // in the order of the writes
	last    map[op.Key]int64 // per item with pending changes, when the last shows
}

func newIndex() *index {
	return &index{parts: map[string]*partition{}, last: map[op.Key]int64{}}
}

func (x *index) show(key, from, to op.Key) {
	if from != (op.Key{}) {
		x.parts[from.PK].remove(place{from.SK, key.PK, key.SK})
	}
	if to == (op.Key{}) {
		return
	}
	p := x.parts[to.PK]
	if p == nil {
		p = &partition{}
		x.parts[to.PK] = p
	}
	p.insert(place{to.SK, key.PK, key.SK})
}

// catchUp shows what is due by now.
func (x *index) catchUp(nowNS int64) {
	if len(x.pending) == 0 {
		return
	}
	left := x.pending[:0]
	for _, c := range x.pending {
		if c.showNS > nowNS {
			left = append(left, c)
			continue
		}
		x.show(c.key, c.from, c.to)
		if x.last[c.key] == c.showNS {
			delete(x.last, c.key)
		}
	}
	x.pending = left
}

func entryOf(ix op.Index, item op.Item) op.Key {
	pk, sk := ix.Keys()
	key := op.Key{PK: item.Str(pk), SK: item.Str(sk)}
	if key.PK == "" || key.SK == "" {
		return op.Key{}
	}
	return key
}

func (t *Table) reindex(ix op.Index, key op.Key, before, after op.Item) {
	from, to := entryOf(ix, before), entryOf(ix, after)
	if from == to {
		return
	}
	x := t.indexes[ix]
	if t.opts.Now == nil || t.opts.LagNS == nil {
		x.show(key, from, to)
		return
	}
	now := t.opts.Now()
	x.catchUp(now)
	shown := max(now+t.opts.LagNS(), x.last[key])
	if shown <= now {
		x.show(key, from, to)
		return
	}
	x.last[key] = shown
	x.pending = append(x.pending, change{shown, key, from, to})
}

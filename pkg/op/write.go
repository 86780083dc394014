package op

import (
	"errors"
	"fmt"
	"strings"
)

// Verb is what a Change does to an attribute.
type Verb uint8

// The verbs of an update. Add treats a missing attribute as 0.
const (
	VerbSet Verb = iota
	VerbAdd
	VerbRemove
)

// Change is one part of an update. An attribute appears in at most one.
type Change struct {
	Verb  Verb
	Attr  string
	Value Value // Set: any; Add: a number; Remove: none
}

// Set gives the attribute a value.
func Set(attr string, v Value) Change { return Change{VerbSet, attr, v} }

// SetN gives the attribute a number.
func SetN(attr string, n int64) Change { return Change{VerbSet, attr, N(n)} }

// SetS gives the attribute a string.
func SetS(attr, s string) Change { return Change{VerbSet, attr, S(s)} }

// Add adds n to the attribute.
func Add(attr string, n int64) Change { return Change{VerbAdd, attr, N(n)} }

// Remove removes the attribute.
func Remove(attr string) Change { return Change{VerbRemove, attr, Value{}} }

// Action is what a Write does to its item.
type Action uint8

// The actions. Update creates a missing item unless its condition forbids it;
// Check writes nothing and only makes sense inside a transaction.
const (
	Put Action = iota
	Update
	Delete
	Check
)

// Write is one conditional write of one item.
type Write struct {
	// Name says which business operation and which item ("accept.row"); it
	// names the write in metrics, faults and mutants.
	Name    string
	Key     Key
	Action  Action
	Cond    Cond
	Item    Item     // Put: the whole item
	Changes []Change // Update

	// Once marks a write that would count twice if it were applied twice (a
	// bare ADD). Engines then never send it a second time by themselves; an
	// uncertain outcome is reported as [Unavailable] and left to repair.
	Once bool
}

// Tx is several writes of different items that happen together or not at all.
// Repeating a Tx after an uncertain outcome is the caller's affair: its
// conditions must recognise its own first application.
type Tx struct {
	Name   string
	Writes []Write
}

// Index names a secondary index. Indexes are sparse (an item is in one when
// it has both key attributes), keys-only and may lag behind the items.
type Index string

// The indexes of the table, and the attributes that are their keys.
const (
	IndexNone  Index = ""      // the table itself
	IndexDue   Index = "due"   // "dk", "ds": what must be looked at by when
	IndexReady Index = "ready" // "rk", "rs": what waits, in order of release
)

// Keys returns the names of the index's partition and sort attributes.
func (ix Index) Keys() (pk, sk string) {
	switch ix {
	case IndexDue:
		return "dk", "ds"
	case IndexReady:
		return "rk", "rs"
	}
	return AttrPK, AttrSK
}

// Indexes lists the secondary indexes.
func Indexes() []Index { return []Index{IndexDue, IndexReady} }

// Query reads one partition in sort order.
type Query struct {
	Index      Index
	PK         string
	From, To   string // inclusive bounds of the sort key; "" is open
	Descending bool
	Limit      int    // rows at most per page; 0 = the engine's page size
	Cursor     string // from an earlier page; opaque
	Consistent bool   // table only; an index is never consistent
}

// Page is a part of a query's answer. An empty page may still have a Cursor;
// only an empty Cursor ends the answer. Rows of an index hold the item's key and
// the index's two key attributes, nothing else.
type Page struct {
	Rows   []Row
	Cursor string
}

// Limits that every engine enforces (DynamoDB's).
const (
	MaxItemBytes = 400 << 10
	MaxTxWrites  = 100
	MaxTxBytes   = 4 << 20
	MaxBatchGet  = 100
	MaxPKBytes   = 2048 // of a partition key, the table's or an index's
	MaxSKBytes   = 1024 // of a sort key
)

// Validate reports every fault of the write that no engine would accept.
func (w Write) Validate() error {
	var errs []error
	fault := func(format string, a ...any) {
		errs = append(errs, fmt.Errorf("op: write %q: %s", w.Name, fmt.Sprintf(format, a...)))
	}
	if w.Key.PK == "" || w.Key.SK == "" {
		fault("empty key %q/%q", w.Key.PK, w.Key.SK)
	}
	if len(w.Key.PK) > MaxPKBytes || len(w.Key.SK) > MaxSKBytes {
		fault("a key of %d and %d bytes, allowed are %d and %d", len(w.Key.PK), len(w.Key.SK), MaxPKBytes, MaxSKBytes)
	}
	if err := validateCond(w.Cond); err != nil {
		fault("%v", err)
	}
	if w.Action == Check && w.Cond == nil {
		fault("a check without a condition")
	}
	if w.Action != Put && w.Item != nil {
		fault("an item on an action other than put")
	}
	if w.Action != Update && len(w.Changes) > 0 {
		fault("changes on an action other than update")
	}
	if w.Action == Update && len(w.Changes) == 0 {
		fault("an update without changes")
	}
	for attr, v := range w.Item {
		if v.kind == KindNone {
			fault("attribute %q has no value", attr)
		}
		if attr == AttrPK || attr == AttrSK {
			fault("attribute %q belongs to the key", attr)
		}
		if attr == "" {
			fault("an attribute without a name")
		}
		if !fitsIndex(attr, v) {
			fault("index key %q must be a non-empty string within the key's limit", attr)
		}
	}
	seen := map[string]bool{}
	for _, c := range w.Changes {
		switch {
		case c.Attr == "" || c.Attr == AttrPK || c.Attr == AttrSK:
			fault("cannot change attribute %q", c.Attr)
		case seen[c.Attr]:
			fault("attribute %q is changed twice", c.Attr)
		case c.Verb == VerbAdd && c.Value.kind != KindInt:
			fault("adds a value that is no number to %q", c.Attr)
		case c.Verb == VerbSet && c.Value.kind == KindNone:
			fault("sets %q to no value", c.Attr)
		case c.Verb == VerbSet && !fitsIndex(c.Attr, c.Value), c.Verb == VerbAdd && !fitsIndex(c.Attr, c.Value):
			fault("index key %q must be a non-empty string within the key's limit", c.Attr)
		}
		seen[c.Attr] = true
	}
	return errors.Join(errs...)
}

// Validate reports every fault of the transaction that no engine would accept.
func (tx Tx) Validate() error {
	var errs []error
	if len(tx.Writes) == 0 || len(tx.Writes) > MaxTxWrites {
		errs = append(errs, fmt.Errorf("op: transaction %q has %d writes, allowed are 1 to %d", tx.Name, len(tx.Writes), MaxTxWrites))
	}
	seen := map[Key]bool{}
	for _, w := range tx.Writes {
		errs = append(errs, w.Validate())
		if seen[w.Key] {
			errs = append(errs, fmt.Errorf("op: transaction %q names %v twice", tx.Name, w.Key))
		}
		seen[w.Key] = true
	}
	return errors.Join(errs...)
}

// fitsIndex says whether the attribute may have the value: keys of an index are
// non-empty strings of limited length, all others are free.
func fitsIndex(attr string, v Value) bool {
	for _, ix := range Indexes() {
		switch pk, sk := ix.Keys(); attr {
		case pk:
			return v.Str() != "" && v.Len() <= MaxPKBytes
		case sk:
			return v.Str() != "" && v.Len() <= MaxSKBytes
		}
	}
	return true
}

// Apply performs an update on a copy of item (nil: a new one) and returns the
// copy. An Add to an attribute that is no number, or beyond int64, is an error.
// Nothing but removes does not create a missing item: the result is nil then,
// as in DynamoDB.
func Apply(item Item, changes []Change) (Item, error) {
	out := item.Clone()
	if out == nil {
		creates := false
		for _, c := range changes {
			creates = creates || c.Verb != VerbRemove
		}
		if !creates {
			return nil, nil
		}
		out = Item{}
	}
	for _, c := range changes {
		switch c.Verb {
		case VerbSet:
			out[c.Attr] = c.Value
		case VerbRemove:
			delete(out, c.Attr)
		case VerbAdd:
			have, ok := out[c.Attr]
			if ok && have.kind != KindInt {
				return nil, fmt.Errorf("op: add to %q, which is %s", c.Attr, have)
			}
			sum := have.n + c.Value.n
			if (sum > have.n) != (c.Value.n > 0) && c.Value.n != 0 {
				return nil, fmt.Errorf("op: add %d to %q = %d overflows", c.Value.n, c.Attr, have.n)
			}
			out[c.Attr] = N(sum)
		}
	}
	return out, nil
}

// Size is the item's size in bytes by DynamoDB's rules: attribute names and
// values in UTF-8, about one byte per two significant digits of a number plus
// one (Amazon DynamoDB Developer Guide, "Item sizes and formats").
func Size(key Key, item Item) int {
	size := len(AttrPK) + len(key.PK) + len(AttrSK) + len(key.SK)
	for attr, v := range item {
		size += len(attr) + sizeOf(v)
	}
	return size
}

func sizeOf(v Value) int {
	if v.kind != KindInt {
		return len(v.s)
	}
	if v.n == 0 {
		return 1
	}
	digits := strings.TrimRight(strings.TrimLeft(fmt.Sprint(v.n), "-"), "0")
	size := 1 + (len(digits)+1)/2
	if v.n < 0 {
		size++
	}
	return size
}

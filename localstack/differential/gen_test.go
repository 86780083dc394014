package differential

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// step is one call; exactly one field is set.
type step struct {
	write *op.Write
	tx    *op.Tx
	get   *op.Key
	batch []op.Key
	query *op.Query
}

func (s step) String() string {
	switch {
	case s.write != nil:
		return fmt.Sprintf("write %+v", *s.write)
	case s.tx != nil:
		text := "transaction"
		for _, w := range s.tx.Writes {
			text += fmt.Sprintf("\n      %+v", w)
		}
		return text
	case s.get != nil:
		return fmt.Sprintf("get %v", *s.get)
	case s.query != nil:
		return fmt.Sprintf("query %+v", *s.query)
	}
	return fmt.Sprintf("batch %v", s.batch)
}

// gen draws steps over few keys, attributes and values, so that they meet.
// Every key and index key begins with the prefix: sequences do not mix.
type gen struct {
	rng    *rand.Rand
	prefix string
	engine engine
}

func newGen(seed uint64, prefix string, e engine) *gen {
	return &gen{rng: rand.New(rand.NewPCG(seed, 0x64696666)), prefix: prefix, engine: e}
}

func pick[T any](g *gen, of ...T) T { return of[g.rng.IntN(len(of))] }

func (g *gen) chance(percent int) bool { return g.rng.IntN(100) < percent }

// engine says what a stand-in for DynamoDB cannot do, so that it is not asked.
type engine struct {
	oneKind       bool // fails on a comparison of different kinds instead of finding it false
	unsetEqual    bool // takes two missing attributes for equal
	removeCreates bool // creates an item by REMOVE alone
}

var (
	partitions = []string{"T#a", "T#b"}
	sorts      = []string{"1", "10", "2", "é"}
	places     = []string{"x", "y"}
	orders     = []string{"05", "1", "10", "2", "ä"}
	counters   = []string{"n", "work", "status"} // "status" is one of DynamoDB's reserved words
	others     = []string{"s", "m", "size", "b.c"}
)

// extremes are exact in floating point too: minidyn counts that way.
var extremes = []int64{-1 << 52, 1 << 52, -1, 0, 1, 2, 3, 7, 10, 100}

func (g *gen) key() op.Key {
	return op.Key{PK: g.prefix + pick(g, partitions...), SK: pick(g, sorts...)}
}

func (g *gen) value(k op.Kind) op.Value {
	switch k {
	case op.KindInt:
		return op.N(pick(g, extremes...))
	case op.KindBytes:
		return op.B([]byte(pick(g, "a", "b", "\x00\xff")))
	default:
		return op.S(pick(g, "", "a", "b", "7", "é", "Z"))
	}
}

// kind draws what an attribute holds: "size" and "b.c" hold anything, where
// the engine can compare different kinds.
func (g *gen) kind(attr string) op.Kind {
	switch attr {
	case "n", "work", "status":
		return op.KindInt
	case "m":
		return op.KindBytes
	case "size", "b.c":
		if !g.engine.oneKind {
			return pick(g, op.KindInt, op.KindString, op.KindBytes)
		}
	}
	return op.KindString
}

// attr draws an attribute and a value that it may have.
func (g *gen) attr() (string, op.Value) {
	switch g.rng.IntN(10) {
	case 0, 1:
		return pick(g, "dk", "rk"), op.S(g.prefix + pick(g, places...))
	case 2, 3:
		return pick(g, "ds", "rs"), op.S(pick(g, orders...))
	case 4, 5, 6:
		return pick(g, counters...), g.value(op.KindInt)
	default:
		a := pick(g, others...)
		return a, g.value(g.kind(a))
	}
}

func (g *gen) comparison() op.Op { return pick(g, op.Eq, op.Lt, op.Le, op.Gt, op.Ge) }

func (g *gen) cond(depth int) op.Cond {
	form := g.rng.IntN(10)
	if depth == 0 {
		form %= 7
	}
	a, v := g.attr()
	switch form {
	case 0:
		return pick(g, op.ItemExists, op.ItemMissing)
	case 1:
		return op.Exists{Attr: a}
	case 2:
		return op.Missing{Attr: a}
	case 3:
		return op.AtMost(pick(g, counters...), pick(g, extremes...))
	case 4:
		return op.Equals(pick(g, counters...), pick(g, extremes...))
	case 5:
		if b, w := g.attr(); b != a && (v.Kind() == w.Kind() || !g.engine.oneKind) {
			c := op.CmpAttr{Attr: a, Op: g.comparison(), Other: b}
			if g.engine.unsetEqual {
				return op.All{op.Exists{Attr: a}, op.Exists{Attr: b}, c}
			}
			return c
		}
		return op.Cmp{Attr: op.AttrSK, Op: g.comparison(), Value: op.S(pick(g, sorts...))}
	case 6:
		if g.chance(20) && !g.engine.oneKind {
			v = g.value(g.kind("size"))
		}
		return op.Cmp{Attr: a, Op: g.comparison(), Value: v}
	}
	terms := make([]op.Cond, 1+g.rng.IntN(3))
	for i := range terms {
		terms[i] = g.cond(depth - 1)
	}
	if form == 7 {
		return op.Any(terms)
	}
	return op.All(terms)
}

func (g *gen) item() op.Item {
	item := op.Item{}
	for range g.rng.IntN(6) {
		a, v := g.attr()
		item[a] = v
	}
	if g.chance(50) {
		pk, sk := pick(g, op.Indexes()...).Keys()
		item[pk], item[sk] = op.S(g.prefix+pick(g, places...)), op.S(pick(g, orders...))
	}
	return item
}

func (g *gen) changes() []op.Change {
	var out []op.Change
	seen := map[string]bool{}
	for range 1 + g.rng.IntN(4) {
		var c op.Change
		switch g.rng.IntN(3) {
		case 0:
			a, v := g.attr()
			c = op.Set(a, v)
		case 1:
			c = op.Add(pick(g, counters...), pick(g, extremes[2:]...))
		default:
			a, _ := g.attr()
			c = op.Remove(a)
		}
		if !seen[c.Attr] {
			seen[c.Attr] = true
			out = append(out, c)
		}
	}
	if g.engine.removeCreates && !slices.ContainsFunc(out, func(c op.Change) bool { return c.Verb != op.VerbRemove }) {
		out = append(out, op.SetN("v", 1))
	}
	return out
}

// write draws a write of the key. Counters only ever hold numbers, so every
// addition is possible.
func (g *gen) write(key op.Key, name string) op.Write {
	w := op.Write{Name: name, Key: key}
	if g.chance(65) {
		w.Cond = g.cond(2)
	}
	switch g.rng.IntN(10) {
	case 0, 1, 2:
		w.Action, w.Item = op.Put, g.item()
	case 3:
		w.Action = op.Delete
	default:
		w.Action, w.Changes = op.Update, g.changes()
		w.Once = slices.ContainsFunc(w.Changes, func(c op.Change) bool { return c.Verb == op.VerbAdd })
	}
	return w
}

// step draws step n; a sequence begins with items to work on.
func (g *gen) step(n int) step {
	if n < 4 {
		return step{write: &op.Write{Name: "w", Key: g.key(), Item: g.item()}}
	}
	switch g.rng.IntN(20) {
	case 0, 1:
		k := g.key()
		return step{get: &k}
	case 2:
		var keys []op.Key
		seen := map[op.Key]bool{}
		for range 1 + g.rng.IntN(5) {
			if k := g.key(); !seen[k] {
				seen[k] = true
				keys = append(keys, k)
			}
		}
		return step{batch: keys}
	case 3, 4, 5:
		return step{query: g.query()}
	case 6, 7, 8, 9, 10:
		tx := op.Tx{Name: "tx"}
		seen := map[op.Key]bool{}
		for range 1 + g.rng.IntN(4) {
			k := g.key()
			if seen[k] {
				continue
			}
			seen[k] = true
			w := g.write(k, fmt.Sprint("w", len(tx.Writes)))
			if g.chance(15) {
				w = op.Write{Name: w.Name, Key: k, Action: op.Check, Cond: g.cond(2)}
			}
			tx.Writes = append(tx.Writes, w)
		}
		return step{tx: &tx}
	}
	w := g.write(g.key(), "w")
	return step{write: &w}
}

func (g *gen) query() *op.Query {
	q := op.Query{PK: g.prefix + pick(g, partitions...), Consistent: true, Descending: g.chance(40)}
	bounds := sorts
	if g.chance(60) {
		q.Index, q.PK, q.Consistent = pick(g, op.Indexes()...), g.prefix+pick(g, places...), false
		bounds = orders
	}
	if g.chance(40) {
		q.From = pick(g, bounds...)
	}
	if g.chance(40) {
		q.To = pick(g, bounds...)
	}
	if g.chance(50) {
		q.Limit = 1 + g.rng.IntN(3)
	}
	return &q
}

// rest reads everything that a sequence may have left.
func (g *gen) rest() []step {
	var out []step
	for _, pk := range partitions {
		out = append(out, step{query: &op.Query{PK: g.prefix + pk, Consistent: true}})
	}
	for _, ix := range op.Indexes() {
		for _, place := range places {
			out = append(out, step{query: &op.Query{Index: ix, PK: g.prefix + place}})
		}
	}
	return out
}

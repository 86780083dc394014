package simtest

import (
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// Mutant is one condition term of one named write that is left out: an element
// of an All, an alternative of an Any, or a condition that is one term alone.
type Mutant struct {
	Write string // its name
	Term  string // what the term says, without its values
}

func (m Mutant) String() string { return m.Write + " without " + m.Term }

// Mutants lists the mutants of a write.
func Mutants(w op.Write) (out []Mutant) {
	walk(w.Cond, func(term string) bool {
		out = append(out, Mutant{w.Name, term})
		return false
	})
	return out
}

// Apply leaves the term out of every write of that name.
func (m Mutant) Apply(w op.Write) op.Write {
	if w.Name == m.Write {
		w.Cond = walk(w.Cond, func(term string) bool { return term == m.Term })
	}
	return w
}

// walk returns the condition without the terms that drop says yes to; nil is
// one that always holds.
func walk(c op.Cond, drop func(term string) bool) op.Cond {
	switch c := c.(type) {
	case nil:
		return nil
	case op.All:
		var kept op.All
		for _, term := range c {
			if _, nested := term.(op.All); !nested && drop(say(term)) {
				continue
			}
			if left := inside(term, drop); left != nil {
				kept = append(kept, left)
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return kept
	default:
		if drop(say(c)) {
			return nil
		}
		return inside(c, drop)
	}
}

// inside leaves out alternatives of an Any, never its last.
func inside(c op.Cond, drop func(term string) bool) op.Cond {
	switch c := c.(type) {
	case op.All:
		return walk(c, drop)
	case op.Any:
		var kept op.Any
		for _, term := range c {
			if !drop("the alternative " + say(term)) {
				kept = append(kept, inside(term, drop))
			}
		}
		return kept
	default:
		return c
	}
}

// say describes a term without ids and values.
func say(c op.Cond) string {
	attr := func(a string) string {
		if i := strings.IndexByte(a, '#'); i > 0 {
			return a[:i+1] + "…"
		}
		return a
	}
	list := func(terms []op.Cond, by string) string {
		var out []string
		for _, t := range terms {
			out = append(out, say(t))
		}
		return "(" + strings.Join(out, by) + ")"
	}
	switch c := c.(type) {
	case op.Exists:
		return attr(c.Attr) + " exists"
	case op.Missing:
		return attr(c.Attr) + " missing"
	case op.Cmp:
		return fmt.Sprintf("%s %v", attr(c.Attr), c.Op)
	case op.CmpAttr:
		return fmt.Sprintf("%s %v %s", attr(c.Attr), c.Op, attr(c.Other))
	case op.All:
		return list(c, " and ")
	case op.Any:
		return list(c, " or ")
	}
	return "?"
}

// forget leaves a change out of every write of a name.
func forget(write, attr string) func(op.Write) op.Write {
	return func(w op.Write) op.Write {
		if w.Name != write {
			return w
		}
		var kept []op.Change
		for _, c := range w.Changes {
			if c.Attr != attr {
				kept = append(kept, c)
			}
		}
		w.Changes = kept
		return w
	}
}

package op

import (
	"errors"
	"fmt"
)

// Op is a comparison.
type Op uint8

// The comparisons; there is no "not equal" on purpose (see the package comment).
const (
	Eq Op = iota
	Lt
	Le
	Gt
	Ge
)

// String is the operator as DynamoDB writes it.
func (o Op) String() string { return [...]string{"=", "<", "<=", ">", ">="}[o] }

func (o Op) holds(order int) bool {
	switch o {
	case Eq:
		return order == 0
	case Lt:
		return order < 0
	case Le:
		return order <= 0
	case Gt:
		return order > 0
	default:
		return order >= 0
	}
}

// Cond is a condition on one item: [Exists], [Missing], [Cmp], [CmpAttr],
// [All] or [Any]. A nil Cond always holds.
type Cond interface{ isCond() }

// Exists holds when the attribute is present.
type Exists struct{ Attr string }

// Missing holds when the attribute is absent.
type Missing struct{ Attr string }

// Cmp compares an attribute with a value. False when the attribute is missing
// or of another kind.
type Cmp struct {
	Attr  string
	Op    Op
	Value Value
}

// CmpAttr compares two attributes of the item. False when either is missing.
type CmpAttr struct {
	Attr  string
	Op    Op
	Other string
}

// All holds when every term does; it has at least one.
type All []Cond

// Any holds when a term does; it has at least one.
type Any []Cond

func (Exists) isCond()  {}
func (Missing) isCond() {}
func (Cmp) isCond()     {}
func (CmpAttr) isCond() {}
func (All) isCond()     {}
func (Any) isCond()     {}

// ItemExists holds when the item is there at all.
var ItemExists Cond = Exists{AttrPK}

// ItemMissing holds when there is no item under the key.
var ItemMissing Cond = Missing{AttrPK}

// Is is shorthand for Cmp{attr, Eq, v}.
func Is(attr string, v Value) Cond { return Cmp{attr, Eq, v} }

// AtMost holds when the attribute is at most n, a missing one counting as 0
// (so for n < 0 it must be present).
func AtMost(attr string, n int64) Cond {
	c := Cmp{attr, Le, N(n)}
	if n < 0 {
		return c
	}
	return Any{Missing{attr}, c}
}

// Equals holds when the attribute equals n, a missing one counting as 0.
func Equals(attr string, n int64) Cond {
	if n == 0 {
		return Any{Missing{attr}, Cmp{attr, Eq, N(0)}}
	}
	return Cmp{attr, Eq, N(n)}
}

// validateCond reports a condition that no engine could express.
func validateCond(cond Cond) error {
	terms := func(name string, list []Cond) error {
		if len(list) == 0 {
			return fmt.Errorf("an empty %s", name)
		}
		for _, c := range list {
			if c == nil {
				return fmt.Errorf("an empty term in %s", name)
			}
			if err := validateCond(c); err != nil {
				return err
			}
		}
		return nil
	}
	attr := ""
	switch c := cond.(type) {
	case nil:
		return nil
	case All:
		return terms("All", c)
	case Any:
		return terms("Any", c)
	case Exists:
		attr = c.Attr
	case Missing:
		attr = c.Attr
	case Cmp:
		if c.Value.kind == KindNone {
			return fmt.Errorf("a comparison of %q with no value", c.Attr)
		}
		attr = c.Attr
	case CmpAttr:
		if c.Other == "" {
			return fmt.Errorf("a comparison of %q with an attribute without a name", c.Attr)
		}
		attr = c.Attr
	}
	if attr == "" {
		return errors.New("a condition on an attribute without a name")
	}
	return nil
}

// Eval says whether cond holds for the item under key; item is nil when there
// is none.
func Eval(cond Cond, key Key, item Item) bool {
	value := func(attr string) Value {
		if item == nil {
			return Value{}
		}
		switch attr {
		case AttrPK:
			return S(key.PK)
		case AttrSK:
			return S(key.SK)
		}
		return item[attr]
	}
	switch c := cond.(type) {
	case nil:
		return true
	case Exists:
		return value(c.Attr).kind != KindNone
	case Missing:
		return value(c.Attr).kind == KindNone
	case Cmp:
		order, ok := compare(value(c.Attr), c.Value)
		return ok && c.Op.holds(order)
	case CmpAttr:
		order, ok := compare(value(c.Attr), value(c.Other))
		return ok && c.Op.holds(order)
	case All:
		for _, term := range c {
			if !Eval(term, key, item) {
				return false
			}
		}
		return true
	case Any:
		for _, term := range c {
			if Eval(term, key, item) {
				return true
			}
		}
		return false
	}
	return false
}

package op

import (
	"bytes"
	"cmp"
	"fmt"
	"sort"
	"strconv"
)

// Kind is the type of an attribute's value.
type Kind uint8

// The kinds of values that items hold. Numbers are whole: money, work and
// times are integer milliseconds, so that sums return to exactly zero.
const (
	KindNone Kind = iota
	KindString
	KindInt
	KindBytes
)

// Value is one attribute's value. The zero Value is "no value".
type Value struct {
	kind Kind
	n    int64
	s    string // string or bytes
}

// S makes a string value.
func S(s string) Value { return Value{kind: KindString, s: s} }

// N makes a number. DynamoDB keeps 38 digits, so all of int64 is exact.
func N(n int64) Value { return Value{kind: KindInt, n: n} }

// B makes a binary value; the bytes are copied.
func B(b []byte) Value { return Value{kind: KindBytes, s: string(b)} }

// Kind returns the value's kind.
func (v Value) Kind() Kind { return v.kind }

// Str returns the string, or "" when the value is of another kind.
func (v Value) Str() string {
	if v.kind != KindString {
		return ""
	}
	return v.s
}

// Int returns the number, or 0 when the value is of another kind.
func (v Value) Int() int64 { return v.n }

// Bytes returns a copy of the bytes, or nil when the value is of another kind.
func (v Value) Bytes() []byte {
	if v.kind != KindBytes {
		return nil
	}
	return []byte(v.s)
}

// Len is the length in bytes of a string or binary value.
func (v Value) Len() int { return len(v.s) }

// String shows the value in failures of tests and in logs of our own items.
func (v Value) String() string {
	switch v.kind {
	case KindString:
		return strconv.Quote(v.s)
	case KindInt:
		return strconv.FormatInt(v.n, 10)
	case KindBytes:
		return fmt.Sprintf("b%q", v.s)
	case KindNone:
	}
	return "none"
}

// compare orders two values of one kind; ok is false for different kinds.
func compare(a, b Value) (order int, ok bool) {
	if a.kind != b.kind || a.kind == KindNone {
		return 0, false
	}
	switch a.kind {
	case KindInt:
		return cmp.Compare(a.n, b.n), true
	case KindBytes:
		return bytes.Compare([]byte(a.s), []byte(b.s)), true
	default:
		return cmp.Compare(a.s, b.s), true
	}
}

// Key is an item's primary key.
type Key struct{ PK, SK string }

// Names of the key attributes, usable in conditions (Exists{AttrPK} says "the
// item exists") but never in updates or in an Item.
const (
	AttrPK = "pk"
	AttrSK = "sk"
)

// Item is an item's attributes without its key. A nil Item is a missing one.
type Item map[string]Value

// Int returns the attribute's number, 0 when missing.
func (it Item) Int(attr string) int64 { return it[attr].Int() }

// Str returns the attribute's string, "" when missing.
func (it Item) Str(attr string) string { return it[attr].Str() }

// Bytes returns the attribute's bytes, nil when missing.
func (it Item) Bytes(attr string) []byte { return it[attr].Bytes() }

// Has says whether the attribute is present.
func (it Item) Has(attr string) bool { return it[attr].kind != KindNone }

// Clone copies the item; nil stays nil.
func (it Item) Clone() Item {
	if it == nil {
		return nil
	}
	out := make(Item, len(it))
	for k, v := range it {
		out[k] = v
	}
	return out
}

// Attrs returns the attribute names in order.
func (it Item) Attrs() []string {
	names := make([]string, 0, len(it))
	for k := range it {
		names = append(names, k)
	}
	sort.Strings(names)
	return names
}

// Row is an item with its key.
type Row struct {
	Key  Key
	Item Item
}

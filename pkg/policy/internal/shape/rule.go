package shape

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Rule is what a tag demands of a value.
type Rule struct {
	Required       bool
	RequiredUnless string // required unless this sibling key is present
	Opt            bool   // the zero value means absent
	Default        string
	Min, Max       string // inclusive; of the value, or of the number of entries
	Enum           []string
	Form           string
	Ref            string
	Keys           string   // form of a map's keys
	KeyEnum        []string // the only keys of a map
	KeysRef        string

	lo, hi reflect.Value // Min and Max as values, where they bound a value
}

func parseRule(tag string) Rule {
	var r Rule
	for part := range strings.SplitSeq(tag, ",") {
		key, val, _ := strings.Cut(part, "=")
		switch key {
		case "":
		case "required":
			r.Required = true
		case "required_unless":
			r.RequiredUnless = val
		case "opt":
			r.Opt = true
		case "default":
			r.Default = val
		case "min":
			r.Min = val
		case "max":
			r.Max = val
		case "enum":
			r.Enum = strings.Split(val, "|")
		case "form":
			r.Form = val
		case "ref":
			r.Ref = val
		case "keys":
			if strings.Contains(val, "|") {
				r.KeyEnum = strings.Split(val, "|")
			} else {
				r.Keys = val
			}
		case "keysref":
			r.KeysRef = val
		default:
			panic("shape: unknown rule " + part)
		}
	}
	return r
}

// SetText sets a scalar from text.
func SetText(t *Type, v reflect.Value, s string) error {
	switch t.Kind {
	case Text:
		v.SetString(s)
	case Integer:
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return err
		}
		v.SetInt(n)
	case Number:
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return err
		}
		v.SetFloat(n)
	case Boolean:
		b, err := strconv.ParseBool(s)
		if err != nil {
			return err
		}
		v.SetBool(b)
	case Span, NumberOrSpan:
		return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s))
	default:
		return errors.New("not a scalar")
	}
	return nil
}

// Check says what is wrong with a scalar under a rule, or "". References are checked elsewhere.
func (r *Rule) Check(t *Type, v reflect.Value) string {
	if t.Kind == Number && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)) {
		return "must be a finite number"
	}
	if t.Kind == Text {
		return r.checkText(v.String())
	}
	if r.lo.IsValid() && compare(v, r.lo) < 0 || r.hi.IsValid() && compare(v, r.hi) > 0 {
		return fmt.Sprintf("must be %s, is %v", Range(r.Min, r.Max), v.Interface())
	}
	return ""
}

func (r *Rule) checkText(s string) string {
	if len(r.Enum) > 0 && !slices.Contains(r.Enum, s) {
		return fmt.Sprintf("must be %s, is %s", strings.Join(r.Enum, " or "), quote(s))
	}
	if r.Form != "" && !Forms[r.Form].Valid(s) {
		return fmt.Sprintf("must be %s, is %s", Forms[r.Form].Says, quote(s))
	}
	return ""
}

// CheckCount says what is wrong with the number of entries of a list or map, or "".
func (r *Rule) CheckCount(n int) string {
	if lo, err := strconv.Atoi(r.Min); err == nil && n < lo {
		if n == 0 {
			return "must not be empty"
		}
		return fmt.Sprintf("must have at least %d entries, has %d", lo, n)
	}
	if hi, err := strconv.Atoi(r.Max); err == nil && n > hi {
		return fmt.Sprintf("must have at most %d entries, has %d", hi, n)
	}
	return ""
}

// CheckKey says what is wrong with a key of a map, or "".
func (r *Rule) CheckKey(key string) string {
	if len(r.KeyEnum) > 0 && !slices.Contains(r.KeyEnum, key) {
		return fmt.Sprintf("unknown key; here only %s are", strings.Join(r.KeyEnum, ", "))
	}
	if r.Keys != "" && !Forms[r.Keys].Valid(key) {
		return fmt.Sprintf("its name must be %s", Forms[r.Keys].Says)
	}
	return ""
}

// Range words the inclusive bounds of a rule.
func Range(lo, hi string) string {
	switch {
	case lo == hi:
		return lo
	case hi == "":
		return "at least " + lo
	case lo == "":
		return "at most " + hi
	}
	return lo + " to " + hi
}

// bind makes the bounds of a rule values of the type they bound.
func (r *Rule) bind(t *Type) {
	if t.Kind != Integer && t.Kind != Number && t.Kind != Span {
		return // the bounds count entries
	}
	bound := func(s string) reflect.Value {
		if s == "" {
			return reflect.Value{}
		}
		v := reflect.New(t.Go).Elem()
		if err := SetText(t, v, s); err != nil {
			panic("shape: bound " + s + ": " + err.Error())
		}
		return v
	}
	r.lo, r.hi = bound(r.Min), bound(r.Max)
}

func compare(a, b reflect.Value) int {
	if a.CanFloat() {
		return cmp.Compare(a.Float(), b.Float())
	}
	return cmp.Compare(a.Int(), b.Int())
}

// quote shows a value of the file in a fault, cut to a length that fits a line.
func quote(s string) string {
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	return strconv.Quote(s)
}

package shape

import (
	"fmt"
	"reflect"
	"sort"
)

// Refs are the sets of names that ref and keysref speak of. A nil set is not checked.
type Refs map[string]map[string]bool

// Inspect checks every value below v against the rules of its type and reports what is wrong with each.
// It reports a nil entry of a map or list as a fault, so that after a clean run none is left. key tells faults of a map's
// key from faults of the value at the same path.
func Inspect(t *Type, v reflect.Value, refs Refs, report func(path, message string, key bool)) {
	in := inspection{refs, func(p, m string) { report(p, m, false) }, func(p, m string) { report(p, m, true) }}
	in.value(t, v, &Rule{}, &Rule{}, "")
}

type inspection struct {
	refs   Refs
	report func(path, message string)
	badKey func(path, message string)
}

func (in *inspection) value(t *Type, v reflect.Value, r, elem *Rule, path string) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch t.Kind {
	case Object:
		in.object(t, v, path)
	case Map:
		in.entries(t, v, r, elem, path)
	case List:
		if m := r.CheckCount(v.Len()); m != "" && !(r.Opt && v.Len() == 0) {
			in.report(path, m)
		}
		for i := range v.Len() {
			in.entry(t.Elem, v.Index(i), elem, Index(path, i))
		}
	default:
		if r.Opt && v.IsZero() {
			return
		}
		if m := r.Check(t, v); m != "" {
			in.report(path, m)
		} else if set := in.refs[r.Ref]; set != nil && !set[v.String()] {
			in.report(path, unknown(r.Ref, v.String()))
		}
	}
}

func (in *inspection) object(t *Type, v reflect.Value, path string) {
	for i := range t.Fields {
		f := &t.Fields[i]
		fv := v.Field(f.Index)
		if fv.Kind() == reflect.Pointer && fv.IsNil() {
			if f.Rule.Required {
				in.report(Key(path, f.Name), "is missing")
			}
			continue
		}
		in.value(f.Type, fv, &f.Rule, &f.Elem, Key(path, f.Name))
	}
}

func (in *inspection) entries(t *Type, v reflect.Value, r, elem *Rule, path string) {
	if m := r.CheckCount(v.Len()); m != "" && !(r.Opt && v.Len() == 0) {
		in.report(path, m)
	}
	keys := v.MapKeys()
	sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
	for _, k := range keys {
		at := Key(path, k.String())
		if m := r.CheckKey(k.String()); m != "" {
			in.badKey(at, m)
		} else if set := in.refs[r.KeysRef]; set != nil && !set[k.String()] {
			in.badKey(at, unknown(r.KeysRef, k.String()))
		}
		in.entry(t.Elem, v.MapIndex(k), elem, at)
	}
}

func (in *inspection) entry(t *Type, v reflect.Value, elem *Rule, path string) {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		in.report(path, "must be "+t.Kind.String()+", is empty")
		return
	}
	in.value(t, v, elem, &Rule{}, path)
}

func unknown(set, name string) string {
	return fmt.Sprintf("there is no %s %s", Singular[set], quote(name))
}

// Singular words one entry of a set of names.
var Singular = map[string]string{"lanes": "lane", "tiers": "tier", "dependencies": "dependency", "priorities": "priority"}

// Package shape describes configuration types by their struct tags, once, for everything that needs to know them: the
// YAML walker (unknown keys, wrong types, missing keys), the check of values, the list of keys not yet in force, and the
// JSON Schema. So these four cannot disagree about what a key is.
//
// Tags of a field:
//
//	json:"name,omitempty"  the key
//	rule:"..."             comma separated: required, required_unless=KEY, opt (zero means absent and is not checked),
//	                       default=V, min=V, max=V (of a value, or of the number of entries), enum=a|b, form=NAME, ref=SET,
//	                       keys=FORM or keys=a|b (of a map), keysref=SET (keys name entries of SET)
//	elem:"..."             the same for the entries of a list or map of scalars
//	later:"reason"         accepted and checked, but without effect until later
//	off:"V"                the value of a later key that asks for nothing (without it: the zero value)
package shape

import (
	"encoding"
	"reflect"
	"strings"
	"sync"
)

// Kind says what a value looks like in the file.
type Kind int

// The kinds of values.
const (
	Object       Kind = iota // a mapping with known keys
	Map                      // a mapping with free keys
	List                     // a sequence
	Text                     // a string
	Integer                  // a whole number
	Number                   // a finite number
	Boolean                  // true or false
	Span                     // text that decodes itself: a duration
	NumberOrSpan             // a finite number, or text that decodes itself
)

// String is the kind as it is named to the reader of a fault.
func (k Kind) String() string {
	return [...]string{"a mapping", "a mapping", "a list", "text", "a whole number", "a number", "true or false",
		"a duration such as 30s", "a number or a duration such as 30s"}[k]
}

// NumberSetter is implemented by types that accept a number as well as text.
type NumberSetter interface{ SetNumber(float64) }

// Type describes one Go type; pointers are looked through.
type Type struct {
	Go     reflect.Type
	Kind   Kind
	Fields []Field // of an Object, in source order
	Elem   *Type   // of a Map or List
}

// Field is one key of an Object.
type Field struct {
	Name   string // the key
	GoName string
	Index  int
	Type   *Type
	Rule   Rule
	Elem   Rule // for entries of a list or map of scalars
	Later  string
	Off    string
}

// Field finds a key of an Object, nil when there is none.
func (t *Type) Field(name string) *Field {
	for i := range t.Fields {
		if t.Fields[i].Name == name {
			return &t.Fields[i]
		}
	}
	return nil
}

var (
	mu        sync.Mutex
	known     = map[reflect.Type]*Type{}
	unmarshal = reflect.TypeFor[encoding.TextUnmarshaler]()
	setter    = reflect.TypeFor[NumberSetter]()
)

// Of describes a type. It panics on a type or tag it does not understand: that is a mistake in the program.
func Of(t reflect.Type) *Type {
	mu.Lock()
	defer mu.Unlock()
	return of(t)
}

func of(t reflect.Type) *Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s, ok := known[t]; ok {
		return s
	}
	s := &Type{Go: t}
	known[t] = s
	switch p := reflect.PointerTo(t); {
	case p.Implements(setter):
		s.Kind = NumberOrSpan
	case p.Implements(unmarshal):
		s.Kind = Span
	default:
		s.describe(t)
	}
	return s
}

func (t *Type) describe(goType reflect.Type) {
	switch goType.Kind() {
	case reflect.Struct:
		t.Kind = Object
		for i := range goType.NumField() {
			if f, ok := field(goType.Field(i), i); ok {
				t.Fields = append(t.Fields, f)
			}
		}
	case reflect.Map:
		t.Kind, t.Elem = Map, of(goType.Elem())
	case reflect.Slice:
		t.Kind, t.Elem = List, of(goType.Elem())
	case reflect.String:
		t.Kind = Text
	case reflect.Int, reflect.Int64:
		t.Kind = Integer
	case reflect.Float64:
		t.Kind = Number
	case reflect.Bool:
		t.Kind = Boolean
	default:
		panic("shape: " + goType.String() + " has no place in a configuration")
	}
}

func field(f reflect.StructField, i int) (Field, bool) {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if !f.IsExported() || name == "-" {
		return Field{}, false
	}
	if name == "" {
		panic("shape: " + f.Name + " has no json key")
	}
	d := Field{Name: name, GoName: f.Name, Index: i, Type: of(f.Type), Rule: parseRule(f.Tag.Get("rule")),
		Elem: parseRule(f.Tag.Get("elem")), Later: f.Tag.Get("later"), Off: f.Tag.Get("off")}
	d.Rule.bind(d.Type)
	if d.Type.Elem != nil {
		d.Elem.bind(d.Type.Elem)
	}
	return d, true
}

// New makes an addressable value of the type with the defaults of its keys set, as far down as structs are embedded by value.
func New(t *Type) reflect.Value {
	v := reflect.New(t.Go).Elem()
	setDefaults(t, v)
	return v
}

func setDefaults(t *Type, v reflect.Value) {
	if t.Kind != Object {
		return
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		fv := v.Field(f.Index)
		if f.Rule.Default != "" {
			if err := SetText(f.Type, fv, f.Rule.Default); err != nil {
				panic("shape: default of " + f.Name + ": " + err.Error())
			}
		} else if fv.Kind() == reflect.Struct {
			setDefaults(f.Type, fv)
		}
	}
}

package policyfile

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/internal/shape"
)

// walker fills a value from the tree and collects what does not fit, with the place of everything it passes.
type walker struct {
	places map[string]*token.Token // of each path: the key, or the value where it is a scalar
	broken map[string]bool         // paths whose value is faulty, so that nothing that follows from it is reported
	faults []policy.Fault
}

func newWalker() *walker {
	return &walker{places: map[string]*token.Token{}, broken: map[string]bool{}}
}

// fault reports at the place of the path, or of the nearest thing around it that stands in the file.
func (w *walker) fault(path, message string) {
	f := policy.Fault{Line: 1, Column: 1}
	for p := range shape.Above(path) {
		if t := w.places[p]; t != nil {
			f = *at(t, "")
			break
		}
	}
	f.Path, f.Message = path, message
	w.faults = append(w.faults, f)
}

// fail reports and remembers that the value at the path cannot be relied on.
func (w *walker) fail(path, message string) {
	w.fault(path, message)
	w.broken[path] = true
}

// value sets v from a node. r are the rules of the key, elem those of the entries of a list or map of scalars.
func (w *walker) value(t *shape.Type, v reflect.Value, r, elem *shape.Rule, n ast.Node, path string) {
	if m := refused(n); m != "" {
		w.places[path] = n.GetToken()
		w.fail(path, m)
		return
	}
	if n == nil {
		w.fail(path, wrongType(t.Kind, n))
		return
	}
	switch t.Kind {
	case shape.Object, shape.Map:
		m, ok := n.(ast.MapNode)
		if !ok {
			w.fail(path, wrongType(t.Kind, n))
			return
		}
		if t.Kind == shape.Object {
			w.object(t, v, m, path)
		} else {
			w.entries(t, v, elem, m, path)
		}
	case shape.List:
		l, ok := n.(ast.ArrayNode)
		if !ok {
			w.fail(path, wrongType(t.Kind, n))
			return
		}
		w.list(t, v, elem, l, path)
	default:
		w.places[path] = n.GetToken()
		if m := scalar(t, v, n); m != "" {
			w.fail(path, m)
		} else if m := r.Check(t, v); m != "" {
			w.fail(path, m)
		}
	}
}

func (w *walker) object(t *shape.Type, v reflect.Value, m ast.MapNode, path string) {
	seen := map[string]bool{}
	w.each(m, path, func(key, at string, value ast.Node) {
		f := t.Field(key)
		if f == nil {
			w.fault(at, unknownKey(t, key))
			return
		}
		seen[key] = true
		fv := v.Field(f.Index)
		if fv.Kind() == reflect.Pointer {
			fv.Set(shape.New(f.Type).Addr())
			fv = fv.Elem()
		}
		w.value(f.Type, fv, &f.Rule, &f.Elem, value, at)
	})
	for i := range t.Fields {
		f := &t.Fields[i]
		unless := f.Rule.RequiredUnless
		if !seen[f.Name] && (f.Rule.Required || unless != "" && !seen[unless]) {
			w.fail(shape.Key(path, f.Name), "is missing")
		}
	}
}

func (w *walker) entries(t *shape.Type, v reflect.Value, elem *shape.Rule, m ast.MapNode, path string) {
	v.Set(reflect.MakeMap(t.Go))
	w.each(m, path, func(key, at string, value ast.Node) {
		e := shape.New(t.Elem)
		w.value(t.Elem, e, elem, &shape.Rule{}, value, at)
		if t.Go.Elem().Kind() == reflect.Pointer {
			e = e.Addr()
		}
		v.SetMapIndex(reflect.ValueOf(key), e)
	})
}

func (w *walker) list(t *shape.Type, v reflect.Value, elem *shape.Rule, l ast.ArrayNode, path string) {
	v.Set(reflect.MakeSlice(t.Go, 0, 0))
	for i, it := 0, l.ArrayRange(); it.Next(); i++ {
		e, at := shape.New(t.Elem), shape.Index(path, i)
		n := it.Value()
		if n != nil {
			w.places[at] = start(n)
		}
		w.value(t.Elem, e, elem, &shape.Rule{}, n, at)
		if t.Go.Elem().Kind() == reflect.Pointer {
			e = e.Addr()
		}
		v.Set(reflect.Append(v, e))
	}
}

// each calls f for every key of a mapping that is there for the first time.
func (w *walker) each(m ast.MapNode, path string, f func(key, at string, value ast.Node)) {
	lines := map[string]int{}
	for it := m.MapRange(); it.Next(); {
		k, value := it.Key(), it.Value()
		name, ok := k.(*ast.StringNode)
		if !ok {
			t := k.GetToken()
			w.faults = append(w.faults, policy.Fault{Line: t.Position.Line, Column: t.Position.Column, Path: path,
				Message: fmt.Sprintf("a key must be plain text, %q is not", t.Value)})
			continue
		}
		at := shape.Key(path, name.Value)
		t := k.GetToken()
		if line, again := lines[name.Value]; again {
			w.faults = append(w.faults, policy.Fault{Line: t.Position.Line, Column: t.Position.Column, Path: at,
				Message: fmt.Sprintf("is there twice, first in line %d", line)})
			continue
		}
		lines[name.Value] = t.Position.Line
		w.places[at] = t
		f(name.Value, at, value)
	}
}

// start is the first token of a node: of a block mapping, its first key.
func start(n ast.Node) *token.Token {
	if m, ok := n.(ast.MapNode); ok && n.GetToken().Type != token.MappingStartType {
		if it := m.MapRange(); it.Next() {
			return it.Key().GetToken()
		}
	}
	return n.GetToken()
}

// refused names YAML's features that are not accepted.
func refused(n ast.Node) string {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		return "anchors and aliases are not accepted"
	case *ast.TagNode:
		return "tags are not accepted"
	}
	return ""
}

// scalar sets v from a node and says what is wrong, or "".
func scalar(t *shape.Type, v reflect.Value, n ast.Node) string {
	switch t.Kind {
	case shape.Text:
		if s, ok := textOf(n); ok {
			v.SetString(s)
			return ""
		}
	case shape.Boolean:
		if b, ok := n.(*ast.BoolNode); ok {
			v.SetBool(b.Value)
			return ""
		}
	case shape.Integer:
		if i, ok := n.(*ast.IntegerNode); ok {
			return integer(v, i)
		}
	case shape.Number:
		f, ok, message := number(n)
		if ok {
			v.SetFloat(f)
			return message
		}
	case shape.NumberOrSpan:
		if f, ok, message := number(n); ok {
			v.Addr().Interface().(shape.NumberSetter).SetNumber(f)
			return message
		}
		return span(t, v, n)
	case shape.Span:
		return span(t, v, n)
	}
	return wrongType(t.Kind, n)
}

func span(t *shape.Type, v reflect.Value, n ast.Node) string {
	s, ok := textOf(n)
	if !ok {
		return wrongType(t.Kind, n)
	}
	if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
		return err.Error()
	}
	return ""
}

func textOf(n ast.Node) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return s.Value.Value, true
	}
	return "", false
}

func integer(v reflect.Value, n *ast.IntegerNode) string {
	if !decimal(n.Token.Value) {
		return "must be a whole number in plain decimal digits"
	}
	switch x := n.Value.(type) {
	case int64:
		v.SetInt(x)
	case uint64:
		if x > math.MaxInt64 {
			return "is too large a number"
		}
		v.SetInt(int64(x))
	}
	return ""
}

// number reads an integer or a fraction; ok says that the node is a number at all.
func number(n ast.Node) (f float64, ok bool, message string) {
	switch x := n.(type) {
	case *ast.IntegerNode:
		if !decimal(x.Token.Value) {
			return 0, true, "must be a number in plain decimal digits"
		}
		switch i := x.Value.(type) {
		case int64:
			f = float64(i)
		case uint64:
			f = float64(i)
		}
		return f, true, ""
	case *ast.FloatNode:
		if strings.Contains(x.Token.Value, "_") {
			return 0, true, "must be a number in plain decimal digits"
		}
		return x.Value, true, ""
	case *ast.NanNode, *ast.InfinityNode:
		return 0, true, "must be a finite number"
	}
	return 0, false, ""
}

// decimal refuses what is read in more than one way: 010 is 8 to some, and 0x10 and 1_000 are text to others.
func decimal(s string) bool {
	s = strings.TrimPrefix(s, "-")
	return s == "0" || s != "" && s[0] != '0' && strings.Trim(s, "0123456789") == ""
}

// wrongType words what was wanted and what is there.
func wrongType(want shape.Kind, n ast.Node) string {
	is := ""
	switch x := n.(type) {
	case *ast.NullNode, nil:
		is = "nothing"
	case *ast.StringNode:
		is = "text"
		if want == shape.Integer || want == shape.Number {
			if x.Token.Type == token.StringType && strings.Trim(x.Value, "+-.eE0123456789") == "" && strings.ContainsAny(x.Value, "0123456789") {
				return "must be " + want.String() + " in plain decimal digits and of ordinary size"
			}
		}
	case *ast.LiteralNode:
		is = "text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.NanNode, *ast.InfinityNode:
		is = "a number"
		if want == shape.Text {
			is += ` (text that looks like one stands in "quotes")`
		}
	case *ast.BoolNode:
		is = "true or false"
		if want == shape.Text {
			is += ` (the words as text stand in "quotes")`
		}
	case ast.MapNode:
		is = "a mapping"
	case ast.ArrayNode:
		is = "a list"
	default:
		is = "something else"
	}
	return "must be " + want.String() + ", is " + is
}

// unknownKey names the nearest known key when there is one.
func unknownKey(t *shape.Type, key string) string {
	best, at := "", 3
	for i := range t.Fields {
		if d := distance(key, t.Fields[i].Name); d < at {
			best, at = t.Fields[i].Name, d
		}
	}
	if best != "" {
		return "unknown key; " + best + " is meant?"
	}
	return "unknown key"
}

// distance is the Levenshtein distance of two short words; long ones are simply far apart.
func distance(a, b string) int {
	if len(a) > 40 || len(b) > 40 {
		return 40
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

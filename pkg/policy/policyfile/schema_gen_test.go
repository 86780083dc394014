package policyfile

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/internal/shape"
)

// schemaWriter turns the Go types into a JSON Schema: structure and rules from the tags, descriptions from the comments.
type schemaWriter struct {
	comments map[string]string // "Type.Field" and "Type"
	defs     map[string]any
}

func generateSchema(t *testing.T) []byte {
	t.Helper()
	w := schemaWriter{comments: comments(t, "../config.go", "../classes.go"), defs: map[string]any{}}
	root := w.object(shape.Of(reflect.TypeFor[policy.Config]()))
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = "urn:lanekeeper:schema:config"
	root["title"] = "Lanekeeper configuration, version 1"
	root["$defs"] = w.defs
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}

func comments(t *testing.T, files ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, s := range g.Specs {
				typ := s.(*ast.TypeSpec)
				out[typ.Name.Name] = flat(g.Doc.Text())
				if st, ok := typ.Type.(*ast.StructType); ok {
					for _, field := range st.Fields.List {
						out[typ.Name.Name+"."+field.Names[0].Name] = flat(field.Doc.Text())
					}
				}
			}
		}
	}
	return out
}

func flat(s string) string { return strings.Join(strings.Fields(s), " ") }

func (w *schemaWriter) object(t *shape.Type) map[string]any {
	props, required := map[string]any{}, []string{}
	for i := range t.Fields {
		f := &t.Fields[i]
		p := w.value(f.Type, &f.Rule, &f.Elem)
		p["description"] = w.comments[t.Go.Name()+"."+f.GoName]
		if f.Later != "" {
			p["description"] = p["description"].(string) + " (Not yet in force: " + f.Later + ".)"
		}
		props[f.Name] = p
		if f.Rule.Required {
			required = append(required, f.Name)
		}
	}
	s := map[string]any{"type": "object", "description": w.comments[t.Go.Name()], "properties": props, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	switch t.Go {
	case reflect.TypeFor[policy.Lane]():
		w.laneRoles(s)
	case reflect.TypeFor[policy.Target]():
		s["minProperties"], s["maxProperties"] = 1, 1
	}
	return s
}

// laneRoles says what the retry lane must and must not have.
func (w *schemaWriter) laneRoles(s map[string]any) {
	has := func(k string) map[string]any { return map[string]any{"required": []string{k}} }
	s["dependentRequired"] = map[string]any{"instead_of": []string{"tiers"}}
	s["if"] = has("role")
	s["then"] = map[string]any{"required": []string{"share"}, "properties": map[string]any{
		"workers": map[string]any{"not": has("max_concurrency")},
		"batch":   map[string]any{"properties": map[string]any{"size": map[string]any{"const": 1}}},
	}, "not": has("instead_of")}
	s["else"] = map[string]any{"required": []string{"workers"}, "not": has("share"), "properties": map[string]any{"workers": has("max_concurrency")}}
}

// value is the schema of a value, a reference for objects.
func (w *schemaWriter) value(t *shape.Type, r, elem *shape.Rule) map[string]any {
	s := map[string]any{}
	switch t.Kind {
	case shape.Object:
		name := t.Go.Name()
		if _, done := w.defs[name]; !done {
			w.defs[name] = nil // for types that contain themselves
			w.defs[name] = w.object(t)
		}
		return map[string]any{"$ref": "#/$defs/" + name}
	case shape.Map:
		s["type"] = "object"
		s["additionalProperties"] = w.value(t.Elem, elem, &shape.Rule{})
		if r.Keys != "" {
			s["propertyNames"] = form(r.Keys)
		} else if len(r.KeyEnum) > 0 {
			s["propertyNames"] = map[string]any{"enum": r.KeyEnum}
		}
		bounds(s, r, "minProperties", "maxProperties")
	case shape.List:
		s["type"] = "array"
		s["items"] = w.value(t.Elem, elem, &shape.Rule{})
		bounds(s, r, "minItems", "maxItems")
	case shape.Text:
		s["type"] = "string"
		if r.Form != "" {
			for k, v := range form(r.Form) {
				s[k] = v
			}
		}
		if len(r.Enum) > 0 {
			s["enum"] = r.Enum
		}
	case shape.Integer, shape.Number:
		s["type"] = map[shape.Kind]string{shape.Integer: "integer", shape.Number: "number"}[t.Kind]
		bounds(s, r, "minimum", "maximum")
	case shape.Boolean:
		s["type"] = "boolean"
	case shape.Span:
		s["type"], s["pattern"] = "string", policy.DurationPattern
	case shape.NumberOrSpan:
		s["type"], s["pattern"] = []string{"number", "string"}, policy.DurationPattern
	}
	if r.Default != "" {
		s["default"] = literal(t, r.Default)
	}
	return s
}

func form(name string) map[string]any {
	f := shape.Forms[name]
	s := map[string]any{"pattern": f.Pattern}
	if f.Longest > 0 {
		s["maxLength"] = f.Longest
	}
	return s
}

func bounds(s map[string]any, r *shape.Rule, lo, hi string) {
	if r.Min != "" {
		s[lo] = json.Number(r.Min)
	}
	if r.Max != "" {
		s[hi] = json.Number(r.Max)
	}
}

func literal(t *shape.Type, text string) any {
	if t.Kind == shape.Integer || t.Kind == shape.Number {
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return json.Number(text)
		}
	}
	return text
}

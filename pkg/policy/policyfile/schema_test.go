package policyfile

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/internal/shape"
)

const schemaFile = "../../../events/config.schema.json"

var update = flag.Bool("update", false, "rewrite golden files")

// TestSchemaIsThatOfTheTypes holds events/config.schema.json against the Go types, both ways: it is what they generate.
// After a change of config.go or classes.go: go test ./pkg/policy/policyfile -run Schema -update
func TestSchemaIsThatOfTheTypes(t *testing.T) {
	want := generateSchema(t)
	if *update {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, schemaFile); got != string(want) {
		t.Errorf("%s is not what the types generate; run this test with -update and look at the difference", schemaFile)
	}
	var s map[string]any
	if err := json.Unmarshal(want, &s); err != nil {
		t.Fatal(err)
	}
	undescribed(t, "", s)
}

// undescribed finds properties without a description: a key nobody explains.
func undescribed(t *testing.T, path string, s map[string]any) {
	for name, d := range asMap(s["$defs"]) {
		undescribed(t, name, d.(map[string]any))
	}
	for name, p := range asMap(s["properties"]) {
		if d, _ := p.(map[string]any)["description"].(string); d == "" {
			t.Errorf("%s.%s has no description", path, name)
		}
	}
}

func asMap(v any) map[string]any { m, _ := v.(map[string]any); return m }

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(read(t, schemaFile)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("config.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tree is a YAML file as plain values.
func tree(t *testing.T, text string) map[string]any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSchemaAcceptsGoodFiles(t *testing.T) {
	t.Parallel()
	s := compileSchema(t)
	for _, text := range []string{minimal, read(t, "testdata/full.yaml"), read(t, demo)} {
		if err := s.Validate(tree(t, text)); err != nil {
			t.Error(err)
		}
	}
}

// TestFullFileHasEveryKey keeps the file that the mutations below start from complete.
func TestFullFileHasEveryKey(t *testing.T) {
	t.Parallel()
	missing := map[string]bool{}
	var want func(typ *shape.Type, v any, name string)
	seen := map[string]bool{}
	want = func(typ *shape.Type, v any, name string) {
		switch typ.Kind {
		case shape.Object:
			for i := range typ.Fields {
				f := &typ.Fields[i]
				key := typ.Go.Name() + "." + f.Name
				child, there := asMap(v)[f.Name]
				if !there {
					missing[key] = true
					continue
				}
				seen[key] = true
				want(f.Type, child, key)
			}
		case shape.Map:
			for _, child := range asMap(v) {
				want(typ.Elem, child, name)
			}
		case shape.List:
			for _, child := range v.([]any) {
				want(typ.Elem, child, name)
			}
		}
	}
	want(shape.Of(reflect.TypeFor[policy.Config]()), tree(t, read(t, "testdata/full.yaml")), "")
	for key := range missing {
		if !seen[key] {
			t.Errorf("testdata/full.yaml never has %s", key)
		}
	}
}

// TestSchemaAndParseAgree damages the full file at every place in every structural way. What the schema refuses, Parse
// refuses, and what the structure alone makes Parse refuse, the schema refuses.
func TestSchemaAndParseAgree(t *testing.T) {
	t.Parallel()
	s := compileSchema(t)
	root := tree(t, read(t, "testdata/full.yaml"))
	verdicts := map[[2]bool]int{}
	try := func(what string) {
		text, err := json.MarshalIndent(root, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		schemaErr := s.Validate(root)
		node, fault := document(text)
		if fault != nil {
			t.Fatalf("%s: %v", what, fault)
		}
		w := newWalker()
		v := shape.New(shape.Of(reflect.TypeFor[policy.Config]()))
		w.value(shape.Of(v.Type()), v, &shape.Rule{}, &shape.Rule{}, node, "")
		all := len(w.faults) + len(policy.New(v.Addr().Interface().(*policy.Config), w.broken)) // as Parse does
		switch {
		case schemaErr != nil && all == 0:
			t.Errorf("%s: only the schema refuses it: %v", what, schemaErr)
		case schemaErr == nil && len(w.faults) > 0:
			t.Errorf("%s: only Parse refuses it: %v", what, w.faults)
		}
		verdicts[[2]bool{schemaErr != nil, all > 0}]++
	}
	mutate(root, "", try)
	if verdicts[[2]bool{true, true}] < 500 || verdicts[[2]bool{false, false}] < 20 {
		t.Errorf("the mutations are one-sided: %v", verdicts)
	}
}

// mutate changes a tree in place, one change at a time, and undoes it.
func mutate(v any, path string, try func(what string)) {
	values := []any{nil, "x y", json.Number("-1"), true, map[string]any{}, []any{}}
	replace := func(set func(any), old any, at string) {
		for _, n := range values {
			set(n)
			try(fmt.Sprintf("%s = %v", at, n))
		}
		set(old)
		mutate(old, at, try)
	}
	switch x := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			old := x[k]
			delete(x, k)
			try(path + " without " + k)
			replace(func(n any) { x[k] = n }, old, path+"."+k)
		}
		for _, k := range []string{"zz", "No Name"} {
			x[k] = map[string]any{}
			try(path + " with " + k)
			delete(x, k)
		}
	case []any:
		for i, old := range x {
			replace(func(n any) { x[i] = n }, old, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

package events_test

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/goccy/go-yaml"
	"github.com/lanekeeper/lanekeeper/events"
)

func openAPIJSON(t *testing.T) []byte {
	t.Helper()
	text, err := yaml.YAMLToJSON(events.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func components(t *testing.T) map[string]map[string]any {
	t.Helper()
	var doc struct {
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(openAPIJSON(t), &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Components.Schemas
}

func TestDocumentIsValidOpenAPI(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(events.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Error(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("version %s", doc.OpenAPI)
	}
}

// An object schema that says nothing about further properties would let unknown fields pass.
func TestEveryObjectSchemaIsClosed(t *testing.T) {
	t.Parallel()
	var walk func(at string, value any)
	seen := 0
	walk = func(at string, value any) {
		switch v := value.(type) {
		case map[string]any:
			if v["type"] == "object" {
				seen++
				if _, ok := v["additionalProperties"]; !ok {
					t.Errorf("%s is open", at)
				}
			}
			for name, inner := range v {
				walk(at+"/"+name, inner)
			}
		case []any:
			for _, inner := range v {
				walk(at+"/-", inner)
			}
		}
	}
	for name, schema := range components(t) {
		walk(name, schema)
	}
	if seen < 15 {
		t.Errorf("only %d object schemas found", seen)
	}
}

// The Go types and the document name the same fields, and agree on which may be absent.
func TestTypesMatchTheDocument(t *testing.T) {
	t.Parallel()
	schemas := components(t)
	for name, value := range map[string]any{
		"Task": events.Task{}, "Prediction": events.Prediction{}, "TaskError": events.TaskError{}, "Attempt": events.Attempt{},
		"TaskPage": events.TaskPage{}, "Decision": events.Decision{}, "Quote": events.Quote{}, "Lane": events.Lane{},
		"LaneList": events.LaneList{}, "Health": events.Health{}, "Problem": events.Problem{}, "FieldError": events.FieldError{},
		"Tenant": events.Tenant{}, "NewKey": events.NewKey{}, "QuarantinedTask": events.QuarantinedTask{}, "QuarantinePage": events.QuarantinePage{},
		"ReplayFilter": events.ReplayFilter{}, "Replay": events.Replay{}, "ReplayPage": events.ReplayPage{},
		"Placement": events.Placement{}, "PlacementList": events.PlacementList{},
	} {
		var fields, required []string
		for f := range reflect.TypeOf(value).Fields() {
			tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields = append(fields, tag)
			if options == "" {
				required = append(required, tag)
			}
		}
		var wantFields, wantRequired []string
		properties, _ := schemas[name]["properties"].(map[string]any)
		for p := range properties {
			wantFields = append(wantFields, p)
		}
		list, _ := schemas[name]["required"].([]any)
		for _, r := range list {
			wantRequired = append(wantRequired, r.(string))
		}
		for _, l := range [][]string{fields, required, wantFields, wantRequired} {
			slices.Sort(l)
		}
		if !slices.Equal(fields, wantFields) {
			t.Errorf("%s has fields\n%v, documented\n%v", name, fields, wantFields)
		}
		if !slices.Equal(required, wantRequired) {
			t.Errorf("%s always has\n%v, documented\n%v", name, required, wantRequired)
		}
	}
}

func TestStatesMatchTheDocument(t *testing.T) {
	t.Parallel()
	var documented []string
	for _, s := range components(t)["State"]["enum"].([]any) {
		documented = append(documented, s.(string))
	}
	var ours []string
	for _, s := range events.States() {
		ours = append(ours, string(s))
		if s.Live() && s.Terminal() {
			t.Errorf("%s is live and terminal", s)
		}
	}
	slices.Sort(documented)
	slices.Sort(ours)
	if !slices.Equal(documented, ours) {
		t.Errorf("documented %v, ours %v", documented, ours)
	}
}

// Every code is documented somewhere under its status, and no documented code is unknown.
func TestCodesMatchTheDocument(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	var walk func(value any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if code, ok := v["code"].(map[string]any); ok {
				if c, ok := code["const"].(string); ok {
					documented[c] = true
				}
				list, _ := code["enum"].([]any)
				for _, c := range list {
					documented[c.(string)] = true
				}
			}
			for _, inner := range v {
				walk(inner)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	for name, schema := range components(t) {
		if strings.HasSuffix(name, "Problem") {
			walk(schema)
		}
	}
	for _, code := range events.Codes() {
		if !documented[string(code)] {
			t.Errorf("%s is in no problem schema", code)
		}
		delete(documented, string(code))
	}
	if len(documented) > 0 {
		t.Errorf("documented but unknown: %v", documented)
	}
}

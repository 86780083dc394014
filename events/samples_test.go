package events_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	awsevents "github.com/aws/aws-lambda-go/events"
	"github.com/lanekeeper/lanekeeper/events"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func sample(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("samples", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// decoded reads a sample into into, strictly, and gives it encoded again.
func decoded(t *testing.T, text []byte, into any) []byte {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		t.Fatalf("decode: %v", err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(into); err != nil {
		t.Fatalf("encode: %v", err)
	}
	return out.Bytes()
}

// ours are the samples of our own types: each has its type and the schema it must satisfy.
var ours = []struct {
	file, schema string
	into         func() any
}{
	{"message.json", "message", func() any { return &events.Message{} }},
	{"tick.json", "tick", func() any { return &events.Tick{} }},
	{"task.succeeded.json", "Task", func() any { return &events.Task{} }},
	{"task.waiting.json", "Task", func() any { return &events.Task{} }},
	{"task.quarantined.json", "Task", func() any { return &events.Task{} }},
	{"task_page.json", "TaskPage", func() any { return &events.TaskPage{} }},
	{"decision.json", "Decision", func() any { return &events.Decision{} }},
	{"quote.accept.json", "Quote", func() any { return &events.Quote{} }},
	{"quote.reject.json", "Quote", func() any { return &events.Quote{} }},
	{"placements.json", "PlacementList", func() any { return &events.PlacementList{} }},
	{"lanes.json", "LaneList", func() any { return &events.LaneList{} }},
	{"health.json", "Health", func() any { return &events.Health{} }},
}

// Same text out as in: same fields, same order, same form of numbers and times, nothing lost.
func TestOurSamplesSurviveDecodingAndEncoding(t *testing.T) {
	t.Parallel()
	schemas := compiler(t)
	for _, s := range ours {
		text := sample(t, s.file)
		if got := decoded(t, text, s.into()); !bytes.Equal(got, text) {
			t.Errorf("%s came back as\n%s", s.file, got)
		}
		if err := validate(t, schemas, s.schema, text); err != nil {
			t.Errorf("%s: %v", s.file, err)
		}
	}
}

func TestEachProblemCodeHasASample(t *testing.T) {
	t.Parallel()
	schemas := compiler(t)
	files, err := filepath.Glob("samples/problems/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if want := len(events.Codes()); len(files) != want {
		t.Errorf("%d samples, %d codes", len(files), want)
	}
	for _, code := range events.Codes() {
		text := sample(t, "problems/"+string(code)+".json")
		var p events.Problem
		if got := decoded(t, text, &p); !bytes.Equal(got, text) {
			t.Errorf("%s came back as\n%s", code, got)
		}
		if err := validate(t, schemas, "Problem", text); err != nil {
			t.Errorf("%s: %v", code, err)
		}
		want := events.NewProblem(code, p.Detail)
		if p.Type != want.Type || p.Title != want.Title || p.Status != want.Status || p.Code != code {
			t.Errorf("%s: sample says %q %q %d, NewProblem %q %q %d", code, p.Type, p.Title, p.Status, want.Type, want.Title, want.Status)
		}
		if (p.RetryAfterSeconds > 0) != code.Retry() || (p.Decision != nil) != code.Decided() {
			t.Errorf("%s: retry %d, decision %v do not fit Retry %v, Decided %v", code, p.RetryAfterSeconds, p.Decision != nil, code.Retry(), code.Decided())
		}
	}
}

// The events of AWS are decoded with AWS's own types; what these do not know would be lost on the way.
func TestAWSSamplesSurviveDecodingAndEncoding(t *testing.T) {
	t.Parallel()
	for file, into := range map[string]any{
		"apigw_request.json":           &awsevents.APIGatewayV2HTTPRequest{},
		"sqs_batch.json":               &awsevents.SQSEvent{},
		"sqs_batch_response.json":      &awsevents.SQSEventResponse{},
		"sqs_batch_response_none.json": &awsevents.SQSEventResponse{},
	} {
		text := sample(t, file)
		var want, got map[string]any
		out := decoded(t, text, into)
		if json.Unmarshal(text, &want) != nil || json.Unmarshal(out, &got) != nil {
			t.Fatal("not JSON")
		}
		// Always encoded by AWS's type, absent from a request without an authorizer.
		if rc, ok := got["requestContext"].(map[string]any); ok {
			delete(rc, "authentication")
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s came back as\n%s", file, out)
		}
	}
}

func TestMessagesOfTheSampleBatchAreOurs(t *testing.T) {
	t.Parallel()
	var batch awsevents.SQSEvent
	decoded(t, sample(t, "sqs_batch.json"), &batch)
	for _, record := range batch.Records {
		m, err := events.DecodeMessage([]byte(record.Body))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(m.Encode()); got != record.Body {
			t.Errorf("message came back as %s, was %s", got, record.Body)
		}
	}
	if len(batch.Records) != 2 {
		t.Errorf("%d records", len(batch.Records))
	}
}

func TestSampleResponseOfTheGatewayCarriesAProblem(t *testing.T) {
	t.Parallel()
	var resp awsevents.APIGatewayV2HTTPResponse
	decoded(t, sample(t, "apigw_response.json"), &resp)
	if err := validate(t, compiler(t), "NotFoundProblem", []byte(resp.Body)); err != nil {
		t.Error(err)
	}
}

func compiler(t *testing.T) *jsonschema.Compiler {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	for url, text := range map[string][]byte{"mem:openapi": openAPIJSON(t), "mem:message": events.MessageSchema, "mem:tick": events.TickSchema} {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(url, doc); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// validate holds text against a schema: "message", "tick", or one of the components of openapi.yaml.
func validate(t *testing.T, c *jsonschema.Compiler, schema string, text []byte) error {
	t.Helper()
	at := "mem:" + schema
	if strings.ToLower(schema) != schema {
		at = "mem:openapi#/components/schemas/" + schema
	}
	s, err := c.Compile(at)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(value)
}

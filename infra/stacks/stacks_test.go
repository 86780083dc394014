//go:build cdk

package stacks_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/lanekeeper/lanekeeper/infra/stacks"
	"github.com/lanekeeper/lanekeeper/pkg/dynamo"
	"github.com/lanekeeper/lanekeeper/pkg/environment"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

// TestGolden shows what changes in permissions and alarms when something does.
func TestGolden(t *testing.T) {
	iam := []string{"AWS::IAM::Role", "AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy", "AWS::Lambda::Permission"}
	for _, name := range environments {
		golden(t, name+".iam.json", deployed(t, name), iam)
		golden(t, name+".alarms.json", deployed(t, name), []string{"AWS::CloudWatch::Alarm"})
	}
}

func golden(t *testing.T, file string, d *deployment, kinds []string) {
	t.Helper()
	kept := map[string]map[string]any{}
	for id, r := range d.resources {
		if slices.Contains(kinds, r.Type) {
			kept[id] = r.Properties
		}
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(kept); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, buf.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(buf.Bytes(), want) {
		t.Errorf("%s has changed; look at the difference after make infra-test ARGS=-update", path)
	}
}

func TestNagFindsNothing(t *testing.T) {
	for _, name := range environments {
		for _, f := range deployed(t, name).findings {
			t.Errorf("%s: %s", name, f)
		}
	}
}

// TestNagWouldFind shows that the rules are really applied.
func TestNagWouldFind(t *testing.T) {
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir())})
	stack := awscdk.NewStack(app, jsii.String("bad"), nil)
	awssqs.NewCfnQueue(stack, jsii.String("Open"), &awssqs.CfnQueueProps{SqsManagedSseEnabled: jsii.Bool(false)})
	stacks.Nag(app)
	app.Synth(nil)
	all := strings.Join(stacks.Findings([]awscdk.Stack{stack}), "\n")
	for _, rule := range []string{"AwsSolutions-SQS3", "AwsSolutions-SQS4"} {
		if !strings.Contains(all, rule) {
			t.Errorf("%s is not among the findings:\n%s", rule, all)
		}
	}
}

// TestTable compares the template with what the DynamoDB adapter needs.
func TestTable(t *testing.T) {
	type index struct {
		Name, Keys, Projection string
	}
	schema := dynamo.Schema("lanekeeper-dev")
	var want, got []string
	for _, k := range schema.KeySchema {
		want = append(want, fmt.Sprint("key ", *k.AttributeName, k.KeyType))
	}
	for _, a := range schema.AttributeDefinitions {
		want = append(want, fmt.Sprint("attribute ", *a.AttributeName, a.AttributeType))
	}
	for _, ix := range schema.GlobalSecondaryIndexes {
		keys := ""
		for _, k := range ix.KeySchema {
			keys += fmt.Sprint(*k.AttributeName, k.KeyType)
		}
		want = append(want, fmt.Sprint("index ", index{*ix.IndexName, keys, string(ix.Projection.ProjectionType)}))
	}
	var table map[string]any
	for _, r := range deployed(t, "dev").of("AWS::DynamoDB::GlobalTable") {
		table = r.Properties
	}
	for _, k := range list(table["KeySchema"]) {
		got = append(got, fmt.Sprint("key ", at(k, "AttributeName"), at(k, "KeyType")))
	}
	for _, a := range list(table["AttributeDefinitions"]) {
		got = append(got, fmt.Sprint("attribute ", at(a, "AttributeName"), at(a, "AttributeType")))
	}
	for _, ix := range list(table["GlobalSecondaryIndexes"]) {
		keys := ""
		for _, k := range list(at(ix, "KeySchema")) {
			keys += fmt.Sprint(at(k, "AttributeName"), at(k, "KeyType"))
		}
		got = append(got, fmt.Sprint("index ", index{text(at(ix, "IndexName")), keys, text(at(ix, "Projection", "ProjectionType"))}))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("the template has\n%s\nthe adapter needs\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if table["TableName"] != "lanekeeper-dev" || table["BillingMode"] != "PAY_PER_REQUEST" {
		t.Errorf("%v, %v", table["TableName"], table["BillingMode"])
	}
}

// TestLogicalIDsAreStable adds a lane: what was there keeps its identity, or
// CloudFormation would replace queues with tasks in them.
func TestLogicalIDsAreStable(t *testing.T) {
	before := deployed(t, "dev")
	source, err := os.ReadFile("../../localstack/lanekeeper.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lane := `  agents:
    owner: demo-oncall
    slo: {queue_wait_p95: 5m, oldest_age: 15m}
    workers: {max_concurrency: 2, reserved: 2}
    retry: {max_attempts: 3}
    dlq: {max_receives: 5}
    brakes: []

`
	more := strings.Replace(string(source), "  critical:  ", lane+"  critical:  ", 1)
	cfg, err := policyfile.Parse("more", []byte(more))
	if err != nil {
		t.Fatal(err)
	}
	e, err := environment.Load("../environments/dev.yaml")
	if err != nil {
		t.Fatal(err)
	}
	after, err := synth(e, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for id, r := range before.resources {
		if a, ok := after.resources[id]; !ok || a.Type != r.Type {
			t.Errorf("%s (%s) is gone or another", id, r.Type)
		}
	}
	if len(after.resources) <= len(before.resources) {
		t.Error("the new lane has no resources")
	}
}

// TestEnvironmentsShareNoName compares every physical name.
func TestEnvironmentsShareNoName(t *testing.T) {
	owner := map[string]string{}
	for _, name := range environments {
		names := map[string]bool{}
		for id, r := range deployed(t, name).resources {
			for _, key := range []string{"TableName", "QueueName", "FunctionName", "LogGroupName", "TopicName", "AlarmName", "DashboardName", "Name", "RoleName"} {
				if n, ok := r.Properties[key].(string); ok && !strings.Contains(r.Type, "Permission") {
					names[r.Type+" "+n] = true
					_ = id
				}
			}
		}
		if len(names) < 50 {
			t.Fatalf("only %d names in %s", len(names), name)
		}
		for n := range maps.Keys(names) {
			if other, taken := owner[n]; taken {
				t.Errorf("%s is in %s and %s", n, other, name)
			}
			owner[n] = name
		}
	}
}

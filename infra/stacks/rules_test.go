//go:build cdk

package stacks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/infra/plan"
)

// rule holds templates to one rule. It comes with the way to break it, so that
// every run sees every rule fail once.
type rule struct {
	name  string
	check func(*deployment, func(id, format string, args ...any))
	kind  string               // of the resource that is broken
	which func(id string) bool // which of them; nil: any
	spoil func(properties map[string]any)
}

// TestRules holds all environments to the rules and then breaks each.
func TestRules(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, name := range environments {
				for _, fault := range faults(r, deployed(t, name)) {
					t.Errorf("%s: %s", name, fault)
				}
			}
			broken := deployed(t, "prod").clone(t)
			spoilt := false
			for id, res := range broken.of(r.kind) {
				if r.which == nil || r.which(id) {
					r.spoil(res.Properties)
					spoilt = true
					break
				}
			}
			if !spoilt {
				t.Fatalf("nothing of %s to break", r.kind)
			}
			if len(faults(r, broken)) == 0 {
				t.Error("passes although a template was broken")
			}
		})
	}
}

func faults(r rule, d *deployment) []string {
	var found []string
	r.check(d, func(id, format string, args ...any) { found = append(found, id+": "+fmt.Sprintf(format, args...)) })
	return found
}

func contains(part string) func(string) bool {
	return func(id string) bool { return strings.Contains(id, part) }
}

func set(key string, value any) func(map[string]any) {
	return func(p map[string]any) { p[key] = value }
}

// inner sets a key in a nested object.
func inner(value any, path ...string) func(map[string]any) {
	return func(p map[string]any) {
		for _, k := range path[:len(path)-1] {
			p, _ = p[k].(map[string]any)
		}
		p[path[len(path)-1]] = value
	}
}

type report = func(id, format string, args ...any)

// mappings calls f with each lane's mapping, its function and its queue.
func (d *deployment) mappings(f func(id string, lane plan.Lane, mapping, function, queue map[string]any)) {
	for _, l := range d.plan.Lanes {
		var function, queue map[string]any
		for _, r := range d.of("AWS::Lambda::Function") {
			if r.Properties["FunctionName"] == l.Worker.Name {
				function = r.Properties
			}
		}
		for _, r := range d.of("AWS::SQS::Queue") {
			if r.Properties["QueueName"] == l.Queue {
				queue = r.Properties
			}
		}
		for id, r := range d.of("AWS::Lambda::EventSourceMapping") {
			if strings.HasSuffix(text(r.Properties["EventSourceArn"]), ":"+l.Queue) {
				f(id, l, r.Properties, function, queue)
			}
		}
	}
}

var laneMapping = contains("lanes/")

var rules = []rule{
	{
		name: "every lane has one mapping",
		check: func(d *deployment, bad report) {
			n := map[string]int{}
			d.mappings(func(_ string, l plan.Lane, _, function, queue map[string]any) {
				if function != nil && queue != nil {
					n[l.Name]++
				}
			})
			for _, l := range d.plan.Lanes {
				if n[l.Name] != 1 {
					bad(l.Name, "%d mappings from its queue", n[l.Name])
				}
			}
		},
		kind: "AWS::Lambda::EventSourceMapping", which: laneMapping, spoil: set("EventSourceArn", "arn:aws:sqs:::other"),
	},
	{
		name: "MaximumConcurrency is from 2 to the reserve",
		check: func(d *deployment, bad report) {
			d.mappings(func(id string, _ plan.Lane, m, f, _ map[string]any) {
				most, reserve := num(at(m, "ScalingConfig", "MaximumConcurrency")), num(f["ReservedConcurrentExecutions"])
				if most < 2 || most > 1000 || most > reserve {
					bad(id, "MaximumConcurrency %g, reserve %g", most, reserve)
				}
			})
		},
		kind: "AWS::Lambda::EventSourceMapping", which: laneMapping, spoil: inner(50.0, "ScalingConfig", "MaximumConcurrency"),
	},
	{
		name: "the reserves leave 100 of the account's quota",
		check: func(d *deployment, bad report) {
			sum := 0.0
			for _, r := range d.of("AWS::Lambda::Function") {
				sum += num(r.Properties["ReservedConcurrentExecutions"])
			}
			if most := float64(d.plan.Env.AccountConcurrency - 100); sum == 0 || sum > most {
				bad("account", "%g reserved, at most %g", sum, most)
			}
		},
		kind: "AWS::Lambda::Function", which: laneMapping, spoil: set("ReservedConcurrentExecutions", 901.0),
	},
	{
		name: "visibility is at least 6 timeouts and the window",
		check: func(d *deployment, bad report) {
			d.mappings(func(id string, _ plan.Lane, m, f, q map[string]any) {
				if need := 6*num(f["Timeout"]) + num(m["MaximumBatchingWindowInSeconds"]); num(q["VisibilityTimeout"]) < need {
					bad(id, "visibility %v, needed %g", q["VisibilityTimeout"], need)
				}
			})
		},
		kind: "AWS::Lambda::Function", which: laneMapping, spoil: set("Timeout", 901.0),
	},
	{
		name: "a queue's messages are received 5 times at least and then go to its own DLQ",
		check: func(d *deployment, bad report) {
			d.mappings(func(id string, l plan.Lane, _, _, q map[string]any) {
				n := num(at(q, "RedrivePolicy", "maxReceiveCount"))
				target, _ := at(q, "RedrivePolicy", "deadLetterTargetArn", "Fn::GetAtt", 0).(string)
				if dead := d.resources["lanes/"+target].Properties; n < 5 || dead["QueueName"] != l.DeadLetters {
					bad(id, "%g receives, then %v", n, dead["QueueName"])
				}
			})
		},
		kind: "AWS::SQS::Queue", which: func(id string) bool { return !strings.Contains(id, "DeadLetters") }, spoil: inner(4.0, "RedrivePolicy", "maxReceiveCount"),
	},
	{
		name: "a DLQ keeps for 14 days and takes from its queue alone",
		check: func(d *deployment, bad report) {
			for _, l := range d.plan.Lanes {
				for id, r := range d.of("AWS::SQS::Queue") {
					if r.Properties["QueueName"] != l.DeadLetters {
						continue
					}
					allow := r.Properties["RedriveAllowPolicy"]
					sources := list(at(allow, "sourceQueueArns"))
					if num(r.Properties["MessageRetentionPeriod"]) != 14*86400 || at(allow, "redrivePermission") != "byQueue" ||
						len(sources) != 1 || !strings.HasSuffix(text(sources[0]), ":"+l.Queue) {
						bad(id, "%v", r.Properties)
					}
				}
			}
		},
		kind: "AWS::SQS::Queue", which: contains("DeadLetters"), spoil: inner("allowAll", "RedriveAllowPolicy", "redrivePermission"),
	},
	{
		name: "mappings report single failures",
		check: func(d *deployment, bad report) {
			for id, r := range d.of("AWS::Lambda::EventSourceMapping") {
				if types := list(r.Properties["FunctionResponseTypes"]); !slices.Contains(types, "ReportBatchItemFailures") {
					bad(id, "%v", types)
				}
			}
		},
		kind: "AWS::Lambda::EventSourceMapping", spoil: set("FunctionResponseTypes", []any{}),
	},
	{
		name: "queues, DLQs and the topic refuse plain text",
		check: func(d *deployment, bad report) {
			kept := map[string]bool{}
			for id, r := range d.resources {
				if r.Type != "AWS::SQS::QueuePolicy" && r.Type != "AWS::SNS::TopicPolicy" {
					continue
				}
				stack, _, _ := strings.Cut(id, "/")
				for _, s := range list(at(r.Properties, "PolicyDocument", "Statement")) {
					if at(s, "Effect") == "Deny" && at(s, "Condition", "Bool", "aws:SecureTransport") == "false" && at(s, "Principal", "AWS") == "*" {
						for _, q := range append(list(r.Properties["Queues"]), list(r.Properties["Topics"])...) {
							ref, _ := at(q, "Ref").(string)
							kept[stack+"/"+ref] = true
						}
					}
				}
			}
			for id, r := range d.resources {
				if (r.Type == "AWS::SQS::Queue" || r.Type == "AWS::SNS::Topic") && !kept[id] {
					bad(id, "no policy denies plain text")
				}
			}
		},
		kind: "AWS::SQS::QueuePolicy", which: contains("DeadLetters"), spoil: set("Queues", []any{}),
	},
	{
		name: "no wildcards but for X-Ray, and no managed policies",
		check: func(d *deployment, bad report) {
			d.statements(func(id string, s any) {
				for _, a := range list(at(s, "Action")) {
					for _, res := range list(at(s, "Resource")) {
						if strings.Contains(text(a), "*") || strings.Contains(text(res), "*") && !strings.HasPrefix(text(a), "xray:Put") {
							bad(id, "%v on %v", a, res)
						}
					}
				}
			})
			for id, r := range d.of("AWS::IAM::Role") {
				if len(list(r.Properties["ManagedPolicyArns"])) > 0 {
					bad(id, "has managed policies")
				}
			}
			if n := len(d.of("AWS::IAM::Policy")) + len(d.of("AWS::IAM::ManagedPolicy")); n > 0 {
				bad("IAM", "%d policies outside the roles", n)
			}
		},
		kind: "AWS::IAM::Role", spoil: set("ManagedPolicyArns", []any{"arn:aws:iam::aws:policy/AdministratorAccess"}),
	},
	{
		name: "one role per function",
		check: func(d *deployment, bad report) {
			used := map[string]string{}
			for id, r := range d.of("AWS::Lambda::Function") {
				stack, _, _ := strings.Cut(id, "/")
				role := fmt.Sprint(stack, at(r.Properties, "Role", "Fn::GetAtt", 0))
				if other, taken := used[role]; taken {
					bad(id, "shares its role with %s", other)
				}
				used[role] = id
			}
		},
		kind: "AWS::Lambda::Function", which: contains("critical"), spoil: set("Role", map[string]any{"Fn::GetAtt": []any{"LaneheavyWorkerRoleBAE41AA3", "Arn"}}),
	},
	{
		name: "a worker cannot send or change limits, admission and aggregator cannot receive",
		check: func(d *deployment, bad report) {
			d.statements(func(id string, s any) {
				for _, a := range list(at(s, "Action")) {
					worker, redrive := strings.Contains(id, "Worker"), strings.Contains(id, "Redrive")
					if worker && a == "sqs:SendMessage" || !worker && !redrive && (a == "sqs:ReceiveMessage" || a == "sqs:DeleteMessage") {
						bad(id, "may %v", a)
					}
				}
			})
			for id := range d.of("AWS::IAM::Role") {
				if (strings.Contains(id, "Worker") || strings.Contains(id, "Redrive")) && !d.denied(id, "E#*", "K#*", "S", "G") {
					bad(id, "may change limits, keys or what is published")
				}
				if strings.Contains(id, "Aggregator") && !d.denied(id, "E#*", "K#*") {
					bad(id, "may change limits or keys")
				}
			}
		},
		kind: "AWS::IAM::Role", which: contains("Worker"), spoil: func(p map[string]any) {
			for _, s := range list(at(p, "Policies", 0, "PolicyDocument", "Statement")) {
				s.(map[string]any)["Effect"] = "Allow"
			}
		},
	},
	{
		name: "functions run provided.al2023 on arm64, traced, with recursion protection",
		check: func(d *deployment, bad report) {
			for id, r := range d.of("AWS::Lambda::Function") {
				p := r.Properties
				if p["Runtime"] != "provided.al2023" || at(p, "Architectures", 0) != "arm64" || at(p, "TracingConfig", "Mode") != "Active" || p["RecursiveLoop"] != "Terminate" {
					bad(id, "%v %v %v %v", p["Runtime"], p["Architectures"], p["TracingConfig"], p["RecursiveLoop"])
				}
			}
		},
		kind: "AWS::Lambda::Function", spoil: set("RecursiveLoop", "Allow"),
	},
	{
		name: "log groups have a retention and functions log into one",
		check: func(d *deployment, bad report) {
			for id, r := range d.of("AWS::Logs::LogGroup") {
				if num(r.Properties["RetentionInDays"]) != float64(d.plan.Env.LogRetentionDays) {
					bad(id, "retention %v", r.Properties["RetentionInDays"])
				}
			}
			for id, r := range d.of("AWS::Lambda::Function") {
				stack, _, _ := strings.Cut(id, "/")
				if ref, _ := at(r.Properties, "LoggingConfig", "LogGroup", "Ref").(string); d.resources[stack+"/"+ref].Type != "AWS::Logs::LogGroup" {
					bad(id, "logs into %v", r.Properties["LoggingConfig"])
				}
			}
		},
		kind: "AWS::Logs::LogGroup", spoil: func(p map[string]any) { delete(p, "RetentionInDays") },
	},
	{
		name: "the aggregator's starts are not repeated and do not age",
		check: func(d *deployment, bad report) {
			n := 0
			for id, r := range d.of("AWS::Scheduler::Schedule") {
				n++
				retry := at(r.Properties, "Target", "RetryPolicy")
				if at(retry, "MaximumRetryAttempts") != 0.0 || at(retry, "MaximumEventAgeInSeconds") != 60.0 || r.Properties["ScheduleExpression"] != "rate(1 minute)" {
					bad(id, "%v", r.Properties)
				}
			}
			for id, r := range d.of("AWS::Lambda::EventInvokeConfig") {
				n++
				if r.Properties["MaximumRetryAttempts"] != 0.0 || r.Properties["MaximumEventAgeInSeconds"] != 60.0 {
					bad(id, "%v", r.Properties)
				}
			}
			if n != 2 {
				bad("operations", "%d of schedule and invoke settings", n)
			}
		},
		kind: "AWS::Lambda::EventInvokeConfig", spoil: set("MaximumRetryAttempts", 2.0),
	},
	{
		name: "the API throttles, logs accesses and has no CORS",
		check: func(d *deployment, bad report) {
			for id, r := range d.of("AWS::ApiGatewayV2::Stage") {
				if num(at(r.Properties, "DefaultRouteSettings", "ThrottlingRateLimit")) < 1 || num(at(r.Properties, "RouteSettings", "POST /v1/tasks", "ThrottlingRateLimit")) < 1 ||
					at(r.Properties, "AccessLogSettings", "DestinationArn") == nil {
					bad(id, "%v", r.Properties)
				}
			}
			for id, r := range d.of("AWS::ApiGatewayV2::Api") {
				if r.Properties["CorsConfiguration"] != nil || r.Properties["ProtocolType"] != "HTTP" {
					bad(id, "%v", r.Properties)
				}
			}
		},
		kind: "AWS::ApiGatewayV2::Stage", spoil: inner(0.0, "DefaultRouteSettings", "ThrottlingRateLimit"),
	},
	{
		name: "the table is encrypted, can be restored, expires, and is protected where the environment says so",
		check: func(d *deployment, bad report) {
			for id, r := range d.of("AWS::DynamoDB::GlobalTable") {
				replica := at(r.Properties, "Replicas", 0)
				keep := map[bool]string{true: "Retain", false: "Delete"}[d.plan.Env.Retain]
				if at(replica, "PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled") != true ||
					at(replica, "DeletionProtectionEnabled") != d.plan.Env.DeletionProtection || r.DeletionPolicy != keep ||
					at(r.Properties, "SSESpecification", "SSEEnabled") != true || at(r.Properties, "TimeToLiveSpecification", "Enabled") != true {
					bad(id, "%v, deletion policy %s", r.Properties, r.DeletionPolicy)
				}
			}
		},
		kind: "AWS::DynamoDB::GlobalTable", spoil: set("SSESpecification", map[string]any{"SSEEnabled": false}),
	},
	{
		name: "alarms go to the topic and name a section of the runbook",
		check: func(d *deployment, bad report) {
			for id, r := range d.of("AWS::CloudWatch::Alarm") {
				about, _ := r.Properties["AlarmDescription"].(string)
				if len(list(r.Properties["AlarmActions"])) != 1 || !strings.Contains(about, "docs/runbook.md#") || r.Properties["TreatMissingData"] == nil {
					bad(id, "%v", r.Properties)
				}
			}
		},
		kind: "AWS::CloudWatch::Alarm", spoil: set("AlarmDescription", "look"),
	},
}

// statements calls f with each statement of each role.
func (d *deployment) statements(f func(id string, statement any)) {
	for id, r := range d.of("AWS::IAM::Role") {
		for _, p := range list(r.Properties["Policies"]) {
			for _, s := range list(at(p, "PolicyDocument", "Statement")) {
				f(id, s)
			}
		}
	}
}

// denied says whether a role is denied to write items under all of these keys.
func (d *deployment) denied(role string, keys ...string) bool {
	left := slices.Clone(keys)
	d.statements(func(id string, s any) {
		actions := list(at(s, "Action"))
		if id != role || at(s, "Effect") != "Deny" || !slices.Contains(actions, "dynamodb:PutItem") || !slices.Contains(actions, "dynamodb:UpdateItem") || !slices.Contains(actions, "dynamodb:DeleteItem") {
			return
		}
		for _, k := range list(at(s, "Condition", "ForAnyValue:StringLike", "dynamodb:LeadingKeys")) {
			left = slices.DeleteFunc(left, func(x string) bool { return x == k })
		}
	})
	return len(left) == 0
}

package plan

import (
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// Statement is one statement of a policy. ARNs hold CloudFormation's
// pseudo parameters, such as ${AWS::Region}.
type Statement struct {
	Sid       string
	Deny      bool
	Actions   []string
	Resources []string
	// LeadingKeys narrows the statement to items whose partition key is like one of these.
	LeadingKeys []string
}

func arn(service, rest string) string {
	return "arn:${AWS::Partition}:" + service + ":${AWS::Region}:${AWS::AccountId}:" + rest
}

// QueueARN is that of a queue's name, in the deployment's own account and region, as the others are.
func QueueARN(name string) string { return arn("sqs", name) }

// FunctionARN is that of a function's name.
func FunctionARN(name string) string { return arn("lambda", "function:"+name) }

// TableARN is that of a table's name.
func TableARN(name string) string { return arn("dynamodb", "table/"+name) }

// Partition keys of what an operator alone decides: contracts and credentials.
// They come from the operations themselves, so that a renamed key is noticed.
func limitKeys() []string {
	prefixes := make([]string, 0, 2)
	for _, key := range []op.Key{taskop.TenantKey(""), taskop.CredentialKey("")} {
		prefix, _, _ := strings.Cut(key.PK, "#")
		prefixes = append(prefixes, prefix+"#*")
	}
	return prefixes
}

// publishedKeys are what the aggregator alone publishes: estimates and its lease.
func publishedKeys() []string { return []string{taskop.EstimatesKey(0).PK, taskop.AggregatorKey().PK} }

var (
	reads  = []string{"dynamodb:BatchGetItem", "dynamodb:GetItem"}
	writes = []string{"dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}
)

func items(p *Plan, actions ...[]string) Statement {
	s := Statement{Sid: "Items", Resources: []string{TableARN(p.Env.Table())}}
	for _, a := range actions {
		s.Actions = append(s.Actions, a...)
	}
	return s
}

func query(p *Plan, indexes ...op.Index) Statement {
	s := Statement{Sid: "Indexes", Actions: []string{"dynamodb:Query"}}
	for _, ix := range indexes {
		s.Resources = append(s.Resources, TableARN(p.Env.Table())+"/index/"+string(ix))
	}
	return s
}

// chains lets a function that ends tasks read who is next of their ordering key, and nothing else
// of the table by query. A query has one partition key, so that "any value" means that one.
func chains(p *Plan) Statement {
	prefix, _, _ := strings.Cut(taskop.ChainEntries("", "", 0).PK, "#")
	return Statement{Sid: "OrderingKeys", Actions: []string{"dynamodb:Query"}, Resources: []string{TableARN(p.Env.Table())}, LeadingKeys: []string{prefix + "#*"}}
}

func keep(p *Plan, sid string, keys []string) Statement {
	return Statement{Sid: sid, Deny: true, Actions: writes, Resources: []string{TableARN(p.Env.Table())}, LeadingKeys: keys}
}

func send(p *Plan) Statement {
	s := Statement{Sid: "Send", Actions: []string{"sqs:SendMessage"}}
	for _, l := range p.Lanes {
		s.Resources = append(s.Resources, QueueARN(l.Queue))
	}
	return s
}

func receive(resources ...string) Statement {
	return Statement{Sid: "Receive", Actions: []string{"sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"}, Resources: resources}
}

// Admission accepts and cancels, lists a tenant's tasks, keeps tenants and keys
// for operators, sends, and wakes the aggregator. It cannot receive, and it
// cannot publish estimates that it would then believe.
func admissionStatements(p *Plan) []Statement {
	return []Statement{
		items(p, reads, writes, []string{"dynamodb:Query"}),
		query(p, op.Indexes()...),
		keep(p, "PublishedByTheAggregatorAlone", publishedKeys()),
		send(p),
		{Sid: "Wake", Actions: []string{"lambda:InvokeFunction"}, Resources: []string{FunctionARN(p.Env.Function("aggregator"))}},
	}
}

// A worker runs what is in its own queue. It cannot send, nor change limits or
// credentials, nor publish.
func workerStatements(p *Plan, l Lane) []Statement {
	return []Statement{
		items(p, reads, writes),
		query(p, op.IndexReady),
		chains(p),
		keep(p, "LimitsAreTheOperators", append(limitKeys(), publishedKeys()...)),
		receive(QueueARN(l.Queue)),
	}
}

// The aggregator moves tasks on, sends and publishes. It cannot receive or change
// limits; of dead-letter queues it sees the counts.
func aggregatorStatements(p *Plan) []Statement {
	count := Statement{Sid: "CountDeadLetters", Actions: []string{"sqs:GetQueueAttributes"}}
	for _, l := range p.Lanes {
		count.Resources = append(count.Resources, QueueARN(l.DeadLetters))
	}
	return []Statement{
		items(p, reads, writes, []string{"dynamodb:Query"}),
		query(p, op.Indexes()...),
		keep(p, "LimitsAreTheOperators", limitKeys()),
		send(p),
		count,
	}
}

// Redrive takes from the dead-letter queues and makes tasks due; the aggregator
// sends.
func redriveStatements(p *Plan) []Statement {
	var dead []string
	for _, l := range p.Lanes {
		dead = append(dead, QueueARN(l.DeadLetters))
	}
	return []Statement{
		items(p, reads, writes),
		chains(p),
		keep(p, "LimitsAreTheOperators", append(limitKeys(), publishedKeys()...)),
		receive(dead...),
	}
}

// String shows a statement in messages.
func (s Statement) String() string {
	effect := "allow"
	if s.Deny {
		effect = "deny"
	}
	return fmt.Sprintf("%s %v on %v", effect, s.Actions, s.Resources)
}

package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/aggregate"
	"github.com/lanekeeper/lanekeeper/pkg/chance"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/dynamo"
	"github.com/lanekeeper/lanekeeper/pkg/execute"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
	"github.com/lanekeeper/lanekeeper/pkg/redrive"
	"github.com/lanekeeper/lanekeeper/pkg/sqsevent"
	"github.com/lanekeeper/lanekeeper/pkg/sqsqueue"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

const configYAML = `
version: 1
tasks: {resend_after: 3s}
lanes:
  quick:
    owner: oncall
    slo: {queue_wait_p95: 5s, oldest_age: 10s}
    workers: {max_concurrency: 3}
    attempt_timeout: 2s
    backlog: {max_work: 10m}
    retry: {max_attempts: 3, backoff_base: 100ms, backoff_cap: 500ms}
    dlq: {max_receives: 5}
    brakes: []
  plain:
    owner: oncall
    slo: {queue_wait_p95: 30s, oldest_age: 1m}
    workers: {max_concurrency: 2}
    attempt_timeout: 2s
    backlog: {max_work: 10m}
    retry: {max_attempts: 2, backoff_base: 100ms, backoff_cap: 500ms}
    dlq: {max_receives: 5}
    brakes: []
  retry:
    role: retry
    share: 0.2
    owner: oncall
    slo: {queue_wait_p95: 5m, oldest_age: 15m}
    attempt_timeout: 2s
    backlog: {max_work: 1h}
    retry: {max_attempts: 3, backoff_base: 100ms, backoff_cap: 500ms}
    dlq: {max_receives: 5}
    brakes: []
classes:
  quick: {lane: quick, prior: {p50: 100ms, p95: 300ms}, cap: 2s, late: run}
  plain: {lane: plain, prior: {p50: 200ms, p95: 500ms}, cap: 2s, late: run}
tiers:
  small: {max_queued_work: 5s, max_active: 1, daily_work: 24h, rate: 50, burst: 100}
  large: {max_queued_work: 60s, max_active: 5, daily_work: 24h, rate: 50, burst: 100}
tenants:
  alpha: {tier: small, keys: [key-alpha]}
  beta: {tier: large, keys: [key-beta]}
operators: {keys: [key-operator]}
`

// Times of the system, in real time: short, so that dead processes are found
// out and messages die within seconds.
const (
	attemptTime = time.Second      // of a call to DynamoDB
	invocation  = 9 * time.Second  // of a worker: seven for an attempt and a hand-over
	answerTime  = 10 * time.Second // of an admission
	hidden      = 1                // seconds that a received message is hidden
	receives    = 3                // of a message until it is dead

	enoughDead = 8 // deliveries of dead letters
	downAtMost = 20 * time.Second
)

// system is all processes over one table and one set of queues.
type system struct {
	t     *testing.T
	cfg   *policy.Config
	url   string
	net   *Net
	table string
	urls  map[string]string // of the lanes' queues
	dead  map[string]string // of their dead-letter queues
	clean *sqs.Client       // without faults
	rig   *rig.Rig          // for looking on, without faults

	mu      sync.Mutex
	rng     *rand.Rand // whether a worker starts
	failing float64    // of workers, that do not
	journal map[string]*attempt
	deaths  int
	began   time.Time
	dying   int // deliveries of dead letters
}

// attempt is what the handlers noted themselves of one.
type attempt struct{ begun, done int }

func credentials(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
}

func (s *system) dynamo(p *Process) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: aws.String(s.url), HTTPClient: &http.Client{Transport: p},
		Credentials: aws.CredentialsProviderFunc(credentials)})
}

func (s *system) tableOf(p *Process) *dynamo.Table {
	return dynamo.New(s.dynamo(p), s.table, dynamo.Options{AttemptTimeout: attemptTime})
}

func (s *system) sqs(p *Process) *sqs.Client {
	return sqs.New(sqs.Options{Region: "us-east-1", BaseEndpoint: aws.String(s.url), HTTPClient: &http.Client{Transport: p},
		Credentials: aws.CredentialsProviderFunc(credentials)})
}

func (s *system) sender(p *Process) *sqsqueue.Sender { return sqsqueue.New(s.sqs(p), s.urls) }

// newSystem makes the table and the queues.
func newSystem(t *testing.T, url string, seed uint64, share float64) *system {
	t.Helper()
	cfg, err := policyfile.Parse("roundtrip.yaml", []byte(configYAML))
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("roundtrip-%d", time.Now().UnixNano())
	s := &system{t: t, cfg: cfg, url: url, net: NewNet(seed, share), table: name, urls: map[string]string{}, dead: map[string]string{},
		rng: rand.New(rand.NewPCG(seed, 2)), failing: 0.25, began: time.Now(), journal: map[string]*attempt{}}
	safe := s.process(t.Context(), false)
	safe.Safe = true
	if _, err := s.dynamo(safe).CreateTable(t.Context(), dynamo.Schema(name)); err != nil {
		t.Fatal(err)
	}
	s.clean = s.sqs(safe)
	create := func(queue string, attrs map[string]string) string {
		attrs["VisibilityTimeout"] = strconv.Itoa(hidden)
		out, err := s.clean.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(queue), Attributes: attrs})
		if err != nil {
			t.Fatal(err)
		}
		return *out.QueueUrl
	}
	for _, lane := range cfg.LaneNames() {
		queue := name + "-" + lane
		s.dead[lane] = create(queue+"-dlq", map[string]string{})
		policy, err := json.Marshal(map[string]any{"deadLetterTargetArn": arn(queue + "-dlq"), "maxReceiveCount": receives})
		if err != nil {
			t.Fatal(err)
		}
		s.urls[lane] = create(queue, map[string]string{"RedrivePolicy": string(policy)})
	}
	s.rig = rig.New(cfg, dynamo.New(s.dynamo(safe), name, dynamo.Options{AttemptTimeout: 20 * time.Second}), nil)
	return s
}

func arn(queue string) string { return "arn:aws:sqs:us-east-1:000000000000:" + queue }

func (s *system) process(ctx context.Context, mortal bool) *Process {
	p := s.net.Process(ctx)
	p.Mortal = mortal
	return p
}

// replace counts a death and starts another process.
func (s *system) replace(ctx context.Context) *Process {
	s.mu.Lock()
	s.deaths++
	s.mu.Unlock()
	return s.process(ctx, true)
}

// poll plays an event source mapping: it gives what is in a queue to a function
// until ctx ends. A process that died has answered nothing.
func (s *system) poll(ctx context.Context, url, queue string, batch int32, start func(p *Process) func(context.Context, lambdaevents.SQSEvent) (lambdaevents.SQSEventResponse, error)) {
	p := s.process(ctx, true)
	handle := start(p)
	for ctx.Err() == nil {
		out, err := s.clean.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: aws.String(url), MaxNumberOfMessages: batch,
			MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameAll}})
		if err != nil || len(out.Messages) == 0 {
			time.Sleep(150 * time.Millisecond)
			continue
		}
		if s.failsToStart(queue) {
			continue // received, and run by nobody
		}
		event := lambdaevents.SQSEvent{}
		for _, m := range out.Messages {
			event.Records = append(event.Records, lambdaevents.SQSMessage{MessageId: *m.MessageId, Body: *m.Body, Attributes: m.Attributes, EventSourceARN: arn(queue)})
		}
		if strings.HasSuffix(queue, "-dlq") {
			s.mu.Lock()
			s.dying += len(out.Messages)
			s.mu.Unlock()
		}
		limited, cancel := context.WithTimeout(p.ctx, invocation)
		answer, err := handle(limited, event)
		cancel()
		if p.Dead() {
			p = s.replace(ctx)
			handle = start(p)
			continue
		}
		if err != nil {
			s.t.Errorf("a batch of %s failed as a whole: %v", queue, err)
			continue
		}
		failed := map[string]bool{}
		for _, f := range answer.BatchItemFailures {
			failed[f.ItemIdentifier] = true
		}
		for _, m := range out.Messages {
			if failed[*m.MessageId] {
				continue
			}
			// Refused where the message is visible again; it comes once more.
			_, _ = s.clean.DeleteMessage(context.WithoutCancel(ctx), &sqs.DeleteMessageInput{QueueUrl: aws.String(url), ReceiptHandle: m.ReceiptHandle})
		}
	}
}

// failsToStart also lets no worker of one lane start until some of its wake-ups
// have died, but not for ever.
func (s *system) failsToStart(queue string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.HasSuffix(queue, "-plain") && s.down() || s.rng.Float64() < s.failing
}

func (s *system) down() bool {
	return s.failing > 0 && s.dying < enoughDead && time.Since(s.began) < downAtMost
}

// start runs workers, redrive and aggregator until ctx ends; wait for the group.
func (s *system) start(ctx context.Context) *sync.WaitGroup {
	var all sync.WaitGroup
	for _, lane := range s.cfg.LaneNames() {
		for range s.cfg.Workers(lane) {
			all.Go(func() {
				s.poll(ctx, s.urls[lane], s.table+"-"+lane, 1, func(p *Process) func(context.Context, lambdaevents.SQSEvent) (lambdaevents.SQSEventResponse, error) {
					return sqsevent.New(execute.New(execute.Deps{Config: s.cfg, Table: s.tableOf(p), Mux: s.handlers(p), Clock: clock.System, Tally: tally.New(),
						Float: chance.Float, NewID: chance.NewToken}), lane).Handle
				})
			})
		}
		all.Go(func() {
			s.poll(ctx, s.dead[lane], s.table+"-"+lane+"-dlq", 10, func(p *Process) func(context.Context, lambdaevents.SQSEvent) (lambdaevents.SQSEventResponse, error) {
				return sqsevent.NewDead(redrive.New(redrive.Deps{Config: s.cfg, Table: s.tableOf(p), Clock: clock.System, Tally: tally.New()})).Handle
			})
		})
	}
	all.Go(func() {
		p := s.process(ctx, true)
		for ctx.Err() == nil {
			if p.Dead() {
				p = s.replace(ctx)
			}
			svc := aggregate.New(aggregate.Deps{Config: s.cfg, Table: s.tableOf(p), Queue: s.sender(p), Clock: clock.System, Tally: tally.New(), Float: chance.Float, NewID: chance.NewToken})
			_, _ = svc.Run(p.ctx, true) // an error is one of the faults
			time.Sleep(100 * time.Millisecond)
		}
	})
	return &all
}

func (s *system) admission(p *Process) *intake.Service {
	return intake.New(intake.Deps{Config: s.cfg, Table: s.tableOf(p), Queue: s.sender(p), Clock: clock.System, Tally: tally.New(), Float: chance.Float, NewID: chance.NewID})
}

// work is what a handler is to do: end in that way in the first so many
// attempts, after so long.
type work struct {
	Do string `json:"do"`
	N  int    `json:"n"`
	MS int64  `json:"ms"`
}

// handlers are the users' code in a worker's process, with a journal of their own.
func (s *system) handlers(p *Process) *worker.Mux {
	note := func(t *worker.Task, f func(a *attempt)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if p.Dead() {
			return
		}
		name := fmt.Sprint(t.ID, "/", t.Attempt)
		if s.journal[name] == nil {
			s.journal[name] = &attempt{}
		}
		f(s.journal[name])
	}
	mux := worker.New()
	for class := range s.cfg.Classes {
		mux.Handle(class, func(ctx context.Context, t *worker.Task) (any, error) {
			var w work
			if err := t.Decode(&w); err != nil {
				return nil, err
			}
			note(t, func(a *attempt) { a.begun++ })
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(time.Duration(w.MS) * time.Millisecond):
			}
			if t.Attempt <= w.N {
				switch w.Do {
				case "fail":
					return nil, errors.New("a downstream failed")
				case "permanent":
					return nil, worker.Permanent(errors.New("bad input"))
				case "continue":
					return nil, worker.Continue(t.Attempt)
				case "panic":
					panic("a bug")
				}
			}
			note(t, func(a *attempt) { a.done++ })
			return t.Attempt, nil
		})
	}
	return mux
}

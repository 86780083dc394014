package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/env"
	"github.com/lanekeeper/lanekeeper/pkg/environment"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

// Limits that New keeps; see the package comment.
const (
	MinConcurrency   = 2
	MinReceives      = 5
	VisibilityFactor = 6
	maxVisibilityS   = 12 * 60 * 60
)

// Times of the functions that are not workers, in seconds.
const (
	admissionTimeoutS  = 29  // HTTP APIs give up after 30
	aggregatorTimeoutS = 200 // a run of 170, 15 of waiting for the lease, and some to end
	redriveTimeoutS    = 60
)

// Runs of the aggregator that fail are not repeated and old starts are dropped:
// the schedule starts one each minute anyway.
const (
	AggregatorRetries = 0
	AggregatorMaxAgeS = 60
)

// Plan is one deployment.
type Plan struct {
	Env        *environment.Environment
	Config     *policy.Config
	Lanes      []Lane // sorted by name
	Admission  Function
	Aggregator Function
	Redrive    *Function // nil where the build has none
	Alarms     []Alarm
	Dashboard  string // JSON with CloudFormation's ${AWS::Region}
}

// Lane is a queue, its dead-letter queue, its workers and what joins them.
type Lane struct {
	Name           string
	Queue          string
	DeadLetters    string
	VisibilityS    int
	MaxReceives    int
	DLQRetentionS  int
	DLQVisibilityS int
	Worker         Function
	MaxConcurrency int
	BatchSize      int
	WindowS        int
}

// Function is a Lambda function.
type Function struct {
	Key        string // admission, aggregator, redrive, worker-<lane>
	Name       string
	Package    string // the zip's name without suffix
	About      string
	TimeoutS   int
	MemoryMB   int
	Reserved   int // 0: nothing is reserved
	Env        map[string]string
	LogGroup   string
	Statements []Statement // its own permissions; logs and traces are everyone's
}

// Options are what the environment and the configuration do not say.
type Options struct {
	// Redrive says that the build has the redrive function.
	Redrive bool
}

// New plans a deployment.
func New(e *environment.Environment, c *policy.Config, o Options) (*Plan, error) {
	p := &Plan{Env: e, Config: c}
	for _, name := range c.LaneNames() {
		p.Lanes = append(p.Lanes, p.lane(name))
	}
	p.Admission = p.function(environment.Admission, environment.Admission, "decides about submissions and answers the API", admissionTimeoutS, e.MemoryMB.Admission)
	p.Admission.Env[env.Queues] = p.urls(e.Queue)
	p.Admission.Env[env.Aggregator] = e.Function(environment.Aggregator)
	p.Admission.Env[env.TraceShare] = strconv.FormatFloat(e.TraceShare, 'g', -1, 64)
	if j := e.JWT; j != nil {
		p.Admission.Env[env.JWTTenantClaim] = j.TenantClaim
		if j.TierClaim != "" {
			p.Admission.Env[env.JWTTierClaim] = j.TierClaim
		}
	}
	p.Admission.Statements = admissionStatements(p)

	p.Aggregator = p.function(environment.Aggregator, environment.Aggregator, "releases, repairs, publishes estimates and metrics", aggregatorTimeoutS, e.MemoryMB.Aggregator)
	p.Aggregator.Env[env.Queues] = p.urls(e.Queue)
	p.Aggregator.Env[env.DeadLetters] = environment.DeadLettersSuffix
	p.Aggregator.Env[env.MetricsNamespace] = e.Namespace()
	p.Aggregator.Statements = aggregatorStatements(p)

	if o.Redrive {
		f := p.function(environment.Redrive, environment.Redrive, "heals deliveries that never became an attempt", redriveTimeoutS, e.MemoryMB.Worker)
		f.Statements = redriveStatements(p)
		p.Redrive = &f
	}
	p.Alarms = alarms(p)
	p.Dashboard = dashboard(p)
	if err := p.check(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Plan) function(key, pkg, about string, timeoutS, memoryMB int) Function {
	return Function{
		Key: key, Name: p.Env.Function(key), Package: pkg, About: about, TimeoutS: timeoutS, MemoryMB: memoryMB,
		LogGroup: p.Env.LogGroup(key), Env: map[string]string{env.Table: p.Env.Table()},
	}
}

func (p *Plan) lane(name string) Lane {
	c, spec := p.Config, p.Config.Lanes[name]
	l := Lane{
		Name: name, Queue: p.Env.Queue(name), DeadLetters: p.Env.DeadLetters(name),
		VisibilityS: seconds(c.VisibilityTimeout(name)), MaxReceives: spec.DLQ.MaxReceives, DLQRetentionS: seconds(spec.DLQ.Retention),
		DLQVisibilityS: VisibilityFactor * redriveTimeoutS, MaxConcurrency: c.Workers(name), BatchSize: spec.Batch.Size, WindowS: seconds(spec.Batch.Window),
	}
	l.Worker = p.function(environment.WorkerPrefix+name, WorkerPackage(p.Env, name), "runs the tasks of lane "+name, seconds(c.FunctionTimeout(name)), p.Env.MemoryMB.Worker)
	l.Worker.Env[env.Lane] = name
	l.Worker.Reserved = p.Env.Reserved(c, name)
	l.Worker.Statements = workerStatements(p, l)
	return l
}

// WorkerPackage is the package that a lane's workers run: the built-in one, or
// the one made of the user's binary for this lane.
func WorkerPackage(e *environment.Environment, lane string) string {
	if e.WorkerBinary(lane) == "" {
		return "worker"
	}
	return environment.WorkerPrefix + lane
}

// Functions are all functions of the plan.
func (p *Plan) Functions() []Function {
	all := []Function{p.Admission, p.Aggregator}
	if p.Redrive != nil {
		all = append(all, *p.Redrive)
	}
	for _, l := range p.Lanes {
		all = append(all, l.Worker)
	}
	return all
}

// Reserved is the concurrency that all functions reserve together.
func (p *Plan) Reserved() int {
	sum := 0
	for _, f := range p.Functions() {
		sum += f.Reserved
	}
	return sum
}

// check holds the plan to the rules. The configuration's own check keeps some of
// them already; what is deployed is checked here whatever made it.
func (p *Plan) check() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for _, l := range p.Lanes {
		fault(l.MaxConcurrency < MinConcurrency || l.MaxConcurrency > 1000, "lane %s: MaximumConcurrency is %d, must be from %d to 1000", l.Name, l.MaxConcurrency, MinConcurrency)
		fault(p.Env.Reservations && l.MaxConcurrency > l.Worker.Reserved, "lane %s: MaximumConcurrency %d is above the reserve of %d", l.Name, l.MaxConcurrency, l.Worker.Reserved)
		need := VisibilityFactor*l.Worker.TimeoutS + l.WindowS
		fault(l.VisibilityS < need, "lane %s: a visibility of %d s is below %d s, six function timeouts and the window", l.Name, l.VisibilityS, need)
		fault(l.VisibilityS > maxVisibilityS, "lane %s: a visibility of %d s is above SQS's 12 hours", l.Name, l.VisibilityS)
		fault(l.MaxReceives < MinReceives, "lane %s: %d receives are fewer than %d", l.Name, l.MaxReceives, MinReceives)
		fault(l.Worker.TimeoutS > 900, "lane %s: a function may run for 900 s, not %d s", l.Name, l.Worker.TimeoutS)
	}
	errs = append(errs, p.Env.CheckReserves(p.Reserved(), p.Env.AccountConcurrency))
	names := map[string]bool{}
	for _, l := range p.Lanes {
		for _, q := range []string{l.Queue, l.DeadLetters} {
			fault(names[q], "two queues are named %s: rename lane %s", q, l.Name)
			names[q] = true
		}
	}
	for _, f := range p.Functions() {
		fault(names[f.Name], "two functions are named %s", f.Name)
		fault(len(f.Name) > 64, "the function name %s is longer than 64 characters", f.Name)
		names[f.Name] = true
		size := 0
		for k, v := range f.Env {
			size += len(k) + len(resolved.Replace(v))
		}
		fault(size > 4096, "function %s: %d bytes of environment are above Lambda's 4 KB: use fewer lanes or shorter names of lanes", f.Key, size)
	}
	return errors.Join(errs...)
}

// resolved makes pseudo parameters as long as they can become.
var resolved = strings.NewReplacer("${AWS::Region}", "ap-southeast-1", "${AWS::URLSuffix}", "amazonaws.com.cn", "${AWS::AccountId}", "123456789012")

// urls are the queue URLs by lane as JSON. They are made of names, so that no
// stack needs another's outputs.
func (p *Plan) urls(name func(lane string) string) string {
	urls := map[string]string{}
	for _, lane := range p.Config.LaneNames() {
		urls[lane] = "https://sqs.${AWS::Region}.${AWS::URLSuffix}/${AWS::AccountId}/" + name(lane)
	}
	text, err := json.Marshal(urls)
	if err != nil {
		panic(err) // strings marshal
	}
	return string(text)
}

func seconds(d policy.Duration) int { return int(d.Std().Seconds()) }

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/differential/emulator"
	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/localstack/function"
	"github.com/lanekeeper/lanekeeper/localstack/mapping"
	"github.com/lanekeeper/lanekeeper/localstack/schedule"
	"github.com/lanekeeper/lanekeeper/pkg/aggregate"
	"github.com/lanekeeper/lanekeeper/pkg/apigw"
	"github.com/lanekeeper/lanekeeper/pkg/chance"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/dynamo"
	"github.com/lanekeeper/lanekeeper/pkg/execute"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/meter"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
	"github.com/lanekeeper/lanekeeper/pkg/sqsevent"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/tickevent"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// Who asks the table, in the names of the report.
const (
	byAdmission  = "admission"
	byWorker     = "worker"
	byAggregator = "aggregator"
)

type whoKey struct{}

// as is a table whose requests are counted for one function.
type as struct {
	op.Table
	who string
}

func (a as) in(ctx context.Context) context.Context { return context.WithValue(ctx, whoKey{}, a.who) }

func (a as) Get(ctx context.Context, key op.Key, consistent bool) (op.Item, error) {
	return a.Table.Get(a.in(ctx), key, consistent)
}

func (a as) BatchGet(ctx context.Context, keys []op.Key, consistent bool) ([]op.Item, error) {
	return a.Table.BatchGet(a.in(ctx), keys, consistent)
}

func (a as) Write(ctx context.Context, w op.Write) (op.Item, error) {
	return a.Table.Write(a.in(ctx), w)
}

func (a as) Transact(ctx context.Context, tx op.Tx) error { return a.Table.Transact(a.in(ctx), tx) }

func (a as) Query(ctx context.Context, q op.Query) (op.Page, error) {
	return a.Table.Query(a.in(ctx), q)
}

// describe names a request by who made it and for what.
func describe(ctx context.Context) (string, []op.Write) {
	name, writes := dynamo.DescribeCall(ctx)
	who, _ := ctx.Value(whoKey{}).(string)
	return who + " " + name, writes
}

// sent counts the messages on their way to a queue.
type sent struct {
	queue.Sender
	n atomic.Int64
}

func (s *sent) Send(ctx context.Context, lane string, m queue.Outgoing) error {
	s.n.Add(1)
	return s.Sender.Send(ctx, lane, m)
}

// road is the whole system on the DynamoDB adapter: one admission instance, as
// many worker instances as run at once, each with statistics of its own to flush (as
// on Lambda, where an instance serves one event at a time), the aggregator,
// an emulated DynamoDB behind a meter, and the embedded queue.
type road struct {
	cfg   *policy.Config
	meter *meter.Meter
	table *dynamo.Table // metered
	past  *dynamo.Table // past the meter, to look on
	db    *embed.DB
	sent  *sent

	admission *apigw.Handler
	schedule  *schedule.Schedule
	mapping   *mapping.Mapping

	mu      sync.Mutex
	idle    []*execute.Service // warm worker instances, the last used on top
	tallies []flusher
}

// flusher is one instance's statistics and the table it flushes them to.
type flusher struct {
	tally *tally.Recorder
	table op.Table
}

func newRoad(ctx context.Context, cfg *policy.Config, dir string) (*road, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	fake, err := emulator.New("tasks")
	if err != nil {
		return nil, err
	}
	r := &road{cfg: cfg, meter: meter.New(fake, describe), past: dynamo.New(fake, "tasks", dynamo.Options{})}
	r.table = dynamo.New(r.meter, "tasks", dynamo.Options{})
	if r.db, err = embed.Open(filepath.Join(dir, "queue.db"), embed.Options{}); err != nil {
		return nil, err
	}
	r.sent = &sent{Sender: r.db.Queues()}
	if err := r.seed(ctx); err != nil {
		return nil, errors.Join(err, r.db.Close())
	}
	table, recorder := r.instance(byAdmission)
	r.admission = apigw.New(intake.New(intake.Deps{Config: cfg, Table: table, Queue: r.sent, Clock: clock.System, Tally: recorder,
		Float: chance.Float, NewID: chance.NewID, Wake: r.wake}), "bench")
	return r, nil
}

// instance is what a function's new instance is given of its own.
func (r *road) instance(who string) (op.Table, *tally.Recorder) {
	f := flusher{tally.New(), as{r.table, who}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tallies = append(r.tallies, f)
	return f.table, f.tally
}

// seed writes, past the meter, what is there before the first task comes.
func (r *road) seed(ctx context.Context) error {
	var writes []op.Write
	for _, name := range r.cfg.TenantNames() {
		t, _ := r.cfg.Tenant(name)
		writes = append(writes, taskop.PutTenant(name, t.Tier))
		for _, key := range t.Keys {
			writes = append(writes, taskop.PutCredential(key, taskop.Credential{Tenant: name}))
		}
	}
	for _, name := range r.cfg.LaneNames() {
		writes = append(writes, taskop.CreateLane(name, int64(r.cfg.Slots(name))))
		if err := r.db.Queues().Create(ctx, name, queue.Config{Visibility: r.cfg.VisibilityTimeout(name).Std()}); err != nil {
			return err
		}
	}
	for _, w := range writes {
		if _, err := r.past.Write(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// work serves one event in a warm instance, or in a new one if none is idle.
func (r *road) work(ctx context.Context, e lambdaevents.SQSEvent) (lambdaevents.SQSEventResponse, error) {
	svc := r.borrow()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.idle = append(r.idle, svc)
	}()
	return sqsevent.New(svc, laneName).Handle(ctx, e)
}

func (r *road) borrow() *execute.Service {
	r.mu.Lock()
	if n := len(r.idle); n > 0 {
		svc := r.idle[n-1]
		r.idle = r.idle[:n-1]
		r.mu.Unlock()
		return svc
	}
	r.mu.Unlock()
	table, recorder := r.instance(byWorker)
	return execute.New(execute.Deps{Config: r.cfg, Table: table, Mux: worker.New(), Clock: clock.System, Tally: recorder,
		Float: chance.Float, NewID: chance.NewToken})
}

// start lets workers and aggregator run by themselves.
func (r *road) start(ctx context.Context) (err error) {
	table, recorder := r.instance(byAggregator)
	svc := aggregate.New(aggregate.Deps{Config: r.cfg, Table: table, Queue: r.sent, Clock: clock.System, Tally: recorder,
		Float: chance.Float, NewID: chance.NewToken})
	r.schedule, err = schedule.Start(ctx, schedule.Config{Name: "aggregator", Every: time.Minute, Timeout: 200 * time.Second,
		Handler: function.Handler(tickevent.New(svc).Handle),
		Log:     slog.New(slog.DiscardHandler)}) // stop ends its run in the middle, which it would report
	if err != nil {
		return err
	}
	r.mapping, err = mapping.Start(ctx, mapping.Config{Queue: laneName, Source: r.db.Queues(), Handler: function.Handler(r.work),
		FunctionName: "worker", FunctionTimeout: r.cfg.FunctionTimeout(laneName).Std(), BatchSize: 1,
		MaxConcurrency: r.cfg.Workers(laneName), ReportBatchItemFailures: true})
	return err
}

func (r *road) wake(context.Context) {
	if r.schedule != nil {
		_ = r.schedule.Invoke() // stopped: nothing to wake
	}
}

// submit sends one event through the admission and returns the task's state at that moment.
func (r *road) submit(ctx context.Context, key, body string) (events.State, error) {
	resp, err := r.admission.Handle(ctx, event(key, body))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusAccepted {
		return "", fmt.Errorf("a submission was answered %d: %s", resp.StatusCode, resp.Body)
	}
	var t events.Task
	if err := json.Unmarshal([]byte(resp.Body), &t); err != nil {
		return "", err
	}
	return t.State, nil
}

// flush writes what the instances have merged and not yet written: otherwise
// the last tasks' statistics would be counted for nobody.
func (r *road) flush(ctx context.Context) {
	r.mu.Lock()
	all := append([]flusher(nil), r.tallies...)
	r.mu.Unlock()
	for _, f := range all {
		f.tally.Flush(ctx, f.table)
	}
}

// stop ends mapping and schedule and writes the last statistics.
func (r *road) stop(ctx context.Context) error {
	var errs []error
	if r.mapping != nil {
		errs = append(errs, r.mapping.Stop(ctx))
	}
	if r.schedule != nil {
		now, cancel := context.WithCancel(ctx)
		cancel() // its run is told to end; there is nothing to wait for
		if err := r.schedule.Stop(now); !errors.Is(err, context.Canceled) {
			errs = append(errs, err)
		}
	}
	r.flush(ctx)
	return errors.Join(errs...)
}

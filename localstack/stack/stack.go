package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/localstack/function"
	"github.com/lanekeeper/lanekeeper/localstack/gateway"
	"github.com/lanekeeper/lanekeeper/localstack/mapping"
	"github.com/lanekeeper/lanekeeper/localstack/prom"
	"github.com/lanekeeper/lanekeeper/localstack/schedule"
	"github.com/lanekeeper/lanekeeper/pkg/aggregate"
	"github.com/lanekeeper/lanekeeper/pkg/apigw"
	"github.com/lanekeeper/lanekeeper/pkg/awsboot"
	"github.com/lanekeeper/lanekeeper/pkg/chance"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/execute"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
	"github.com/lanekeeper/lanekeeper/pkg/redrive"
	"github.com/lanekeeper/lanekeeper/pkg/sqsevent"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/tickevent"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// Options say what to start.
type Options struct {
	Config  *policy.Config
	DataDir string // created if missing; holds lanekeeper.db
	Addr    string // to listen on, such as 127.0.0.1:8080; "" listens nowhere
	Mux     *worker.Mux
	// PublishEvery is how often estimates are published; 0 is once a minute.
	PublishEvery time.Duration
	// Probes lets classes in, now and then, that are refused for their estimate alone.
	Probes bool
	// Trace follows tasks; nil: nothing is.
	Trace *trace.Tracer
	// Table and Queue wrap the store and the queue, for tests that make them fail.
	Table func(op.Table) op.Table
	Queue func(queue.Sender) queue.Sender
}

// Stack is a running system.
type Stack struct {
	URL string

	opts     Options
	db       *embed.DB
	table    op.Table
	tallies  []*tally.Recorder
	gateway  *gateway.Gateway
	handler  http.Handler
	server   *http.Server
	mappings []*mapping.Mapping
	sched    *schedule.Schedule
	stopping atomic.Bool
	kill     context.CancelFunc
	beside   sync.WaitGroup
}

// Start starts everything; it is ready when Start returns. The end of ctx stops
// it at once, as kill -9 would; use Stop to drain.
func Start(ctx context.Context, o Options) (*Stack, error) {
	if err := os.MkdirAll(o.DataDir, 0o755); err != nil {
		return nil, err
	}
	db, err := embed.Open(filepath.Join(o.DataDir, "lanekeeper.db"), embed.Options{})
	if err != nil {
		return nil, err
	}
	if o.Mux == nil {
		o.Mux = worker.New()
	}
	ctx, kill := context.WithCancel(ctx)
	s := &Stack{opts: o, db: db, table: db.Table(), kill: kill}
	if o.Table != nil {
		s.table = o.Table(s.table)
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Stop(context.Background()))
	}
	return s, nil
}

func (s *Stack) start(ctx context.Context) error {
	cfg := s.opts.Config
	var listener net.Listener
	if s.opts.Addr != "" { // first of all: nothing has begun yet when the port is taken
		var err error
		if listener, err = net.Listen("tcp", s.opts.Addr); err != nil {
			return err
		}
	}
	if err := s.seed(ctx); err != nil {
		return err
	}
	if err := s.createQueues(ctx); err != nil {
		return err
	}
	if err := s.recover(ctx); err != nil {
		return err
	}
	if err := s.warnLeftovers(ctx); err != nil {
		return err
	}
	var sender queue.Sender = s.db.Queues()
	if s.opts.Queue != nil {
		sender = s.opts.Queue(sender)
	}
	aggregator := aggregate.New(aggregate.Deps{Config: cfg, Table: s.table, Queue: sender, Clock: clock.System, Tally: s.tally(), Float: chance.Float,
		NewID: chance.NewToken, Trace: s.opts.Trace, PublishEvery: s.opts.PublishEvery, Stopping: s.stopping.Load})
	admission := intake.New(intake.Deps{Config: cfg, Table: s.table, Queue: sender, Clock: clock.System, Tally: s.tally(), Float: chance.Float,
		NewID: chance.NewID, Trace: s.opts.Trace, Wake: s.wake, Probes: s.opts.Probes})

	var err error
	s.sched, err = schedule.Start(ctx, schedule.Config{Name: "aggregator", Every: time.Minute, Timeout: 200 * time.Second,
		Handler: function.Handler(tickevent.New(aggregator).Handle)})
	if err != nil {
		return err
	}
	for _, lane := range cfg.LaneNames() {
		if err := s.startLane(ctx, lane); err != nil {
			return err
		}
	}
	for _, lane := range cfg.LaneNames() {
		if err := s.startRedrive(ctx, lane); err != nil {
			return err
		}
	}
	s.gateway = gateway.New(function.Handler(apigw.New(admission, awsboot.Version).Handle), gateway.Options{FunctionName: "admission"})
	s.beside.Go(func() { s.flush(ctx) })
	s.serve(listener)
	return nil
}

func (s *Stack) startLane(ctx context.Context, name string) error {
	cfg := s.opts.Config
	lane, _ := cfg.Lane(name)
	svc := execute.New(execute.Deps{Config: cfg, Table: s.table, Mux: s.opts.Mux, Clock: clock.System, Tally: s.tally(), Float: chance.Float,
		NewID: chance.NewToken, Trace: s.opts.Trace, Stopping: s.stopping.Load})
	m, err := mapping.Start(ctx, mapping.Config{
		Queue: name, Source: s.db.Queues(), Handler: function.Handler(sqsevent.New(svc, name).Handle), FunctionName: "worker-" + name,
		FunctionTimeout: cfg.FunctionTimeout(name).Std(), BatchSize: lane.Batch.Size, Window: lane.Batch.Window.Std(),
		MaxConcurrency: cfg.Workers(name), ReportBatchItemFailures: true,
	})
	if err == nil {
		s.mappings = append(s.mappings, m)
	}
	return err
}

// startRedrive empties a lane's dead-letter queue.
func (s *Stack) startRedrive(ctx context.Context, lane string) error {
	svc := redrive.New(redrive.Deps{Config: s.opts.Config, Table: s.table, Clock: clock.System, Tally: s.tally()})
	m, err := mapping.Start(ctx, mapping.Config{
		Queue: DeadLetters(lane), Source: s.db.Queues(), Handler: function.Handler(sqsevent.NewDead(svc).Handle), FunctionName: "redrive",
		FunctionTimeout: redriveTimeout, MaxConcurrency: mapping.MinMaxConcurrency, ReportBatchItemFailures: true,
	})
	if err == nil {
		s.mappings = append(s.mappings, m)
	}
	return err
}

// redriveTimeout is the redrive function's; the dead-letter queues hide what it
// has received for six times as long.
const redriveTimeout = 5 * time.Second

func (s *Stack) tally() *tally.Recorder {
	t := tally.New()
	s.tallies = append(s.tallies, t)
	return t
}

// wake starts a run of the aggregator beside the schedule's, as an asynchronous
// invocation does.
func (s *Stack) wake(context.Context) {
	if s.sched != nil {
		_ = s.sched.Invoke() // stopped: nothing to wake
	}
}

// seed puts the configuration's tenants and keys into an empty table.
func (s *Stack) seed(ctx context.Context) error {
	cfg := s.opts.Config
	var writes []op.Write
	for _, name := range cfg.TenantNames() {
		t, _ := cfg.Tenant(name)
		writes = append(writes, taskop.PutTenant(name, t.Tier))
	}
	for _, key := range cfg.Operators.Keys {
		writes = append(writes, taskop.PutCredential(key, taskop.Credential{Operator: true}))
	}
	for _, w := range writes {
		if _, err := s.db.Table().Write(ctx, w); err != nil && op.FailedCond(err) == nil {
			return fmt.Errorf("seeding tenants: %w", err)
		}
	}
	for _, name := range cfg.TenantNames() {
		if err := s.compareTenant(ctx, name); err != nil {
			return err
		}
	}
	for _, name := range cfg.TenantNames() {
		t, _ := cfg.Tenant(name)
		for _, key := range t.Keys { // one that was withdrawn stays so
			if err := s.db.Table().Transact(ctx, taskop.AddKey(name, key, clock.System().UnixMilli(), nil)); err != nil && op.FailedCond(err) == nil {
				return fmt.Errorf("seeding keys: %w", err)
			}
		}
	}
	return nil
}

// DeadLetters is the name of a lane's dead-letter queue.
func DeadLetters(lane string) string { return lane + "-dlq" }

func (s *Stack) createQueues(ctx context.Context) error {
	cfg := s.opts.Config
	for _, name := range cfg.LaneNames() {
		lane, _ := cfg.Lane(name)
		if err := s.db.Queues().Create(ctx, DeadLetters(name), queue.Config{Visibility: 6 * redriveTimeout, Retention: lane.DLQ.Retention.Std()}); err != nil {
			return err
		}
		err := s.db.Queues().Create(ctx, name, queue.Config{Visibility: cfg.VisibilityTimeout(name).Std(), Retention: queue.MaxRetention,
			MaxReceives: lane.DLQ.MaxReceives, DeadLetter: DeadLetters(name)})
		if err != nil {
			return err
		}
	}
	return nil
}

// Handler serves the API and /metrics.
func (s *Stack) Handler() http.Handler { return s.handler }

// Table is the store, as the services see it.
func (s *Stack) Table() op.Table { return s.table }

// DB is the embedded engine.
func (s *Stack) DB() *embed.DB { return s.db }

// uploadLimit is how long a request may take to come in whole.
const uploadLimit = 30 * time.Second

func (s *Stack) serve(l net.Listener) {
	metrics := prom.Handler(s.metrics)
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" { // beside the API, not part of it
			metrics.ServeHTTP(w, r)
			return
		}
		s.gateway.ServeHTTP(w, r)
	})
	if l == nil {
		return
	}
	s.URL = "http://" + l.Addr().String()
	s.server = &http.Server{Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: uploadLimit, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	go func() {
		if err := s.server.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			slog.Error("the server ended", "error", err)
		}
	}()
}

// flush writes the statistics once a second. On AWS each invocation does it when
// it is due; here idle functions would keep the last few for ever.
func (s *Stack) flush(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for _, t := range s.tallies {
				t.Flush(ctx, s.table)
			}
		}
	}
}

// answerTime is how long requests under way may take once the system stops.
const answerTime = 3 * time.Second

// Stop drains: no new requests, no new attempts, running ones may finish until
// ctx ends; then they are told to hand their tasks back. Nothing is lost either way.
func (s *Stack) Stop(ctx context.Context) error {
	s.stopping.Store(true)
	var errs []error
	if s.server != nil {
		answers, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		if s.server.Shutdown(answers) != nil {
			errs = append(errs, s.server.Close()) // what still comes in or waits does so in vain
		}
	}
	done := make(chan error, len(s.mappings))
	for _, m := range s.mappings {
		go func() { done <- m.Stop(ctx) }()
	}
	for range s.mappings {
		errs = append(errs, <-done)
	}
	if s.sched != nil {
		now, cancel := context.WithTimeout(context.Background(), 3*aggregate.TickEvery)
		defer cancel() // its run ends within a tick
		if err := s.sched.Stop(now); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			errs = append(errs, err)
		}
	}
	s.kill()
	s.beside.Wait()
	end, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	for _, t := range s.tallies {
		t.Flush(end, s.table)
	}
	return errors.Join(append(errs, s.db.Close())...)
}

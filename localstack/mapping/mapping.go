package mapping

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lanekeeper/lanekeeper/localstack/function"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

// Source is what a mapping needs of the queues.
type Source interface {
	// Receive takes up to most (1 to 10) messages, waiting at most wait for the
	// first, and hides them for visibility (0: the queue's own).
	Receive(ctx context.Context, queue string, most int, wait, visibility time.Duration) ([]queue.Message, error)
	Delete(ctx context.Context, queue, receiptHandle string) error
	ChangeVisibility(ctx context.Context, queue, receiptHandle string, visibility time.Duration) error
}

// Limits of a mapping of a standard queue. AWS allows larger batches, which
// Lanekeeper has no use for.
const (
	MaxBatchSize      = 10
	MaxWindow         = 300 * time.Second
	MinMaxConcurrency = 2
	MaxMaxConcurrency = 1000
	longPoll          = 20 * time.Second
)

// Config describes a mapping and the function it invokes.
type Config struct {
	Queue  string // its name at Source
	ARN    string // the queue's, in events; default: Queue in us-east-1, account 000000000000
	Region string // default us-east-1
	Source Source

	Handler         lambda.Handler
	FunctionName    string        // default: Queue
	FunctionARN     string        // default as in package function
	FunctionTimeout time.Duration // > 0

	BatchSize               int           // 1 to 10; default 10
	Window                  time.Duration // 0 to 300 s
	MaxConcurrency          int           // 2 to 1,000
	Visibility              time.Duration // 0: the queue's own, else ≥ FunctionTimeout
	ReportBatchItemFailures bool

	Now clock.Clock  // default clock.System; timers run on the machine's
	Log *slog.Logger // default slog.Default()
}

func (c Config) withDefaults() Config {
	if c.BatchSize == 0 {
		c.BatchSize = MaxBatchSize
	}
	if c.Region == "" {
		c.Region = "us-east-1"
	}
	if c.ARN == "" {
		c.ARN = "arn:aws:sqs:" + c.Region + ":000000000000:" + c.Queue
	}
	if c.FunctionName == "" {
		c.FunctionName = c.Queue
	}
	if c.Now == nil {
		c.Now = clock.System
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Log = c.Log.With("queue", c.Queue)
	return c
}

func (c Config) validate() error {
	var errs []error
	fault := func(bad bool, format string, a ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("mapping of %q: %s", c.Queue, fmt.Sprintf(format, a...)))
		}
	}
	fault(c.Queue == "" || c.Source == nil || c.Handler == nil, "queue, source and handler are required")
	fault(c.FunctionTimeout <= 0, "function timeout %v is not positive", c.FunctionTimeout)
	fault(c.BatchSize < 1 || c.BatchSize > MaxBatchSize, "batch size %d is outside 1 to %d", c.BatchSize, MaxBatchSize)
	fault(c.Window < 0 || c.Window > MaxWindow, "window %v is outside 0s to %v", c.Window, MaxWindow)
	fault(c.MaxConcurrency < MinMaxConcurrency || c.MaxConcurrency > MaxMaxConcurrency,
		"maximum concurrency %d is outside %d to %d", c.MaxConcurrency, MinMaxConcurrency, MaxMaxConcurrency)
	fault(c.Visibility != 0 && c.Visibility < c.FunctionTimeout,
		"visibility %v is shorter than the function timeout %v", c.Visibility, c.FunctionTimeout)
	return errors.Join(errs...)
}

// Stats counts what a mapping did since its start.
type Stats struct {
	Function function.Stats
	Received int64 // messages
	Batches  int64 // invocations asked for
	Deleted  int64 // messages
	Kept     int64 // messages of batches that failed, wholly or for them
	Returned int64 // messages given back at Stop
	Cut      int64 // invocations cut short at Stop
	Faults   int64 // calls of the queue that failed
}

// Mapping is a running event source mapping.
type Mapping struct {
	cfg   Config
	fn    *function.Function
	slots chan struct{} // one element per running or forming batch

	polling  context.Context // ends at Stop: no new batches
	stopPoll context.CancelFunc
	life     context.Context // ends when running invocations are given up
	kill     context.CancelFunc
	done     sync.WaitGroup // poller and batches

	mu    sync.Mutex
	stats Stats
}

// Start begins to poll. The end of ctx stops everything at once, as the loss of
// the machine would; use [Mapping.Stop] to drain. All faults of cfg are reported
// together.
func Start(ctx context.Context, cfg Config) (*Mapping, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	m := &Mapping{
		cfg: cfg,
		fn: function.New(cfg.Handler, function.Config{
			Name: cfg.FunctionName, ARN: cfg.FunctionARN, Timeout: cfg.FunctionTimeout, Log: cfg.Log,
		}),
		slots: make(chan struct{}, cfg.MaxConcurrency),
	}
	m.life, m.kill = context.WithCancel(ctx)
	m.polling, m.stopPoll = context.WithCancel(m.life)
	m.done.Go(m.poll)
	return m, nil
}

// Stats returns the counts at this moment.
func (m *Mapping) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	s.Function = m.fn.Stats()
	return s
}

func (m *Mapping) count(f func(*Stats)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.stats)
}

// killGrace is how long handlers whose context was cancelled may take to notice.
const killGrace = time.Second

// Stop ends the polling and waits for the running batches. When ctx ends first,
// their contexts are cancelled, they get a second to return, and ctx's error is
// returned; their messages come back when their visibility ends. Stop may be
// called more than once.
func (m *Mapping) Stop(ctx context.Context) error {
	m.stopPoll()
	drained := make(chan struct{})
	go func() {
		m.done.Wait()
		close(drained)
	}()
	select {
	case <-drained:
		m.kill()
		return nil
	case <-ctx.Done():
	}
	m.kill()
	<-drained // at once: invocations end with their context, whatever handlers do
	if cut := m.Stats().Cut; cut > 0 {
		m.cfg.Log.Warn("the drain was cut short; what these workers ran is taken up again at the next start", "invocations", cut)
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), killGrace)
	defer cancel()
	return errors.Join(ctx.Err(), m.fn.Drain(grace))
}

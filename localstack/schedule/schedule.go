package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/localstack/function"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
)

// MaxRetries is the most that Lambda allows for asynchronous invocations.
const MaxRetries = 2

// Config describes a schedule and the function it invokes.
type Config struct {
	Name  string        // default "schedule"; also the function's name
	Every time.Duration // > 0

	Handler     lambda.Handler
	Timeout     time.Duration              // the function's, > 0
	FunctionARN string                     // default as in package function
	Payload     func(now time.Time) []byte // the event of a run; default [Event]
	Retries     int                        // 0 to 2
	Now         clock.Clock                // default clock.System
	Log         *slog.Logger               // default slog.Default()
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = "schedule"
	}
	if c.Payload == nil {
		c.Payload = Event("arn:aws:scheduler:us-east-1:000000000000:schedule/default/"+c.Name, uuid.NewString)
	}
	if c.Now == nil {
		c.Now = clock.System
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Log = c.Log.With("schedule", c.Name)
	return c
}

func (c Config) validate() error {
	var errs []error
	fault := func(bad bool, format string, a ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("schedule %q: %s", c.Name, fmt.Sprintf(format, a...)))
		}
	}
	fault(c.Handler == nil, "a handler is required")
	fault(c.Every <= 0, "interval %v is not positive", c.Every)
	fault(c.Timeout <= 0, "function timeout %v is not positive", c.Timeout)
	fault(c.Retries < 0 || c.Retries > MaxRetries, "retries %d is outside 0 to %d", c.Retries, MaxRetries)
	return errors.Join(errs...)
}

// Event makes the event that Scheduler sends when no input is configured, for
// the schedule with the given ARN; newID makes the ids of events.
func Event(arn string, newID func() string) func(now time.Time) []byte {
	return func(now time.Time) []byte {
		out, err := json.Marshal(map[string]any{
			"version": "0", "id": newID(), "detail-type": "Scheduled Event", "source": "aws.scheduler",
			"account": "000000000000", "time": now.UTC().Format(time.RFC3339), "region": "us-east-1",
			"resources": []string{arn}, "detail": "{}",
		})
		if err != nil {
			panic(err) // strings always encode
		}
		return out
	}
}

// ErrStopped is what Invoke returns after Stop.
var ErrStopped = errors.New("schedule: stopped")

// Schedule is a running schedule.
type Schedule struct {
	cfg Config
	fn  *function.Function

	starting context.Context // ends at Stop: no new runs, no retries
	stop     context.CancelFunc
	life     context.Context // ends when running ones are given up
	kill     context.CancelFunc

	mu   sync.Mutex // orders Invoke before or after Stop
	done sync.WaitGroup
}

// Start begins with a run. The end of ctx stops everything at once. All faults
// of cfg are reported together.
func Start(ctx context.Context, cfg Config) (*Schedule, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Schedule{cfg: cfg, fn: function.New(cfg.Handler, function.Config{
		Name: cfg.Name, ARN: cfg.FunctionARN, Timeout: cfg.Timeout, Log: cfg.Log,
	})}
	s.life, s.kill = context.WithCancel(ctx)
	s.starting, s.stop = context.WithCancel(s.life)
	s.done.Go(s.tick)
	return s, nil
}

// Stats returns the counts of the function. Retries count as invocations.
func (s *Schedule) Stats() function.Stats { return s.fn.Stats() }

func (s *Schedule) tick() {
	ticker := time.NewTicker(s.cfg.Every)
	defer ticker.Stop()
	for {
		if s.Invoke() != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-s.starting.Done():
			return
		}
	}
}

// Invoke starts a run now and returns at once, as Lambda does for invocations of
// type Event. Its only error is [ErrStopped].
func (s *Schedule) Invoke() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.starting.Err() != nil {
		return ErrStopped
	}
	payload := s.cfg.Payload(s.cfg.Now())
	s.done.Go(func() { s.run(payload) })
	return nil
}

func (s *Schedule) run(payload []byte) {
	for attempt := 0; ; attempt++ {
		_, err := s.fn.Invoke(s.life, payload)
		if err == nil {
			return
		}
		left := s.cfg.Retries - attempt
		s.cfg.Log.Error("run failed", "kind", function.KindOf(err), "error", err, "retries_left", left)
		if left <= 0 || !s.pause(time.Duration(attempt+1)*time.Minute) {
			return
		}
	}
}

// pause says whether the run may go on after d.
func (s *Schedule) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.starting.Done():
		return false
	}
}

// killGrace is how long handlers whose context was cancelled may take to notice.
const killGrace = time.Second

// Stop ends the schedule and waits for the running ones. When ctx ends first,
// their contexts are cancelled, they get a second to return, and ctx's error is
// returned. Stop may be called more than once.
func (s *Schedule) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	drained := make(chan struct{})
	go func() {
		s.done.Wait()
		close(drained)
	}()
	select {
	case <-drained:
		s.kill()
		return nil
	case <-ctx.Done():
	}
	s.kill()
	<-drained // at once: invocations end with their context, whatever handlers do
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), killGrace)
	defer cancel()
	return errors.Join(ctx.Err(), s.fn.Drain(grace))
}

package demo

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
)

//go:embed demo.yaml
var configuration []byte

// Configuration is what the server under test must run with (YAML).
func Configuration() []byte { return slices.Clone(configuration) }

// What the configuration holds, by name.
const (
	pool  = "pool"
	slots = 2
	long  = "demo.long"
	short = "demo.short"

	longSleep  = 6 * time.Second
	shortSleep = 700 * time.Millisecond

	// ample is a deadline that nothing here comes near to.
	ample = events.Seconds(10 * 60 * 1000)
)

// tenant is one of the two that submit.
type tenant struct{ name, key string }

var (
	tenantA = tenant{"a", "demo-tenant-a"}
	tenantB = tenant{"b", "demo-tenant-b"}
)

// Config says what to test and where to report.
type Config struct {
	Base string // address of a server that runs Configuration and has not been used
	Out  io.Writer
	// Transport carries the requests. nil is the default one.
	Transport http.RoundTripper
	// Patience bounds the wait for something that the server is to do by itself; 0 is 90 s.
	Patience time.Duration
	Now      clock.Clock // nil is the machine's
}

// Run plays the seven steps, prints progress, the figures and, as the last line, the counts.
func Run(ctx context.Context, cfg Config) (passed, failed int) {
	if cfg.Patience == 0 {
		cfg.Patience = 90 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = clock.System
	}
	b := &burst{cfg: cfg, client: newClient(cfg.Base, cfg.Transport), began: cfg.Now()}
	steps := []*step{
		{name: "a pool of two workers", run: b.pool},
		{name: "two long tasks from tenant A", run: b.longTasks},
		{name: "a burst of short tasks from A and B", run: b.shortTasks},
		{name: "A reaches its queue budget, B is not blocked", run: b.budget},
		{name: "a deadline shorter than the predicted wait is refused", run: b.refuse, after: b.hindsight},
		{name: "its code is stable, obeying Retry-After works", run: b.obey},
		{name: "the queue drains, admission recovers", run: b.drain},
	}
	for i, s := range steps {
		s.number = i + 1
		b.say("(%d) %s", s.number, s.name)
		watched := b.watch(ctx)
		b.play(ctx, s, s.run)
		watched()
	}
	for _, s := range steps {
		if s.after != nil {
			b.play(ctx, s, s.after)
		}
	}
	b.report(ctx)
	b.printf("\n")
	for _, s := range steps {
		if len(s.faults) == 0 {
			passed++
			b.printf("ok    (%d) %s: %s\n", s.number, s.name, strings.Join(s.seen, "; "))
		} else {
			failed++
			b.printf("FAIL  (%d) %s: %s\n", s.number, s.name, strings.Join(s.faults, "\n          "))
		}
	}
	b.printf("demo: %d passed, %d failed\n", passed, failed)
	return passed, failed
}

// burst is one run.
type burst struct {
	cfg    Config
	client *client
	began  time.Time

	mu   sync.Mutex
	sent []*sent // in the order of the answers

	longs   []*sent
	budgets *sent    // A's first refusal for its budget
	tight   *request // the submission whose deadline is too short
	refusal *sent    // its refusal
}

// step is one of the seven. It fails when it has faults; what it has seen is printed when it passes.
type step struct {
	number int
	name   string
	run    func(context.Context, *step)
	after  func(context.Context, *step) // judged when all has ended
	faults []string
	seen   []string
}

// stop is what a step panics with when it cannot go on.
type stop struct{}

// play runs a part of a step. The steps that follow a failed one are played all the same.
func (b *burst) play(ctx context.Context, s *step, part func(context.Context, *step)) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(stop); !ok {
				panic(r)
			}
		}
	}()
	part(ctx, s)
}

// errorf notes a fault; the step goes on.
func (s *step) errorf(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// fatalf notes a fault and ends the step. Not to be called from other goroutines.
func (s *step) fatalf(format string, args ...any) {
	s.errorf(format, args...)
	panic(stop{})
}

// must ends the step on an error.
func (s *step) must(err error) {
	if err != nil {
		s.fatalf("%v", err)
	}
}

// note keeps what was seen for the table.
func (s *step) note(format string, args ...any) {
	s.seen = append(s.seen, fmt.Sprintf(format, args...))
}

func (b *burst) nowMS() int64 { return b.cfg.Now().UnixMilli() }

// say prints a line of progress.
func (b *burst) say(format string, args ...any) {
	b.printf("%6.1fs  %s\n", b.cfg.Now().Sub(b.began).Seconds(), fmt.Sprintf(format, args...))
}

func (b *burst) printf(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _ = fmt.Fprintf(b.cfg.Out, format, args...)
}

// watch prints the pool's state once a second until the function it returns is called.
func (b *burst) watch(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if l, err := b.client.lane(ctx, tenantB.key, pool); err == nil {
				b.say("      %s: %d running, %d waiting, %s s of work queued, predicted wait %s s", pool, l.Running, l.Waiting+l.Queued, l.QueuedWork, l.PredictedWait)
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// pause waits; the end of ctx ends the step.
func (s *step) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
		s.fatalf("%v", ctx.Err())
	case <-time.After(d):
	}
}

// eventually repeats probe until it is true or patience ends; then the step ends with what probe said last.
func (b *burst) eventually(ctx context.Context, s *step, what string, probe func() (bool, string)) {
	end := b.cfg.Now().Add(b.cfg.Patience)
	for {
		ok, said := probe()
		if ok {
			return
		}
		if b.cfg.Now().After(end) {
			s.fatalf("%s did not come about within %v: %s", what, b.cfg.Patience, said)
		}
		s.pause(ctx, 50*time.Millisecond)
	}
}

// submit sends a submission and remembers it.
func (b *burst) submit(ctx context.Context, who tenant, r request) (*sent, error) {
	out, err := b.client.submit(ctx, who, r)
	if err != nil {
		return nil, fmt.Errorf("submitting as %s: %w", who.name, err)
	}
	out.answeredMS = b.nowMS()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = append(b.sent, out)
	return out, nil
}

// refresh reads a task again, waiting up to so many seconds for its end.
func (b *burst) refresh(ctx context.Context, t *sent, wait int) error {
	now, err := b.client.task(ctx, t.tenant.key, t.task.ID, fmt.Sprintf("?wait=%d", wait))
	if err == nil {
		t.task = now
	}
	return err
}

// await follows a task until it is not live any more.
func (b *burst) await(ctx context.Context, s *step, t *sent) {
	b.eventually(ctx, s, "the end of task "+t.task.ID, func() (bool, string) {
		s.must(b.refresh(ctx, t, 20))
		return !t.task.State.Live(), "it is " + string(t.task.State)
	})
}

package queuetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

// Queue is an engine's queues by name.
type Queue interface {
	// Create makes a queue, or changes the configuration of the one there is.
	Create(ctx context.Context, name string, cfg queue.Config) error
	Send(ctx context.Context, name string, m queue.Outgoing) error
	// Receive takes up to most messages; visibility 0 is the queue's own.
	Receive(ctx context.Context, name string, most int, wait, visibility time.Duration) ([]queue.Message, error)
	Delete(ctx context.Context, name, receipt string) error
	ChangeVisibility(ctx context.Context, name, receipt string, d time.Duration) error
	Counts(ctx context.Context, name string) (queue.Counts, error)
	Purge(ctx context.Context, name string) error
}

// Engine is what the suite runs on.
type Engine struct {
	Queue Queue
	// Advance lets d pass on the engine's clock: moves an injected one, or waits.
	Advance func(d time.Duration)
	// Now reads the engine's clock.
	Now func() time.Time
}

// Options adapt the suite to an engine.
type Options struct {
	// Skip switches cases off by their name; the value says why, and is shown.
	// A name that no case has is a failure.
	Skip map[string]string
	// Unit is the least time span used; 0 is 10 s. Take 1 s where time is real.
	Unit time.Duration
	// Prefix begins the names of queues.
	Prefix string
}

// Case is one guarantee.
type Case struct {
	Name string
	run  func(c *check)
}

// Cases lists what Exercise runs, in order.
func Cases() []Case { return append(deliveryCases(), append(timeCases(), redriveCases()...)...) }

// Exercise runs the suite. open is called for every case.
func Exercise(t *testing.T, open func(t *testing.T) Engine, opts Options) {
	if opts.Unit == 0 {
		opts.Unit = 10 * time.Second
	}
	known := map[string]bool{}
	for i, tc := range Cases() {
		known[tc.Name] = true
		t.Run(tc.Name, func(t *testing.T) {
			if why, off := opts.Skip[tc.Name]; off {
				t.Skipf("switched off for this engine: %s", why)
			}
			e := open(t)
			tc.run(&check{T: t, Engine: e, unit: opts.Unit, name: fmt.Sprintf("%sq%d", opts.Prefix, i)})
		})
	}
	for name := range opts.Skip {
		if !known[name] {
			t.Errorf("Options.Skip names %q, which is no case", name)
		}
	}
}

// check is what a case works with: one queue, called name, and helpers that
// fail the test at once.
type check struct {
	*testing.T
	Engine
	unit time.Duration
	name string
}

func (c *check) ctx() context.Context { return c.Context() }

func (c *check) create(name string, cfg queue.Config) {
	c.Helper()
	if err := c.Queue.Create(c.ctx(), name, cfg); err != nil {
		c.Fatalf("create %s: %v", name, err)
	}
}

func (c *check) send(body string, delay time.Duration) {
	c.Helper()
	if err := c.Queue.Send(c.ctx(), c.name, queue.Outgoing{Body: body, Delay: delay}); err != nil {
		c.Fatalf("send: %v", err)
	}
}

func (c *check) receive(name string, most int) []queue.Message {
	c.Helper()
	got, err := c.Queue.Receive(c.ctx(), name, most, 0, 0)
	if err != nil {
		c.Fatalf("receive: %v", err)
	}
	return got
}

// one receives exactly one message.
func (c *check) one() queue.Message {
	c.Helper()
	return c.oneOf(c.name)
}

func (c *check) oneOf(name string) queue.Message {
	c.Helper()
	got := c.receive(name, queue.MaxReceive)
	if len(got) != 1 {
		c.Fatalf("received %d messages from %s, want 1: %v", len(got), name, got)
	}
	return got[0]
}

func (c *check) none() {
	c.Helper()
	if got := c.receive(c.name, queue.MaxReceive); len(got) != 0 {
		c.Fatalf("received %v, want nothing", got)
	}
}

func (c *check) remove(m queue.Message) {
	c.Helper()
	if err := c.Queue.Delete(c.ctx(), c.name, m.ReceiptHandle); err != nil {
		c.Fatalf("delete: %v", err)
	}
}

func (c *check) counts(name string, want queue.Counts) {
	c.Helper()
	got, err := c.Queue.Counts(c.ctx(), name)
	if err != nil || got != want {
		c.Fatalf("counts of %s: %+v, %v; want %+v", name, got, err, want)
	}
}

func (c *check) is(what string, err, target error) {
	c.Helper()
	if !errors.Is(err, target) {
		c.Fatalf("%s: got %v, want %v", what, err, target)
	}
}

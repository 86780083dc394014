package e2e

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/clock"
)

//go:embed lanekeeper.yaml
var configuration []byte

// Configuration is what the system under test runs (YAML).
func Configuration() []byte { return slices.Clone(configuration) }

// Config says what to test and where to report.
type Config struct {
	Base string // of the API, such as http://127.0.0.1:8080
	Out  io.Writer
	// Only, if set, limits the run to cases whose name matches.
	Only *regexp.Regexp
	// Skip, if set, leaves out cases whose name matches.
	Skip *regexp.Regexp
	// Cases are what runs; nil is Cases().
	Cases []Case
	Now   clock.Clock // nil is the machine's
}

// Patience bounds the wait for something the system is to do by itself.
const Patience = 2 * time.Minute

// Case is one named case.
type Case struct {
	Name string
	Run  func(*C)
}

// Cases are those of every engine, in their order.
func Cases() []Case {
	return slices.Concat(basicCases(), refusalCases(), failureCases(), burstCases(), estimateCases())
}

// C is a case while it runs.
type C struct {
	Context context.Context
	cfg     Config
	fault   error
}

type stopped struct{}

// Failf ends the case.
func (c *C) Failf(format string, args ...any) {
	c.fault = fmt.Errorf(format, args...)
	panic(stopped{})
}

// Must ends the case on an error.
func (c *C) Must(err error) {
	if err != nil {
		c.Failf("%w", err)
	}
}

// Sayf prints a line of progress.
func (c *C) Sayf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.cfg.Out, "      "+format+"\n", args...)
}

// Eventually repeats probe until it is true.
func (c *C) Eventually(what string, probe func() (bool, string)) {
	deadline := c.cfg.Now().Add(Patience)
	for {
		ok, said := probe()
		if ok {
			return
		}
		if c.cfg.Now().After(deadline) {
			c.Failf("%s: not within %v; %s", what, Patience, said)
		}
		c.Pause(300 * time.Millisecond)
	}
}

// Pause waits.
func (c *C) Pause(d time.Duration) {
	select {
	case <-c.Context.Done():
		c.Failf("%w", c.Context.Err())
	case <-time.After(d):
	}
}

// Run runs the suite and prints each case; the caller prints the counts.
func Run(ctx context.Context, cfg Config) (passed, failed int) {
	if cfg.Now == nil {
		cfg.Now = clock.System
	}
	if cfg.Cases == nil {
		cfg.Cases = Cases()
	}
	for _, one := range cfg.Cases {
		if cfg.Only != nil && !cfg.Only.MatchString(one.Name) || cfg.Skip != nil && cfg.Skip.MatchString(one.Name) {
			continue
		}
		began := cfg.Now()
		err := runCase(ctx, cfg, one)
		took := cfg.Now().Sub(began).Round(100 * time.Millisecond)
		if err != nil {
			failed++
			_, _ = fmt.Fprintf(cfg.Out, "FAIL  %s (%v): %v\n", one.Name, took, err)
			continue
		}
		passed++
		_, _ = fmt.Fprintf(cfg.Out, "ok    %s (%v)\n", one.Name, took)
	}
	return passed, failed
}

func runCase(ctx context.Context, cfg Config, one Case) (err error) {
	c := &C{Context: ctx, cfg: cfg}
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(stopped); !ok {
				panic(r)
			}
			err = c.fault
		}
	}()
	one.Run(c)
	return nil
}

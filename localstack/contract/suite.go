package contract

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/apitest"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
)

// Keys are the credentials of two tenants on a tier whose max_priority is below critical, and of an operator.
type Keys struct{ A, B, Admin string }

// DemoKeys are those of the demonstration's configuration.
func DemoKeys() Keys { return Keys{A: "demo-alpha", B: "demo-beta", Admin: "demo-admin"} }

// Config says what to test and where to report.
type Config struct {
	Base string // address of the server under test, such as http://localhost:8080
	Keys Keys
	Out  io.Writer
	// Only, if set, limits the run to cases whose name matches.
	Only *regexp.Regexp
	// Start starts another server with its own configuration (YAML). nil: cases that need one are skipped.
	Start func(ctx context.Context, config []byte) (*Stack, error)
	// StartFailing is Start for a server whose store can be made to fail. nil: cases that need it are skipped.
	StartFailing func(ctx context.Context, config []byte) (*Failing, error)
	// Patience bounds the wait for something the server is to do in the background; 0 is one minute.
	Patience time.Duration
	Now      clock.Clock // nil is the machine's
}

// testCase is one named case: later, or with run.
type testCase struct {
	name  string
	run   func(*C)
	later bool
	own   bool // run needs Config.Start
	fails bool // run needs Config.StartFailing
}

// cases lists everything, in the order in which it runs.
func cases() []testCase {
	var all []testCase
	for _, group := range [][]testCase{
		baselineCases(), healthCases(), authCases(), routeCases(), submitCases(), bodyCases(), sizeCases(), headerCases(), refusalCases(),
		idempotencyCases(), quoteCases(), readCases(), listCases(), cancelCases(), laneCases(), classCases(), failureCases(),
		laterCases(), ownCases(), adminCases(), explainCases(), unavailableCases(), endCases(),
	} {
		all = append(all, group...)
	}
	return all
}

// Run runs the suite, prints it and gives the counts. Cases not counted are in neither.
func Run(ctx context.Context, cfg Config) (passed, failed int) {
	v, err := apitest.New()
	if err != nil {
		_, _ = fmt.Fprintf(cfg.Out, "FAIL  openapi.yaml: %v\ncontract: 0 passed, 1 failed\n", err)
		return 0, 1
	}
	if cfg.Patience == 0 {
		cfg.Patience = time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = clock.System
	}
	s := newSuite(ctx, cfg, v)
	for _, tc := range cases() {
		if cfg.Only != nil && !cfg.Only.MatchString(tc.name) {
			continue
		}
		switch {
		case tc.later:
			_, _ = fmt.Fprintf(cfg.Out, "later %s\n", tc.name)
		case tc.fails && cfg.StartFailing == nil:
			_, _ = fmt.Fprintf(cfg.Out, "skip  %s: needs a server whose store can be made to fail\n", tc.name)
		case tc.own && cfg.Start == nil:
			_, _ = fmt.Fprintf(cfg.Out, "skip  %s: needs a server with a configuration of its own\n", tc.name)
		case ctx.Err() != nil:
			failed++
			_, _ = fmt.Fprintf(cfg.Out, "FAIL  %s: not run: %v\n", tc.name, ctx.Err())
		default:
			if faults := s.one(tc); len(faults) > 0 {
				failed++
				_, _ = fmt.Fprintf(cfg.Out, "FAIL  %s: %s\n", tc.name, strings.Join(faults, "\n      "))
			} else {
				passed++
				_, _ = fmt.Fprintf(cfg.Out, "ok    %s\n", tc.name)
			}
		}
	}
	_, _ = fmt.Fprintf(cfg.Out, "contract: %d passed, %d failed\n", passed, failed)
	return passed, failed
}

// stop is what a case panics with when it cannot go on.
type stop struct{}

// one runs a case and gives its faults, none if it passed.
func (s *suite) one(tc testCase) []string {
	c := &C{suite: s}
	guarded := func(f func()) {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(stop); !ok {
					panic(r)
				}
			}
		}()
		f()
	}
	guarded(func() { tc.run(c) })
	guarded(c.cleanUp)
	return c.faults
}

// C is a case while it runs.
type C struct {
	*suite
	faults []string
	mine   []owned // what it submitted, to be cancelled at its end
}

type owned struct{ key, id string }

// maxFaults bounds what one case prints.
const maxFaults = 8

// errorf notes a fault; the case goes on.
func (c *C) errorf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

// fatalf notes a fault and ends the case. Not to be called from other goroutines.
func (c *C) fatalf(format string, args ...any) {
	c.errorf(format, args...)
	panic(stop{})
}

// must ends the case on an error.
func (c *C) must(err error) {
	if err != nil {
		c.fatalf("%v", err)
	}
}

// eventually repeats probe until it is true or patience ends; then the case ends with what probe said last.
func (c *C) eventually(what string, probe func() (bool, string)) {
	deadline := c.cfg.Now().Add(c.cfg.Patience)
	for {
		ok, said := probe()
		if ok {
			return
		}
		if c.cfg.Now().After(deadline) {
			c.fatalf("%s did not come about within %v: %s", what, c.cfg.Patience, said)
		}
		select {
		case <-c.ctx.Done():
			c.fatalf("%s: %v", what, c.ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

package simtest

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

// point is a crash: before or after the n-th call of a victim.
type point struct {
	n     int
	after bool
}

func (p point) String() string {
	if p.after {
		return fmt.Sprintf("after call %d", p.n)
	}
	return fmt.Sprintf("before call %d", p.n)
}

// crashAt runs a scenario and kills the victim at the given points (in order).
// It returns the victims' calls by name.
func crashAt(t *testing.T, cfg *policy.Config, s Scenario, trace bool, points ...point) (calls []string, res Result) {
	var w *World
	plan := func(c *Call) Fate {
		if !s.Victim(w, c) {
			return Fine
		}
		calls = append(calls, c.String())
		for _, p := range points {
			if p.n == len(calls) {
				if p.after {
					return KillAfter
				}
				return KillBefore
			}
		}
		return Fine
	}
	o := Options{Seed: 1, Config: cfg, Plan: plan, All: s.All, Strict: true, Trace: trace}
	res = Run(t, o, func(world *World) {
		w = world
		s.Script(w)
	})
	return calls, res
}

// inParallel runs n jobs on all processors, until one says that it is enough.
func inParallel(t *testing.T, n int, job func(t *testing.T, i int) bool) {
	var next atomic.Int64
	t.Run("all", func(t *testing.T) {
		for range min(runtime.GOMAXPROCS(0), max(n, 1)) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for i := int(next.Add(1)) - 1; i < n && job(t, i); i = int(next.Add(1)) - 1 {
				}
			})
		}
	})
}

var everyFlag = flag.Int("every", 5, "try every so many crash points of scenarios with more than a hundred calls")

// TestCrashEnumeration kills the victim of every scenario before and after each
// of its outside calls, and for some at every pair of them. When things have
// gone quiet, all promises hold.
func TestCrashEnumeration(t *testing.T) {
	cfg, err := Config()
	if err != nil {
		t.Fatal(err)
	}
	total, failed := 0, 0
	for _, s := range Scenarios() {
		calls, res := crashAt(t, cfg, s, false)
		if len(res.Violations) > 0 {
			t.Errorf("%s without a crash: %s", s.Name, strings.Join(res.Violations, "\n\t"))
		}
		for state, n := range s.Want {
			if res.Ends[state] != n {
				t.Errorf("%s without a crash: %d tasks are %s, want %d", s.Name, res.Ends[state], state, n)
			}
		}
		if len(calls) == 0 {
			t.Errorf("%s: no calls to crash at", s.Name)
		}
		var mu sync.Mutex
		points, bad := 0, 0
		try := func(t *testing.T, ps ...point) (after int) {
			calls, res := crashAt(t, cfg, s, false, ps...)
			mu.Lock()
			defer mu.Unlock()
			points++
			if len(res.Violations) > 0 {
				if bad++; bad <= 5 {
					where := ""
					for _, p := range ps {
						if p.n <= len(calls) {
							where += fmt.Sprintf("%v (%s) ", p, calls[p.n-1])
						}
					}
					t.Errorf("%s, crash %s: %s", s.Name, where, strings.Join(res.Violations, "\n\t"))
				}
			}
			return len(calls)
		}
		inParallel(t, 2*len(calls), func(t *testing.T, i int) bool {
			if len(calls) > 100 && i%*everyFlag != 0 {
				return true
			}
			p := point{1 + i/2, i%2 == 1}
			later := try(t, p)
			for n := p.n + 1; s.Pairs && n <= later; n++ {
				try(t, p, point{n, false})
				try(t, p, point{n, true})
			}
			return true
		})
		fmt.Printf("crash: %-22s %4d calls, %5d points, %d violations\n", s.Name, len(calls), points, bad)
		total, failed = total+points, failed+bad
	}
	fmt.Printf("crash: %d points, %d violations\n", total, failed)
}

package simtest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// Shape is the size of a random history; a failing one is shrunk through it.
type Shape struct {
	Clients int // 1 and more
	Steps   int // per client
	Acts    int // of an operator, 0 for none
	trouble
}

// History is the script of a random history: clients of two tenants that
// submit, repeat, cancel and read, and in some an operator.
func History(s Shape) func(w *World) {
	return func(w *World) {
		w.schedule(w.between(0, 20*time.Second))
		w.misfortunes()
		for i := range s.Clients {
			tenant := "alpha"
			if w.hit(0.6) {
				tenant = "beta"
			}
			w.client(fmt.Sprintf("c%d", i), tenant, func(c *Client) {
				for range s.Steps {
					c.step()
				}
			})
		}
		if s.Acts > 0 {
			w.operate(s.Acts)
		}
		s.happen(w)
	}
}

// Draw is the history of a seed: its size, which faults it knows, and whether
// lanes are held strictly, which excludes calls that take very long.
func Draw(seed uint64) (Options, Shape) {
	rng := rand.New(rand.NewPCG(seed, 4))
	o := Options{Seed: seed, Faults: AllFaults()}
	for _, p := range o.Faults.chances() {
		if rng.Float64() < 0.25 {
			*p = 0
		}
	}
	if o.Strict = seed%2 == 1; o.Strict {
		o.Faults = o.Faults.Prompt()
	}
	s := Shape{Clients: 1 + rng.IntN(4), Steps: 3 + rng.IntN(6)}
	if rng.Float64() < 0.25 {
		s.Acts = 2 + rng.IntN(6)
	}
	s.trouble = drawTrouble(rng)
	return o, s
}

// sizes are what makes a history smaller; the first two are at least 1.
func (s *Shape) sizes() []*int {
	return []*int{&s.Clients, &s.Steps, &s.Acts, &s.Storms, &s.Bends, &s.Restarts}
}

// Shrink makes a failing history smaller while it still fails: fewer clients,
// fewer steps, fewer kinds of faults.
func Shrink(t *testing.T, o Options, s Shape) (Options, Shape, Result) {
	best := Run(t, o, History(s))
	better := func(o2 Options, s2 Shape) bool {
		res := Run(t, o2, History(s2))
		if len(res.Violations) == 0 {
			return false
		}
		o, s, best = o2, s2, res
		return true
	}
	for again := true; again; {
		again = false
		for i, n := range s.sizes() {
			for smaller := true; smaller && (*n > 1 || *n == 1 && i > 1); again = again || smaller {
				less := s
				*less.sizes()[i]--
				smaller = better(o, less)
			}
		}
		for i := range o.Faults.chances() {
			less := o
			if p := less.Faults.chances()[i]; *p > 0 {
				*p = 0
				again = better(less, s) || again
			}
		}
	}
	return o, s, best
}

var classes = []string{"quick", "plain", "late"}

// priorities that clients ask for; high is more than the small tier may.
var priorities = []string{"low", "low", "normal", "high"}

func (c *Client) step() {
	c.pause(0, 3*time.Second)
	u := c.rng.Float64()
	switch {
	case u < 0.6 || len(c.ids) == 0:
		c.submitSomething()
	case u < 0.7:
		c.retry(c.ids[c.rng.IntN(len(c.ids))])
	case u < 0.88:
		c.cancel(c.ids[c.rng.IntN(len(c.ids))])
	default:
		c.get(c.ids[c.rng.IntN(len(c.ids))])
	}
}

func (c *Client) submitSomething() {
	kinds := []work{{Do: "ok"}, {Do: "ok"}, {Do: "ok"}, {Do: "fail"}, {Do: "fail", N: 1}, {Do: "permanent"}, {Do: "panic", N: 1}, {Do: "continue", N: 2}, {Do: "deaf"}}
	wk := kinds[c.rng.IntN(len(kinds))]
	switch u := c.rng.Float64(); {
	case u < 0.6:
		wk.MS = c.rng.Int64N(500)
	case u < 0.9:
		wk.MS = c.rng.Int64N(5000)
	default:
		wk.MS = c.rng.Int64N(60_000)
	}
	class := classes[c.rng.IntN(len(classes))]
	key := ""
	if c.rng.Float64() < 0.5 { // shared with the tenant's other clients
		key = fmt.Sprint("key-", c.rng.IntN(4))
		wk = work{Do: "ok", MS: 100 * int64(len(key))}
		class = "plain"
		if c.rng.Float64() < 0.15 {
			wk.MS++ // another body under the same key
		}
	}
	sub := c.submission(class, wk, key)
	if key == "" && c.rng.Float64() < 0.3 {
		sub.OrderingKey = fmt.Sprint("order-", c.rng.IntN(2))
	}
	if key == "" && c.rng.Float64() < 0.6 {
		sub.Priority = priorities[c.rng.IntN(len(priorities))]
	}
	if c.rng.Float64() < 0.5 {
		sub.DeadlineMS = 3500 + c.rng.Int64N(20_000)
	}
	if key != "" && c.rng.Float64() < 0.5 {
		c.insist(sub)
		return
	}
	c.submit(sub)
}

package policy

import (
	"cmp"
	"math"
	"reflect"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/policy/internal/shape"
)

// PriorityNames are the priorities, the most urgent first.
func PriorityNames() []string { return []string{"critical", "high", "normal", "low"} }

// PriorityRank is 0 for critical to 3 for low, and -1 for anything else.
func PriorityRank(name string) int {
	switch name {
	case "critical":
		return 0
	case "high":
		return 1
	case "normal":
		return 2
	case "low":
		return 3
	}
	return -1
}

// defaultPriorities are the bounds of priorities a configuration leaves out.
var defaultPriorities = map[string]Priority{
	"critical": {MaxWait: Duration(5 * time.Minute), MaxDuration: Duration(30 * time.Minute)},
	"high":     {MaxWait: Duration(15 * time.Minute), MaxDuration: Duration(2 * time.Hour)},
	"normal":   {MaxWait: Duration(time.Hour), MaxDuration: Duration(6 * time.Hour)},
	"low":      {MaxWait: Duration(6 * time.Hour), MaxDuration: Duration(24 * time.Hour)},
}

// New completes a decoded configuration and checks it as a whole. broken holds the paths whose values were already
// found faulty while decoding; nothing at or below them is reported again. Faults carry paths without positions, in no
// particular order. The configuration may be used only if there are none.
func New(c *Config, broken map[string]bool) []Fault {
	known := make(map[string]bool, len(broken))
	for p := range broken {
		known[p] = true
	}
	ck := &check{c: c, broken: known}
	if c.Priorities == nil {
		c.Priorities = map[string]*Priority{}
	}
	c.fill()
	ck.values()
	ck.whole()
	if len(ck.faults) == 0 && len(broken) == 0 {
		c.buildIndex()
	}
	return ck.faults
}

// fill sets the defaults that depend on other keys.
func (c *Config) fill() {
	for n, l := range c.Lanes {
		l.Name = n
		if w := &l.Workers; w.Reserved == 0 && w.MaxConcurrency >= 2 && w.MaxConcurrency <= 1000 { // else that is the fault
			w.Reserved = w.MaxConcurrency
		}
		if l.Brakes == nil {
			l.Brakes = []*Brake{}
		}
	}
	for _, l := range c.Lanes {
		if l.Role == RoleRetry && l.Workers.Reserved == 0 {
			l.Workers.Reserved = c.retryWorkers(l)
		}
	}
	for n, k := range c.Classes {
		k.Name = n
		if k.Priority.Max == "" {
			k.Priority.Max = "high"
			if k.Priority.Default == "critical" {
				k.Priority.Max = "critical"
			}
		}
	}
	for n, t := range c.Tiers {
		t.Name = n
		if t.Burst == 0 {
			t.Burst = int(max(1, min(1e6, math.Ceil(t.Rate))))
		}
	}
	for n, t := range c.Tenants {
		t.Name = n
	}
	c.fillPriorities()
}

// fillPriorities keeps max_wait ≤ max_duration ≤ max_deadline in what it adds, whichever of them were given.
func (c *Config) fillPriorities() {
	for _, n := range PriorityNames() {
		p := c.Priorities[n]
		if p == nil {
			p = &Priority{}
			c.Priorities[n] = p
		}
		d := defaultPriorities[n]
		if p.MaxDuration == 0 {
			p.MaxDuration = min(max(d.MaxDuration, p.MaxWait), cmp.Or(c.Tasks.MaxDeadline, d.MaxDuration))
		}
		if p.MaxWait == 0 {
			p.MaxWait = min(d.MaxWait, p.MaxDuration)
		}
	}
}

// retryWorkers is max(2, share of all other lanes' concurrency, rounded), 1000 at most, as a mapping accepts.
func (c *Config) retryWorkers(retry *Lane) int {
	sum := 0
	for _, l := range c.Lanes {
		if l.Role != RoleRetry {
			sum += l.Workers.MaxConcurrency
		}
	}
	return int(max(2, min(1000, math.Round(retry.Share*float64(sum)))))
}

// check collects the faults of one configuration.
type check struct {
	c      *Config
	broken map[string]bool
	faults []Fault

	without map[string][]string // see tiersWithout
}

// ok says that none of the paths is known to be faulty, so that a check which compares them makes sense.
func (ck *check) ok(paths ...string) bool {
	for _, p := range paths {
		for q := range shape.Above(p) {
			if ck.broken[q] {
				return false
			}
		}
	}
	return true
}

func (ck *check) fault(path, message string) {
	ck.faults = append(ck.faults, Fault{Path: path, Message: message})
}

// values checks each value on its own by the rules of its key.
func (ck *check) values() {
	refs := shape.Refs{}
	for set, names := range map[string][]string{"lanes": keys(ck.c.Lanes), "tiers": keys(ck.c.Tiers),
		"dependencies": keys(ck.c.Dependencies)} {
		if !ck.ok(set) {
			continue // unknown as a whole: every reference would be reported
		}
		refs[set] = map[string]bool{}
		for _, n := range names {
			refs[set][n] = true
		}
	}
	var found []string
	shape.Inspect(shape.Of(reflect.TypeFor[Config]()), reflect.ValueOf(ck.c).Elem(), refs, func(path, message string, key bool) {
		if !ck.ok(path) {
			return
		}
		ck.fault(path, message)
		if !key {
			found = append(found, path)
		}
	})
	for _, p := range found {
		ck.broken[p] = true
	}
}

package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Rung is a lane that a (class, bucket) may run in: the first of a ladder is its own, the others are heavier.
type Rung struct {
	Lane      string
	CeilingMS int64  // p95 that belongs there at most, 0: none is too slow
	Barred    string // why nothing moves there, "": it may
}

// Ladder is where a (class, bucket) may run by what is learned of it: its own lane, then heavier ones, the lightest
// first. A lane is heavier that has a higher ceiling, and heaviest without one. The retry lane and lanes that stand in for
// others are on no ladder. It is one rung where nothing can be learned that moves it: it is pinned, its cap is within its
// lane's ceiling, its lane has none. nil for what the configuration does not have.
func (c *Config) Ladder(class, bucket string) []Rung { return c.index.ladders[class][bucket] }

// LaneFor is the lane in which tasks of a tier run that are placed in a lane: the one that stands in for it, or itself. ""
// when the tier may use neither.
func (c *Config) LaneFor(lane, tier string) string {
	if s, ok := c.index.standIns[lane][tier]; ok {
		return s
	}
	if l := c.Lanes[lane]; l == nil || len(l.Tiers) > 0 && !slices.Contains(l.Tiers, tier) {
		return ""
	}
	return lane
}

// ByTier says whether tasks that are placed in a lane run elsewhere for some tier.
func (c *Config) ByTier(lane string) bool { return len(c.index.standIns[lane]) > 0 }

// LanesOf are all lanes, sorted, in which first attempts of a class may run, whatever is learned and whoever submits.
func (c *Config) LanesOf(class string) []string { return c.index.lanesOf[class] }

// standIns finds for each lane and tier the lane that stands in, as the file says it.
func (c *Config) standIns() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, n := range keys(c.Lanes) {
		l := c.Lanes[n]
		if l.InsteadOf == "" {
			continue
		}
		if out[l.InsteadOf] == nil {
			out[l.InsteadOf] = map[string]string{}
		}
		for _, t := range l.Tiers {
			out[l.InsteadOf][t] = n
		}
	}
	return out
}

// without are the tiers, sorted, whose tasks have no lane when they are placed in this one.
func (c *Config) without(lane string, standIns map[string]map[string]string) (tiers []string) {
	l := c.Lanes[lane]
	if l == nil || len(l.Tiers) == 0 {
		return nil
	}
	for _, t := range keys(c.Tiers) {
		if _, ok := standIns[lane][t]; !ok && !slices.Contains(l.Tiers, t) {
			tiers = append(tiers, t)
		}
	}
	return tiers
}

func (l *Lane) ceilingMS() int64 {
	if l.Ceiling == nil {
		return 0
	}
	return l.Ceiling.P95.MS()
}

// heavier compares lanes by what they are for: the ceiling, none being the highest; among equals the one that promises
// least comes first.
func heavier(a, b *Lane) int {
	top := func(l *Lane) int64 {
		if ms := l.ceilingMS(); ms > 0 {
			return ms
		}
		return math.MaxInt64
	}
	return cmp.Or(
		cmp.Compare(top(a), top(b)),
		cmp.Compare(b.SLO.QueueWaitP95, a.SLO.QueueWaitP95),
		cmp.Compare(a.AttemptTimeout, b.AttemptTimeout),
		cmp.Compare(a.Name, b.Name),
	)
}

// placesOf are the lanes that classes may name, the lightest first.
func (c *Config) placesOf() (lanes []*Lane) {
	for _, l := range c.Lanes {
		if l.Role != RoleRetry && l.InsteadOf == "" {
			lanes = append(lanes, l)
		}
	}
	slices.SortFunc(lanes, heavier)
	return lanes
}

// ladder is that of a bucket over the lanes of placesOf. It ends at the first lane that holds even the cap.
func (c *Config) ladder(k *Class, b *BucketSpec, lanes []*Lane, standIns map[string]map[string]string) []Rung {
	own := c.Lanes[b.Lane]
	out := []Rung{{Lane: own.Name, CeilingMS: own.ceilingMS()}}
	holds := func(r Rung) bool { return r.Barred == "" && (r.CeilingMS == 0 || b.Cap.MS() <= r.CeilingMS) }
	for _, l := range lanes {
		if k.PinLane || holds(out[len(out)-1]) {
			break
		}
		r := Rung{Lane: l.Name, CeilingMS: l.ceilingMS()}
		if r.CeilingMS == own.ceilingMS() || r.CeilingMS > 0 && r.CeilingMS < own.ceilingMS() {
			continue
		}
		if own := own.SLO.QueueWaitP95; l.SLO.QueueWaitP95 < own {
			r.Barred = fmt.Sprintf("it promises shorter waits (%s, here %s)", l.SLO.QueueWaitP95, own) // whose tasks wait for nobody's slow ones
		} else if b.Cap > l.AttemptTimeout {
			r.Barred = fmt.Sprintf("the cap (%s) is over its attempt_timeout (%s)", b.Cap, l.AttemptTimeout)
		} else if t := c.without(l.Name, standIns); len(t) > 0 {
			r.Barred = "it is not for tier " + strings.Join(t, ", ")
		}
		out = append(out, r)
	}
	return out
}

// indexPlaces fills in what the functions above look up. Buckets are known by then.
func (c *Config) indexPlaces(ix *index) {
	ix.standIns, ix.ladders, ix.lanesOf = c.standIns(), map[string]map[string][]Rung{}, map[string][]string{}
	places := c.placesOf()
	for n, k := range c.Classes {
		ladders := map[string][]Rung{}
		var lanes []string
		for i := range ix.buckets[n] {
			b := &ix.buckets[n][i]
			ladders[b.Name] = c.ladder(k, b, places, ix.standIns)
			for _, r := range ladders[b.Name] {
				if r.Barred != "" {
					continue
				}
				for _, s := range ix.standIns[r.Lane] {
					lanes = append(lanes, s)
				}
				if c.ownUse(r.Lane, ix.standIns) {
					lanes = append(lanes, r.Lane)
				}
			}
		}
		slices.Sort(lanes)
		ix.ladders[n], ix.lanesOf[n] = ladders, slices.Compact(lanes)
	}
}

// ownUse says whether any tier's tasks run in the lane itself.
func (c *Config) ownUse(lane string, standIns map[string]map[string]string) bool {
	for t := range c.Tiers {
		if _, ok := standIns[lane][t]; !ok {
			return true // no task is placed in a lane that some tier may not use
		}
	}
	return false
}

// Moves says in a line for each (class, bucket) that may move by learning where to, and from which lanes tasks of a tier
// are taken by another, as a person reads it.
func (c *Config) Moves() []string {
	var out []string
	for _, n := range c.ClassNames() {
		for _, b := range c.Buckets(n) {
			ladder := c.Ladder(n, b.Name)
			if len(ladder) < 2 {
				continue
			}
			line := n
			if b.Name != DefaultBucket {
				line += " bucket " + b.Name
			}
			steps, barred := []string{ladder[0].Lane}, ""
			for _, r := range ladder[1:] {
				if r.Barred != "" {
					barred += fmt.Sprintf("; not to %s: %s", r.Lane, r.Barred)
				} else {
					steps = append(steps, r.Lane)
				}
			}
			if len(steps) == 1 {
				steps = append(steps, "nowhere")
			}
			out = append(out, line+": "+strings.Join(steps, " → ")+barred)
		}
	}
	for _, n := range c.LaneNames() {
		if l := c.Lanes[n]; l.InsteadOf != "" {
			out = append(out, fmt.Sprintf("tier %s: %s → %s", strings.Join(l.Tiers, ", "), l.InsteadOf, n))
		}
	}
	return out
}

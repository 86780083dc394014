package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/policy/internal/shape"
)

// tiersOfLane checks whom a lane is kept for and whom it stands in for.
func (ck *check) tiersOfLane(l *Lane, p string) {
	tiers, instead := p+".tiers", p+".instead_of"
	if l.Role == RoleRetry {
		for path, given := range map[string]bool{tiers: len(l.Tiers) > 0, instead: l.InsteadOf != ""} {
			if given && ck.ok(path) {
				ck.fault(path, "is refused in the retry lane, which repeats everybody's attempts")
			}
		}
		return
	}
	for i, t := range l.Tiers {
		if at := shape.Index(tiers, i); ck.ok(at) && slices.Contains(l.Tiers[:i], t) {
			ck.fault(at, fmt.Sprintf("tier %s is there already", t))
		}
	}
	of := ck.c.Lanes[l.InsteadOf]
	if l.InsteadOf == "" || of == nil || !ck.ok(instead) {
		return
	}
	switch {
	case of == l:
		ck.fault(instead, "must be another lane")
		return
	case of.Role == RoleRetry:
		ck.fault(instead, "must not be the retry lane, which repeats everybody's attempts")
		return
	case of.InsteadOf != "":
		ck.fault(instead, fmt.Sprintf("must be a lane that classes name; %s stands in for %s itself", of.Name, of.InsteadOf))
		return
	}
	if ck.ok(tiers) && len(l.Tiers) == 0 {
		ck.fault(tiers, "is missing; a lane that stands in for another says for which tiers")
	}
	if l.Ceiling != nil && ck.ok(p+".ceiling") {
		ck.fault(p+".ceiling", fmt.Sprintf("is refused where a lane stands in for another: that of lane %s decides", of.Name))
	}
	if ck.ok(p+".attempt_timeout", shape.Key("lanes", of.Name)+".attempt_timeout") && l.AttemptTimeout < of.AttemptTimeout {
		ck.fault(p+".attempt_timeout", fmt.Sprintf("must be at least that of lane %s (%s), whose tasks run here, is %s", of.Name, of.AttemptTimeout, l.AttemptTimeout))
	}
	for _, n := range keys(ck.c.Lanes) {
		other := ck.c.Lanes[n]
		if n >= l.Name || other.InsteadOf != l.InsteadOf {
			continue
		}
		for i, t := range l.Tiers {
			if slices.Contains(other.Tiers, t) {
				ck.fault(shape.Index(tiers, i), fmt.Sprintf("lane %s stands in for %s for tier %s already", n, of.Name, t))
			}
		}
	}
}

// ceilingOf is the ceiling that holds for a lane: its own, or that of the lane it stands in for.
func (ck *check) ceilingOf(l *Lane) *Ceiling {
	if of := ck.c.Lanes[l.InsteadOf]; of != nil {
		return of.Ceiling
	}
	return l.Ceiling
}

// tiersWithout finds for each lane the tiers that it leaves without one; nothing where nobody knows whom lanes were meant for.
func (ck *check) tiersWithout() {
	ck.without = map[string][]string{}
	standIns := ck.c.standIns()
	for _, n := range keys(ck.c.Lanes) {
		if at := shape.Key("lanes", n); !ck.ok("tiers", at+".tiers", at+".instead_of") {
			clear(ck.without)
			return
		}
		ck.without[n] = ck.c.without(n, standIns)
	}
}

// reaches checks that a lane which classes name has a place for every tier's tasks.
func (ck *check) reaches(lane, p string) {
	l := ck.c.Lanes[lane]
	if l == nil || !ck.ok(p) {
		return
	}
	if l.InsteadOf != "" {
		ck.fault(p, fmt.Sprintf("lane %s stands in for lane %s; name that one", lane, l.InsteadOf))
		return
	}
	if t := ck.without[lane]; len(t) > 0 {
		ck.fault(p, fmt.Sprintf("lane %s is kept for tier %s, so tasks of tier %s have no lane; give them one that is instead_of: %s",
			lane, strings.Join(l.Tiers, ", "), strings.Join(t, ", "), lane))
	}
}

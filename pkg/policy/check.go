package policy

import (
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/policy/internal/shape"
)

// whole checks what more than one key decides.
func (ck *check) whole() {
	for _, n := range keys(ck.c.Lanes) {
		ck.lane(ck.c.Lanes[n], shape.Key("lanes", n))
	}
	ck.retryLane()
	ck.tiersWithout()
	for _, n := range keys(ck.c.Classes) {
		ck.class(ck.c.Classes[n], shape.Key("classes", n))
	}
	for _, n := range PriorityNames() {
		ck.priority(ck.c.Priorities[n], shape.Key("priorities", n))
	}
	for _, n := range keys(ck.c.Dependencies) {
		ck.dependency(ck.c.Dependencies[n], shape.Key("dependencies", n))
	}
	ck.credentials()
}

// atMost reports a when it is larger than b, both being known to be sound.
func (ck *check) atMost(a Duration, pathA string, b Duration, pathB, nameB string) {
	if ck.ok(pathA, pathB) && a > b {
		ck.fault(pathA, fmt.Sprintf("must be at most %s (%s), is %s", nameB, b, a))
	}
}

func (ck *check) lane(l *Lane, p string) {
	conc, reserved, batch, share := p+".workers.max_concurrency", p+".workers.reserved", p+".batch.size", p+".share"
	switch w := l.Workers; {
	case !ck.ok(p + ".role"):
	case l.Role == RoleRetry:
		if ck.ok(share) && l.Share == 0 {
			ck.fault(share, "is missing; the retry lane needs a share of the other lanes' slots, 0.1 to 0.2")
		}
		if ck.ok(conc) && w.MaxConcurrency != 0 {
			ck.fault(conc, "is refused in the retry lane, whose slots are its share of the other lanes'")
		}
		if ck.ok(batch) && l.Batch.Size != 1 {
			ck.fault(batch, "must be 1 in the retry lane")
		}
	default:
		if ck.ok(share) && l.Share != 0 {
			ck.fault(share, "is refused outside the retry lane")
		}
		if ck.ok(conc) && w.MaxConcurrency == 0 {
			ck.fault(conc, "is missing")
		}
		if ck.ok(conc, reserved) && w.MaxConcurrency > w.Reserved {
			ck.fault(conc, fmt.Sprintf("must be at most reserved (%d), is %d: throttled deliveries would go to the DLQ unrun",
				w.Reserved, w.MaxConcurrency))
		}
		if top := ck.ceilingOf(l); ck.ok(batch, p+".ceiling") && l.Batch.Size > 1 && (top == nil || top.P95 >= Duration(time.Second)) {
			ck.fault(batch, "must be 1 unless ceiling.p95 is under 1s: the items of a batch run one after another")
		}
	}
	ck.atMost(l.Retry.BackoffBase, p+".retry.backoff_base", l.Retry.BackoffCap, p+".retry.backoff_cap", "backoff_cap")
	if l.Ceiling != nil {
		ck.atMost(l.Ceiling.P95, p+".ceiling.p95", l.AttemptTimeout, p+".attempt_timeout", "attempt_timeout")
	}
	ck.tiersOfLane(l, p)
	for i, b := range l.Brakes {
		ck.brake(b, shape.Index(p+".brakes", i))
	}
}

func (ck *check) brake(b *Brake, p string) {
	dep, metric, ok := shape.SplitSignal(b.When)
	if !ok || !ck.ok(p+".when") {
		return
	}
	if ck.ok("dependencies") && ck.c.Dependencies[dep] == nil {
		ck.fault(p+".when", fmt.Sprintf("there is no dependency %q", dep))
	}
	if !ck.ok(p + ".over") {
		return
	}
	switch latency := metric == "latency_p95"; {
	case latency && (!b.Over.IsLatency || b.Over.Latency == 0):
		ck.fault(p+".over", "must be a duration above 0s, as latency_p95 is one")
	case !latency && b.Over.IsLatency:
		ck.fault(p+".over", "must be a number from 0 to 1, as "+metric+" is a share")
	case !latency && !(b.Over.Number >= 0 && b.Over.Number <= 1):
		ck.fault(p+".over", fmt.Sprintf("must be 0 to 1, is %v", b.Over))
	}
}

// retryLane checks that there is exactly one, and that it can run every lane's attempts.
func (ck *check) retryLane() {
	first, others := "", 0
	var longest *Lane
	for _, n := range keys(ck.c.Lanes) {
		l, p := ck.c.Lanes[n], shape.Key("lanes", n)
		switch {
		case !ck.ok(p + ".role"):
			return // nobody knows what this lane was meant to be
		case l.Role != RoleRetry:
			others++
			if ck.ok(p+".attempt_timeout") && (longest == nil || l.AttemptTimeout > longest.AttemptTimeout) {
				longest = l
			}
		case first == "":
			first = n
		default:
			ck.fault(p+".role", "only one lane can have the role retry, and "+first+" has it")
		}
	}
	if first == "" {
		if ck.ok("lanes") {
			ck.fault("lanes", "one lane must have the role retry")
		}
		return
	}
	l, p := ck.c.Lanes[first], shape.Key("lanes", first)
	if others == 0 {
		ck.fault("lanes", "there must be a lane beside the retry lane")
	}
	if longest != nil && ck.ok(p+".attempt_timeout") && l.AttemptTimeout < longest.AttemptTimeout {
		ck.fault(p+".attempt_timeout", fmt.Sprintf("must be at least that of lane %s (%s), whose attempts it repeats, is %s",
			longest.Name, longest.AttemptTimeout, l.AttemptTimeout))
	}
	if need := ck.c.retryWorkers(l); ck.ok(p+".workers.reserved", p+".workers.max_concurrency", p+".share") && l.Share > 0 &&
		l.Workers.MaxConcurrency == 0 && l.Workers.Reserved < need {
		ck.fault(p+".workers.reserved", fmt.Sprintf("must be at least the lane's share of the other lanes' slots (%d), is %d",
			need, l.Workers.Reserved))
	}
}

func (ck *check) class(k *Class, p string) {
	ck.origin(k.Lane, p+".lane")
	ck.cost(k.Prior, p+".prior", k.Cap, p+".cap")
	if ck.ok(p+".priority.default", p+".priority.max") && PriorityRank(k.Priority.Default) < PriorityRank(k.Priority.Max) {
		ck.fault(p+".priority.max", fmt.Sprintf("must be at least the default (%s), is %s", k.Priority.Default, k.Priority.Max))
	}
	if k.Target != nil && ck.ok(p+".target.builtin", p+".target.lambda", p+".target.http") {
		n := 0
		for _, s := range []string{k.Target.Builtin, k.Target.Lambda, k.Target.HTTP} {
			if s != "" {
				n++
			}
		}
		if n != 1 {
			ck.fault(p+".target", fmt.Sprintf("must have exactly one of builtin, lambda and http, has %d", n))
		}
	}
	if k.Sizes != nil {
		ck.sizes(k, p, p+".sizes.buckets")
	}
}

// origin reports a reference to the retry lane, where nothing is admitted, and to lanes that some tier cannot use.
func (ck *check) origin(lane, path string) {
	if l := ck.c.Lanes[lane]; ck.ok(path) && l != nil && l.Role == RoleRetry {
		ck.fault(path, "must not be the retry lane: only repeated attempts run there")
		return
	}
	ck.reaches(lane, path)
}

func (ck *check) cost(prior Prior, priorPath string, limit Duration, limitPath string) {
	ck.atMost(prior.P50, priorPath+".p50", prior.P95, priorPath+".p95", "p95")
	ck.atMost(prior.P95, priorPath+".p95", limit, limitPath, "the cap")
}

func (ck *check) sizes(k *Class, p, bp string) {
	seen := map[string]bool{}
	for i, b := range k.Sizes.Buckets {
		at := shape.Index(bp, i)
		ck.origin(b.Lane, at+".lane")
		if ck.ok(at+".name") && seen[b.Name] {
			ck.fault(at+".name", fmt.Sprintf("bucket %s is there already", b.Name))
		}
		seen[b.Name] = true
		switch {
		case !ck.ok(at + ".from"):
		case i == 0 && b.From != 0:
			ck.fault(at+".from", fmt.Sprintf("must be 0 in the first bucket, is %d", b.From))
		case i > 0 && ck.ok(shape.Index(bp, i-1)+".from") && b.From <= k.Sizes.Buckets[i-1].From:
			ck.fault(at+".from", fmt.Sprintf("must be above the bucket before (%d), is %d", k.Sizes.Buckets[i-1].From, b.From))
		}
		prior, priorPath, limit, limitPath := k.Prior, p+".prior", k.Cap, p+".cap"
		if b.Prior != nil {
			prior, priorPath = *b.Prior, at+".prior"
		}
		if b.Cap != 0 {
			limit, limitPath = b.Cap, at+".cap"
		}
		switch {
		case b.Prior != nil:
			ck.cost(prior, priorPath, limit, limitPath)
		case b.Cap != 0 && ck.ok(priorPath+".p95", limitPath) && prior.P95 > limit:
			ck.fault(limitPath, fmt.Sprintf("must be at least the class's prior p95 (%s), is %s", prior.P95, limit))
		}
	}
}

func (ck *check) priority(q *Priority, p string) {
	ck.atMost(q.MaxWait, p+".max_wait", q.MaxDuration, p+".max_duration", "max_duration")
	ck.atMost(q.MaxDuration, p+".max_duration", ck.c.Tasks.MaxDeadline, "tasks.max_deadline", "tasks.max_deadline")
}

func (ck *check) dependency(d *Dependency, p string) {
	sum := 0.0
	for _, n := range keys(d.Lanes) {
		part, at := d.Lanes[n], shape.Key(p+".lanes", n)
		if ck.ok(at+".reserve", at+".max") && part.Reserve > part.Max {
			ck.fault(at+".reserve", fmt.Sprintf("must be at most max (%v), is %v", part.Max, part.Reserve))
		}
		sum += part.Reserve
	}
	if ck.ok(p+".lanes") && sum > 1+1e-9 {
		ck.fault(p+".lanes", fmt.Sprintf("the lanes' reserves must add up to 1 at most, add up to %.4g", sum))
	}
}

// credentials checks that no key is given twice: it could not say whose it is.
func (ck *check) credentials() {
	owner := map[string]string{}
	add := func(list []string, path, who string) {
		for i, k := range list {
			at := shape.Index(path, i)
			if other, taken := owner[k]; taken && ck.ok(at) {
				ck.fault(at, "this key is already that of "+other)
				continue
			}
			owner[k] = who
		}
	}
	for _, n := range keys(ck.c.Tenants) {
		add(ck.c.Tenants[n].Keys, shape.Key("tenants", n)+".keys", "tenant "+n)
	}
	add(ck.c.Operators.Keys, "operators.keys", "the operators")
}

package bench

import (
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

const (
	laneName  = "standard"
	className = "report.export"
	tenants   = 4
)

func tenantKey(i int) string { return fmt.Sprintf("key-tenant-%d", i%tenants) }

// lanesOf is a configuration of one lane with so many slots beside the retry
// lane, one class, and tenants whose limits do not bind.
func lanesOf(slots int) (*policy.Config, error) {
	var b strings.Builder
	fmt.Fprintf(&b, `version: 1
tasks: {retention: 168h, max_deadline: 336h, resend_after: 30s}
lanes:
  standard:
    owner: bench
    slo: {queue_wait_p95: 1m, oldest_age: 1m}
    workers: {max_concurrency: %d, reserved: %d}
    attempt_timeout: 30s
    safety_margin: 500ms
    backlog: {max_work: 24h}
    retry: {max_attempts: 3}
    dlq: {max_receives: 5}
    brakes: []
  retry:
    role: retry
    share: 0.2
    owner: bench
    slo: {queue_wait_p95: 1m, oldest_age: 1m}
    attempt_timeout: 30s
    backlog: {max_work: 24h}
    retry: {max_attempts: 3}
    dlq: {max_receives: 5}
    brakes: []
classes:
  report.export:
    lane: standard
    priority: {default: normal, max: normal}
    prior: {p50: 50ms, p95: 200ms}
    cap: 10s
    target: {builtin: sleep}
tiers:
  bench: {max_queued_work: 24h, max_active: 200, daily_work: 24h, rate: 10000, burst: 10000, max_priority: normal}
priorities:
  normal: {max_wait: 1h, max_duration: 6h}
tenants:
`, slots, slots)
	for i := range tenants {
		fmt.Fprintf(&b, "  tenant-%d: {tier: bench, keys: [%s]}\n", i, tenantKey(i))
	}
	return policyfile.Parse("bench.yaml", []byte(b.String()))
}

// manyClasses is a configuration of many lanes and classes, the classes going
// round the lanes and choosing one of two buckets by a hint.
func manyClasses(lanes, classes int) (*policy.Config, error) {
	var b strings.Builder
	b.WriteString("version: 1\ntiers: {basic: {max_queued_work: 2m, max_active: 4}}\nlanes:\n")
	const rest = "owner: bench, slo: {queue_wait_p95: 5s, oldest_age: 4s}, retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []"
	fmt.Fprintf(&b, "  retry: {role: retry, share: 0.2, %s}\n", rest)
	for i := range lanes - 1 {
		fmt.Fprintf(&b, "  lane-%02d: {workers: {max_concurrency: 20}, %s}\n", i, rest)
	}
	b.WriteString("classes:\n")
	for i := range classes {
		fmt.Fprintf(&b, "  class.n%03d: {lane: lane-%02d, prior: {p50: %dms, p95: %dms}, cap: 5m, sizes: {by: rows, buckets: [{name: small, from: 0}, {name: large, from: 1000}]}}\n",
			i, i%(lanes-1), 100+i, 400+4*i)
	}
	return policyfile.Parse("many.yaml", []byte(b.String()))
}

package fair

import (
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

// The lanes, classes and contracts of all loads: nothing binds but the slots.
const configuration = `
version: 1
lanes:
  work: {owner: fair, slo: {queue_wait_p95: 5s, oldest_age: 10m}, workers: {max_concurrency: 10}, attempt_timeout: 2m, safety_margin: 0s,
    backlog: {max_work: 8000h}, LOW retry: {max_attempts: 3, backoff_base: 1s, backoff_cap: 10s}, dlq: {max_receives: 5}, brakes: []}
  critical: {owner: fair, slo: {queue_wait_p95: 1s, oldest_age: 10m}, workers: {max_concurrency: 4}, attempt_timeout: 2m, safety_margin: 0s,
    backlog: {max_work: 8000h}, retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []}
  heavy: {owner: fair, slo: {queue_wait_p95: 1h, oldest_age: 2h}, workers: {max_concurrency: 4}, attempt_timeout: 2m, safety_margin: 0s,
    backlog: {max_work: 8000h}, retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []}
  VIP
  retry: {role: retry, share: 0.2, owner: fair, slo: {queue_wait_p95: 1h, oldest_age: 2h}, attempt_timeout: 2m, safety_margin: 0s,
    backlog: {max_work: 8000h}, retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []}
classes:
  unit: {lane: work, priority: {default: normal, max: critical}, prior: {p50: 1s, p95: 1s}, cap: 2m, target: {builtin: sleep}}
  tail: {lane: work, priority: {default: normal, max: critical}, prior: {p50: 300ms, p95: 4s}, cap: 2m, target: {builtin: sleep}}
  sour: {lane: work, PIN prior: {p50: 400ms, p95: 1s}, cap: 2m, target: {builtin: sleep}}
  urgent: {lane: critical, priority: {default: normal, max: critical}, prior: {p50: 200ms, p95: 200ms}, cap: 2m, target: {builtin: sleep}}
  big: {lane: HEAVY, priority: {default: normal, max: critical}, prior: {p50: 60s, p95: 60s}, cap: 2m, target: {builtin: sleep}}
KINDS
tiers:
  basic: {max_queued_work: 8000h, max_active: 100, max_priority: critical}
  gold: {max_queued_work: 8000h, max_active: 100, max_priority: critical, weight: 3}
priorities:
  critical: {max_wait: 336h, max_duration: 336h}
  high: {max_wait: 336h, max_duration: 336h}
  normal: {max_wait: 336h, max_duration: 336h}
  low: {max_wait: 336h, max_duration: 336h}
tenants:
  gold: {tier: gold, keys: [secret-gold]}
TENANTS
operators: {keys: [secret-admin]}
`

const kinds = 10 // the classes k0 to k9, alike

// kindsOf are those classes, with a prior.
func kindsOf(prior string) string {
	var classes strings.Builder
	for i := range kinds {
		fmt.Fprintf(&classes, "  k%d: {lane: work, prior: {%s}, cap: 2m, target: {builtin: sleep}}\n", i, prior)
	}
	return classes.String()
}

// config is the configuration with replacements: old, new, …
func config(replacements ...string) *policy.Config {
	var tenants strings.Builder
	for i := range 30 {
		fmt.Fprintf(&tenants, "  t%d: {tier: basic, keys: [secret-t%d]}\n", i, i)
	}
	text := strings.NewReplacer(append(replacements, "KINDS", kindsOf("p50: 1s, p95: 1s"), "TENANTS", tenants.String(), "HEAVY", "heavy", "LOW", "", "VIP", "", "PIN", "")...).Replace(configuration)
	cfg, err := policyfile.Parse("fair.yaml", []byte(text))
	if err != nil {
		panic(err) // ours
	}
	return cfg
}

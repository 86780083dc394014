package simtest

import (
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

// configYAML is small on purpose: limits that bind within a few tasks, and
// times that pass within a few calls.
const configYAML = `
version: 1
tasks: {resend_after: 2s}
lanes:
  quick:
    owner: sim
    slo: {queue_wait_p95: 5s, oldest_age: 10s}
    workers: {max_concurrency: 2}
    batch: {size: 2, window: 0s}
    attempt_timeout: 5s
    backlog: {max_work: 5s}
    ceiling: {p95: 900ms}
    retry: {max_attempts: 3, backoff_base: 200ms, backoff_cap: 1s}
    dlq: {max_receives: 5}
    brakes: []
  plain:
    owner: sim
    slo: {queue_wait_p95: 30s, oldest_age: 1m}
    workers: {max_concurrency: 2}
    attempt_timeout: 40s
    backlog: {max_work: 10m}
    low_share: 0.5
    retry: {max_attempts: 2, backoff_base: 500ms, backoff_cap: 2s}
    dlq: {max_receives: 5}
    brakes: []
  retry:
    role: retry
    share: 0.2
    owner: sim
    slo: {queue_wait_p95: 5m, oldest_age: 15m}
    attempt_timeout: 40s
    backlog: {max_work: 1h}
    retry: {max_attempts: 3, backoff_base: 200ms, backoff_cap: 1s}
    dlq: {max_receives: 5}
    brakes: []
classes:
  quick: {lane: quick, priority: {default: normal, max: high}, prior: {p50: 300ms, p95: 800ms}, cap: 5s}
  plain: {lane: plain, priority: {default: normal, max: high}, prior: {p50: 1s, p95: 3s}, cap: 40s}
  late:  {lane: plain, priority: {default: normal, max: high}, prior: {p50: 1s, p95: 3s}, cap: 40s, late: run}
tiers:
  small: {max_queued_work: 5s, max_active: 1, daily_work: 2h, rate: 5, burst: 4}
  large: {max_queued_work: 40s, max_active: 3, daily_work: 24h, rate: 50, burst: 100, max_priority: high, weight: 3}
tenants:
  alpha: {tier: small, keys: [sim-key-alpha]}
  beta: {tier: large, keys: [sim-key-beta]}
operators: {keys: [sim-key-operator]}
`

// Tenants of the simulated world and their tiers.
var tiers = map[string]string{"alpha": "small", "beta": "large"}

// Config parses the simulated world's configuration.
func Config() (*policy.Config, error) { return policyfile.Parse("sim.yaml", []byte(configYAML)) }

package contract

import "fmt"

// limits are what the cases with their own server vary; zero values do not bind.
type limits struct {
	queuedWorkMS int64 // tenant main's max_queued_work
	laneWorkMS   int64 // the lane's backlog.max_work
	rate, burst  int   // tenant main's submissions a second
	maxActive    int   // tenant main's attempts at once
}

// yaml is a configuration with one lane of two slots, a class "unit" whose budget is tested and a class "hold" that
// another tenant takes the slots with.
func (l limits) yaml() []byte {
	work, lane, rate, burst := "24h", "24h", 10_000, 10_000
	if l.queuedWorkMS > 0 {
		work = fmt.Sprintf("%dms", l.queuedWorkMS)
	}
	if l.laneWorkMS > 0 {
		lane = fmt.Sprintf("%dms", l.laneWorkMS)
	}
	active := 2
	if l.maxActive > 0 {
		active = l.maxActive
	}
	if l.rate > 0 {
		rate, burst = l.rate, l.burst
	}
	return fmt.Appendf(nil, `version: 1
tasks: {retention: 24h, max_deadline: 336h, resend_after: 30s}
lanes:
  main:
    owner: contract
    slo: {queue_wait_p95: 1m, oldest_age: 1m}
    workers: {max_concurrency: 2, reserved: 2}
    batch: {size: 1, window: 0s}
    attempt_timeout: 3m
    safety_margin: 500ms
    backlog: {max_work: %s}
    retry: {max_attempts: 3, backoff_base: 1s, backoff_cap: 1m}
    dlq: {max_receives: 5, retention: 336h}
    brakes: []
  retry:
    role: retry
    share: 0.2
    owner: contract
    slo: {queue_wait_p95: 1m, oldest_age: 1m}
    batch: {size: 1, window: 0s}
    attempt_timeout: 3m
    safety_margin: 500ms
    backlog: {max_work: 24h}
    retry: {max_attempts: 3, backoff_base: 1s, backoff_cap: 1m}
    dlq: {max_receives: 5, retention: 336h}
    brakes: []
classes:
  unit:
    lane: main
    priority: {default: normal, max: normal}
    prior: {p50: 1s, p95: 3s}
    cap: 1m
    target: {builtin: sleep}
  hold:
    lane: main
    priority: {default: normal, max: normal}
    prior: {p50: 2m, p95: 150s}
    cap: 3m
    target: {builtin: sleep}
tiers:
  tested: {max_queued_work: %s, max_active: %d, daily_work: 24h, rate: %d, burst: %d, max_priority: normal}
  least: {max_queued_work: 1ms, max_active: 1, max_priority: normal}
  holder: {max_queued_work: 24h, max_active: 2, daily_work: 24h, rate: 10000, burst: 10000, max_priority: normal}
priorities:
  normal: {max_wait: 24h, max_duration: 48h}
tenants:
  main: {tier: tested, keys: [key-main]}
  holder: {tier: holder, keys: [key-holder]}
operators: {keys: [key-admin]}
`, lane, work, active, rate, burst)
}

package fair

import (
	"fmt"
	"testing"
	"time"
)

// When a class becomes slow, and when others are looked at again.
const (
	soursAt   = 120_000
	soursFrom = 600_000
	soursTo   = 900_000
)

// souring is a class of the fast lane that becomes slow, beside a tenant of short tasks.
func souring(w *world) {
	w.nowAndThen(soursTo, 3*time.Second, func() {
		took := 400 * time.Millisecond
		if w.sinceMS() >= soursAt {
			took = 30 * time.Second
		}
		w.submit("t0", "sour", "", w.about(took))
	})
	w.nowAndThen(soursTo, 500*time.Millisecond, func() { w.submit("t1", "unit", "", w.about(500*time.Millisecond)) })
	w.sleepUntil(soursTo + 5000)
}

// learning: a class that stays over the ceiling of its lane moves out of it, and those who are left
// there do not feel it any more.
func (r *Report) learning(t *testing.T) {
	const ceiling = "ceiling: {p95: 5s},"
	on := play(t, config("LOW", ceiling), without{}, souring)
	off := play(t, config("LOW", ceiling, "PIN", "pin_lane: true,"), without{}, souring)
	p95 := func(w *world, from, to int64) int64 { return quantile(w.delays(from, to, "t1"), 0.95) }
	before := p95(on, 20_000, soursAt)
	during, after := p95(on, soursAt, soursFrom/2), p95(on, soursFrom, soursTo)
	moved := on.log(func(s *span) bool { return s.t.Class == "sour" && s.t.Lane == "heavy" })
	others := on.log(func(s *span) bool { return s.t.Class != "sour" && s.t.Lane != "work" })
	bound := max(before*3/2, before+50)
	r.line(after <= bound && len(moved) > 0 && len(others) == 0, fmt.Sprintf("a class becomes slow: others' p95 start delay once it moved (%s before)", seconds(during)), seconds(after),
		fmt.Sprintf("<= %s (%s while it was fast)", seconds(bound), seconds(before)), seconds(p95(off, soursFrom, soursTo)))
}

// byTier: tenants of a tier that has a lane of its own do not feel what others keep the shared
// lane busy with.
func (r *Report) byTier(t *testing.T) {
	load := func(busy bool) func(w *world) {
		return func(w *world) {
			if busy {
				w.backlog(180_000, 30, "t0", func() { w.submit("t0", "unit", "", w.about(20*time.Second)) })
			}
			w.nowAndThen(180_000, time.Second, func() { w.submit("gold", "unit", "", w.about(500*time.Millisecond)) })
			w.sleepUntil(185_000)
		}
	}
	const lane = "vip: {tiers: [gold], instead_of: work, owner: fair, slo: {queue_wait_p95: 1s, oldest_age: 10m}, workers: {max_concurrency: 4}, attempt_timeout: 2m, safety_margin: 0s, " +
		"backlog: {max_work: 8000h}, retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []}"
	p95 := func(w *world) int64 { return quantile(w.delays(30_000, 180_000, "gold"), 0.95) }
	alone, on := p95(play(t, config("VIP", lane), without{}, load(false))), play(t, config("VIP", lane), without{}, load(true))
	off := p95(play(t, config(), without{}, load(true)))
	stray := on.log(func(s *span) bool { return (s.t.Tenant == "gold") != (s.t.AtLane == "vip") })
	bound := max(alone*11/10, alone+50)
	r.line(p95(on) <= bound && len(stray) == 0, "a lane kept for a tier, the shared one busy: its p95 start delay", seconds(p95(on)),
		fmt.Sprintf("<= %s (alone %s)", seconds(bound), seconds(alone)), seconds(off))
}

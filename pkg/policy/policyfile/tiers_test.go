package policyfile

import (
	"strings"
	"testing"
)

// lanesOfTiers has a lane that is kept for a tier, and one that stands in for main.
const lanesOfTiers = `version: 1
lanes:
  main: {owner: t, slo: {queue_wait_p95: 5s, oldest_age: 10s}, workers: {max_concurrency: 4}, MAIN retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []}
  gold: {owner: t, slo: {queue_wait_p95: 5s, oldest_age: 10s}, workers: {max_concurrency: 4}, GOLD retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []}
  more: {owner: t, slo: {queue_wait_p95: 5s, oldest_age: 10s}, workers: {max_concurrency: 4}, MORE retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []}
  again: {role: retry, share: 0.1, owner: t, slo: {queue_wait_p95: 5s, oldest_age: 10s}, attempt_timeout: 1m, AGAIN retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []}
classes:
  job: {lane: LANE, prior: {p50: 1s, p95: 2s}, cap: 10s, sizes: {by: rows, buckets: [{name: small, from: 0}, {name: large, from: 10, lane: BIG}]}}
tiers:
  basic: {max_queued_work: 2m, max_active: 2}
  gold: {max_queued_work: 2m, max_active: 2}
  silver: {max_queued_work: 2m, max_active: 2}
`

// withTiers is that file with MAIN, GOLD, … replaced; LANE and BIG are main unless they are.
func withTiers(pairs ...string) string {
	return strings.NewReplacer(append(pairs, "MAIN", "", "GOLD", "", "MORE", "", "AGAIN", "", "LANE", "main", "BIG", "main")...).Replace(lanesOfTiers)
}

func TestFaultsOfLanesByTier(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text, want string
	}{
		{"a class whose lane excludes tiers that have no other", withTiers("MAIN", "tiers: [gold],"), `
8:15: classes.job.lane: lane main is kept for tier gold, so tasks of tier basic, silver have no lane; give them one that is instead_of: main
8:140: classes.job.sizes.buckets[1].lane: lane main is kept for tier gold, so tasks of tier basic, silver have no lane; give them one that is instead_of: main`},
		{"a bucket the same, of which another takes one tier", withTiers("BIG", "more", "MORE", "tiers: [gold],", "GOLD", "tiers: [basic], instead_of: more,"), `
8:140: classes.job.sizes.buckets[1].lane: lane more is kept for tier gold, so tasks of tier silver have no lane; give them one that is instead_of: more`},
		{"a class that names a lane which stands in", withTiers("LANE", "gold", "GOLD", "tiers: [gold], instead_of: main,"), `
8:15: classes.job.lane: lane gold stands in for lane main; name that one`},
		{"standing in for nobody in particular", withTiers("GOLD", "instead_of: main,"), `
4:3: lanes.gold.tiers: is missing; a lane that stands in for another says for which tiers`},
		{"standing in for itself, for the retry lane", withTiers("GOLD", "tiers: [gold], instead_of: gold,", "MORE", "tiers: [gold], instead_of: again,"), `
4:122: lanes.gold.instead_of: must be another lane
5:122: lanes.more.instead_of: must not be the retry lane, which repeats everybody's attempts`},
		{"a chain", withTiers("GOLD", "tiers: [gold], instead_of: main,", "MORE", "tiers: [basic], instead_of: gold,"), `
5:123: lanes.more.instead_of: must be a lane that classes name; gold stands in for main itself`},
		{"two for one tier", withTiers("GOLD", "tiers: [gold, basic], instead_of: main,", "MORE", "tiers: [silver, gold], instead_of: main,"), `
5:111: lanes.more.tiers[1]: lane gold stands in for main for tier gold already`},
		{"a tier twice, a tier that is none", withTiers("GOLD", "tiers: [gold, gold, platinum], instead_of: main,"), `
4:109: lanes.gold.tiers[1]: tier gold is there already
4:115: lanes.gold.tiers[2]: there is no tier "platinum"`},
		{"a lane that is none", withTiers("GOLD", "tiers: [gold], instead_of: nain,"), `
4:122: lanes.gold.instead_of: there is no lane "nain"`},
		{"a ceiling, and less time, than the lane it stands in for", withTiers("GOLD", "tiers: [gold], instead_of: main, ceiling: {p95: 1s}, attempt_timeout: 29s,"), `
4:128: lanes.gold.ceiling: is refused where a lane stands in for another: that of lane main decides
4:165: lanes.gold.attempt_timeout: must be at least that of lane main (30s), whose tasks run here, is 29s`},
		{"batches under the other lane's ceiling", withTiers("MAIN", "ceiling: {p95: 2s},", "GOLD", "tiers: [gold], instead_of: main, batch: {size: 2},"), `
4:142: lanes.gold.batch.size: must be 1 unless ceiling.p95 is under 1s: the items of a batch run one after another`},
		{"the retry lane", withTiers("AGAIN", "tiers: [gold], instead_of: main,"), `
6:111: lanes.again.tiers: is refused in the retry lane, which repeats everybody's attempts
6:138: lanes.again.instead_of: is refused in the retry lane, which repeats everybody's attempts`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			expectFaults(t, c.text, c.want)
		})
	}
	for _, text := range []string{
		withTiers("GOLD", "tiers: [gold], instead_of: main,"),
		withTiers("MAIN", "tiers: [gold],", "GOLD", "tiers: [basic], instead_of: main,", "MORE", "tiers: [silver], instead_of: main,"),
		withTiers("MAIN", "tiers: [silver, gold, basic],"),
		withTiers("MORE", "tiers: [gold],"), // nobody names it
		withTiers("MAIN", "ceiling: {p95: 900ms},", "GOLD", "tiers: [gold], instead_of: main, batch: {size: 2},"),
	} {
		if _, err := Parse("x", []byte(text)); err != nil {
			t.Errorf("refused: %v\n%s", err, text)
		}
	}
}

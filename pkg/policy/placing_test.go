package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

// placed is a configuration whose lanes are given as "name: keys" and whose classes as "name: lane, cap, keys".
func placed(t *testing.T, lanes, classes []string) *policy.Config {
	t.Helper()
	text := "version: 1\nlanes:\n"
	const slo, rest = "slo: {queue_wait_p95: 5s, oldest_age: 10s}, ", "owner: t, retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []"
	for _, l := range lanes {
		name, keys, _ := strings.Cut(l, ":")
		if !strings.Contains(keys, "slo:") {
			keys += ", " + strings.TrimSuffix(slo, ", ")
		}
		text += fmt.Sprintf("  %s: {%s, workers: {max_concurrency: 4}, %s}\n", name, keys, rest)
	}
	text += "  retry: {role: retry, share: 0.1, attempt_timeout: 14m, " + slo + rest + "}\nclasses:\n"
	for _, c := range classes {
		name, keys, _ := strings.Cut(c, ":")
		text += fmt.Sprintf("  %s: {prior: {p50: 100ms, p95: 200ms}, %s}\n", name, keys)
	}
	text += "tiers: {basic: {max_queued_work: 2m, max_active: 2}, gold: {max_queued_work: 2m, max_active: 2}}\n"
	c, err := policyfile.Parse("x", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

func TestLadders(t *testing.T) {
	t.Parallel()
	lanes := []string{
		"huge: attempt_timeout: 14m",
		"quick: attempt_timeout: 10s, ceiling: {p95: 1s}",
		"middle: attempt_timeout: 1m, ceiling: {p95: 20s}",
		"other: attempt_timeout: 2m, ceiling: {p95: 20s}",
		"gold: attempt_timeout: 14m, ceiling: {p95: 10s}, tiers: [gold]",
		"aaa: attempt_timeout: 14m, slo: {queue_wait_p95: 4s, oldest_age: 10s}",
		"huge-gold: attempt_timeout: 14m, tiers: [gold], instead_of: huge",
	}
	c := placed(t, lanes, []string{
		"short: lane: quick, cap: 10s",
		"within: lane: quick, cap: 1s",
		"pinned: lane: quick, cap: 10s, pin_lane: true",
		"long: lane: quick, cap: 90s",
		"longer: lane: quick, cap: 15m",
		"medium: lane: middle, cap: 10m",
		"heavy: lane: huge, cap: 1s",
	})
	for class, want := range map[string]string{
		"short":  "quick 1000, (gold) 10000, middle 20000", // which holds its cap: huge is for others
		"within": "quick 1000",
		"pinned": "quick 1000",
		"long":   "quick 1000, (gold) 10000, (middle) 20000, other 20000, huge 0",
		"longer": "quick 1000, (gold) 10000, (middle) 20000, (other) 20000, (huge) 0, (aaa) 0",
		"medium": "middle 20000, huge 0", // other is as heavy, not heavier
		"heavy":  "huge 0",
	} {
		var got []string
		for _, r := range c.Ladder(class, policy.DefaultBucket) {
			name := r.Lane
			if r.Barred != "" {
				name = "(" + name + ")"
			}
			got = append(got, fmt.Sprintf("%s %d", name, r.CeilingMS))
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%s: %s, want %s", class, s, want)
		}
	}
	if got := c.LanesOf("long"); !slices.Equal(got, []string{"huge", "huge-gold", "other", "quick"}) {
		t.Errorf("lanes of long: %v", got)
	}
	if got := c.LanesOf("pinned"); !slices.Equal(got, []string{"quick"}) {
		t.Errorf("lanes of pinned: %v", got)
	}
	if c.Ladder("short", "no bucket") != nil || c.Ladder("none", "default") != nil || c.LanesOf("none") != nil {
		t.Error("what the configuration does not have has lanes")
	}
	want := []string{
		"long: quick → other → huge; not to gold: it is not for tier basic; not to middle: the cap (1m30s) is over its attempt_timeout (1m)",
		"longer: quick → nowhere; not to gold: the cap (15m) is over its attempt_timeout (14m); not to middle: the cap (15m)",
		"medium: middle → huge",
		"short: quick → middle; not to gold: it is not for tier basic",
		"tier gold: huge → huge-gold",
	}
	got := c.Moves()
	if len(got) != len(want) {
		t.Fatalf("moves:\n%s", strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("line %d is %q, want %q", i, got[i], want[i])
		}
	}
}

// TestSlowWorkDoesNotMoveToWhereShorterWaitsArePromised: a lane for urgent work without a
// ceiling is not the heaviest one.
func TestSlowWorkDoesNotMoveToWhereShorterWaitsArePromised(t *testing.T) {
	t.Parallel()
	c := placed(t, []string{"quick: ceiling: {p95: 1s}", "urgent: slo: {queue_wait_p95: 4999ms, oldest_age: 10s}"}, []string{"job: lane: quick, cap: 10s"})
	if got := c.Moves(); len(got) != 1 || got[0] != "job: quick → nowhere; not to urgent: it promises shorter waits (4.999s, here 5s)" {
		t.Errorf("%q", got)
	}
	if got := c.LanesOf("job"); !slices.Equal(got, []string{"quick"}) {
		t.Errorf("lanes %v", got)
	}
}

func TestLaneForATier(t *testing.T) {
	t.Parallel()
	c := placed(t, []string{"main: tiers: [gold]", "rest: tiers: [basic], instead_of: main", "open: low_share: 0", "kept: tiers: [gold]"},
		[]string{"job: lane: main, cap: 1s", "free: lane: open, cap: 1s"})
	for _, w := range []struct{ lane, tier, want string }{
		{"main", "gold", "main"}, {"main", "basic", "rest"}, {"open", "gold", "open"}, {"open", "basic", "open"},
		{"kept", "gold", "kept"}, {"kept", "basic", ""}, {"none", "gold", ""},
	} {
		if got := c.LaneFor(w.lane, w.tier); got != w.want {
			t.Errorf("%s for %s: %q, want %q", w.lane, w.tier, got, w.want)
		}
	}
	if got := c.LanesOf("job"); !slices.Equal(got, []string{"main", "rest"}) {
		t.Errorf("lanes of job: %v", got)
	}
	all := placed(t, []string{"main: tiers: [gold]", "a: tiers: [basic], instead_of: main", "b: tiers: [gold], instead_of: main"}, []string{"job: lane: main, cap: 1s"})
	if got := all.LanesOf("job"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("lanes of a job whose lane is nobody's: %v", got)
	}
}

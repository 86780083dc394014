package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

// many is a file with many lanes and classes, the classes going round the lanes.
func many(t testing.TB, lanes, classes int) *policy.Config {
	t.Helper()
	var b strings.Builder
	b.WriteString("version: 1\ntiers: {basic: {max_queued_work: 2m, max_active: 2}}\nlanes:\n")
	lane := "owner: team, slo: {queue_wait_p95: 5s, oldest_age: 4s}, retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []"
	fmt.Fprintf(&b, "  retry: {role: retry, share: 0.2, %s}\n", lane)
	for i := range lanes - 1 {
		fmt.Fprintf(&b, "  lane-%d: {workers: {max_concurrency: 1000}, %s}\n", i, lane)
	}
	b.WriteString("classes:\n")
	for i := range classes {
		fmt.Fprintf(&b, "  class.n%03d: {lane: lane-%d, prior: {p50: 1s, p95: 2s}, cap: 5s}\n", i, i%(lanes-1))
	}
	c, err := policyfile.Parse("many.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func total(c *policy.Config) int {
	n := 0
	for _, s := range c.Series() {
		n += s.Count
	}
	return n
}

func TestSeriesAreCounted(t *testing.T) {
	t.Parallel()
	// 8 decisions × 4 classes × 2 tiers, 2 × 4 lanes, 10 pairs (report.export in two lanes and mail.send, which may move, in
	// three with the one that is kept for a tier, the others in two), 4 classes, 2 stages, 15 × 4 lanes, 1 dependency.
	if got := total(load(t, full)); got != 64+8+10+4+2+60+1 {
		t.Errorf("%d series: %+v", got, load(t, full).Series())
	}
}

func TestAtMostFiftyClassesAreLabels(t *testing.T) {
	t.Parallel()
	at, over := many(t, 3, 50), many(t, 3, 1000)
	labels := map[string]bool{}
	for _, n := range over.ClassNames() {
		labels[over.ClassLabel(n)] = true
	}
	if len(labels) != 51 || !labels[policy.OtherClasses] || labels["class.n050"] {
		t.Errorf("%d labels", len(labels))
	}
	if at.ClassLabel("class.n049") != "class.n049" || at.ClassLabel("no.such") != policy.OtherClasses {
		t.Error("the fiftieth class must be a label, an unknown one must not")
	}
	// One label more: 8 decisions, 1 service time, and a pair in each of the two lanes.
	if got := total(over) - total(at); got != 8+1+2 {
		t.Errorf("950 classes more make %d series more", got)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	find := func(list []string, part string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, part) })
	}
	if w := many(t, 31, 5).Warnings(); !find(w, "31 lanes are more than 30") || !find(w, "lanes.lane-0.slo.oldest_age: 4s is under") {
		t.Errorf("31 lanes: %v", w)
	}
	if w := many(t, 30, 5).Warnings(); find(w, "more than") || find(w, "plain text") {
		t.Errorf("30 lanes: %v", w)
	}
	c := load(t, full)
	c.Lanes["heavy"].AttemptTimeout = c.Classes["vendor.sync"].Prior.P50
	c.Lanes["critical"].Ceiling.P95 = c.Classes["mail.send"].Prior.P50
	w := c.Warnings()
	for _, part := range []string{
		`classes["vendor.sync"]: its prior p95 (2m) is over attempt_timeout of lane heavy (1m)`,
		`classes["report.export"] bucket large: its prior p95 (6m) is over attempt_timeout`,
		`classes["mail.send"]: its prior p95 (200ms) is over the ceiling of lane critical (50ms)`, "2 keys stand here in plain text",
	} {
		if !find(w, part) {
			t.Errorf("no warning %q in\n%s", part, strings.Join(w, "\n"))
		}
	}
}

func TestRetryLaneHasAMappingsLimits(t *testing.T) {
	t.Parallel()
	if got := many(t, 7, 1).Workers("retry"); got != 1000 { // 0.2 × 6000
		t.Errorf("%d workers, a mapping accepts 1000 at most", got)
	}
}

func BenchmarkFromCompiled(b *testing.B) {
	for name, c := range map[string]*policy.Config{"demo": load(b, demo), "30 lanes, 1000 classes": many(b, 30, 1000)} {
		data, err := c.Compile()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := policy.FromCompiled(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkClassify(b *testing.B) {
	c := load(b, full)
	hints := map[string]int64{"rows": 200_000}
	for b.Loop() {
		_, _, _, _, _ = c.Classify("report.export", hints)
	}
}

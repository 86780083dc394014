package policy_test

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

func load(t testing.TB, path string) *policy.Config {
	t.Helper()
	c, err := policyfile.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	full = "policyfile/testdata/full.yaml"
	demo = "../../localstack/lanekeeper.yaml"
)

func TestCompiledConfigurationIsTheSame(t *testing.T) {
	t.Parallel()
	for _, file := range []string{full, demo} {
		c := load(t, file)
		b, err := c.Compile()
		if err != nil {
			t.Fatal(err)
		}
		again, err := policy.FromCompiled(b)
		if err != nil {
			t.Fatal(err)
		}
		b2, err := again.Compile()
		if err != nil || string(b) != string(b2) || c.Hash() != again.Hash() || len(c.Hash()) != 64 {
			t.Errorf("%s changes by compilation: %v\n%s\n%s", file, err, b, b2)
		}
		for _, n := range c.LaneNames() {
			if c.Slots(n) != again.Slots(n) || c.VisibilityTimeout(n) != again.VisibilityTimeout(n) {
				t.Errorf("%s: lane %s has other figures after compilation", file, n)
			}
		}
		for _, n := range c.ClassNames() {
			if !reflect.DeepEqual(c.Buckets(n), again.Buckets(n)) || again.Classes[n].Name != n {
				t.Errorf("%s: class %s differs after compilation", file, n)
			}
		}
	}
}

func TestHashIgnoresHowAFileIsWritten(t *testing.T) {
	t.Parallel()
	c := load(t, full)
	b, err := c.Compile() // JSON with every default spelled out is YAML too
	if err != nil {
		t.Fatal(err)
	}
	other, err := policyfile.Parse("compiled", b)
	if err == nil && other.Hash() != c.Hash() {
		t.Error("the spelled-out file has another hash")
	}
	if err != nil {
		t.Errorf("the compiled form is no valid file: %v", err)
	}
	c.Tasks.ResendAfter++
	if other != nil && other.Hash() == c.Hash() {
		t.Error("another value has the same hash")
	}
}

func TestDamagedCompiledConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	b, err := load(t, full).Compile()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{`"version":1`, `"version":2`, "version: must be 1, is 2"},
		{`"version":1`, `"version":1,"extra":2`, "unknown field"},
		{`"max_receives":5`, `"max_receives":1`, "lanes.critical.dlq.max_receives: must be 5 to 1000, is 1"},
		{`"lane":"critical"`, `"lane":"nowhere"`, `there is no lane "nowhere"`},
		{`"role":"retry"`, `"role":""`, "one lane must have the role retry"},
		{`"mail.send":{`, `"push.send":null,"mail.send":{`, `classes["push.send"]: must be a mapping, is empty`},
		{`"attempt_timeout":"30s"`, `"attempt_timeout":"soon"`, "duration"},
		{`"over":"2s"`, `"over":true`, "threshold"},
		{`}`, `}}`, "compiled configuration"},
		{`{`, ``, "compiled configuration"},
	} {
		text := strings.Replace(string(b), c.old, c.new, 1)
		if c.new == "}}" {
			text = string(b) + "}"
		}
		if text == string(b) {
			t.Errorf("nothing to replace: %s", c.old)
			continue
		}
		if got, err := policy.FromCompiled([]byte(text)); err == nil || got != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s → %s: error %v, want %q in it", c.old, c.new, err, c.want)
		}
	}
}

// Null in place of anything is refused or, where it means absent, harmless; never a panic.
func TestNullAnywhereInCompiledConfiguration(t *testing.T) {
	t.Parallel()
	b, err := load(t, full).Compile()
	if err != nil {
		t.Fatal(err)
	}
	var root any
	if err := json.Unmarshal(b, &root); err != nil {
		t.Fatal(err)
	}
	refused := 0
	var walk func(v any)
	try := func(set func(any), old any) {
		set(nil)
		text, _ := json.Marshal(root)
		if c, err := policy.FromCompiled(text); err != nil {
			refused++
		} else {
			c.Warnings()
			policy.NotYetInForce(c)
		}
		set(old)
		walk(old)
	}
	walk = func(v any) {
		switch x := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(x)) {
				try(func(n any) { x[k] = n }, x[k])
			}
		case []any:
			for i := range x {
				try(func(n any) { x[i] = n }, x[i])
			}
		}
	}
	walk(root)
	if refused < 50 {
		t.Errorf("only %d refused", refused)
	}
}

func FuzzFromCompiled(f *testing.F) {
	b, err := load(f, full).Compile()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"lanes":{"a":null},"classes":{"b":{}},"tiers":{"c":null}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := policy.FromCompiled(b)
		if err != nil {
			return
		}
		if c.Slots(c.RetryLane()) < 2 {
			t.Error("a retry lane without slots")
		}
		c.Hash()
		c.Warnings()
		policy.NotYetInForce(c)
	})
}

func TestFiguresOfLanes(t *testing.T) {
	t.Parallel()
	c := load(t, full)
	if got := c.LaneNames(); !slices.Equal(got, []string{"critical", "heavy", "heavy-basic", "retry"}) || c.RetryLane() != "retry" || c.Rules("none") != c.Lanes["retry"] {
		t.Errorf("lanes %v, retry lane %q", got, c.RetryLane())
	}
	for _, w := range []struct {
		lane                 string
		workers, slots       int
		timeout, visibility  string
		reserved, batch, max int
	}{
		{"critical", 6, 30, "1m30s", "9m1s", 8, 5, 6},
		{"heavy", 14, 14, "15m", "1h30m", 14, 1, 14},
		{"retry", 3, 3, "15m", "1h30m", 3, 1, 0}, // 0.15 × 20
		{"none", 0, 0, "0s", "0s", 0, 0, 0},
	} {
		if c.Workers(w.lane) != w.workers || c.Slots(w.lane) != w.slots ||
			c.FunctionTimeout(w.lane).String() != w.timeout || c.VisibilityTimeout(w.lane).String() != w.visibility {
			t.Errorf("%s: %d workers, %d slots, time-out %s, visibility %s", w.lane, c.Workers(w.lane), c.Slots(w.lane),
				c.FunctionTimeout(w.lane), c.VisibilityTimeout(w.lane))
		}
		if l, ok := c.Lane(w.lane); ok && (l.Workers.Reserved != w.reserved || l.Batch.Size != w.batch || l.Workers.MaxConcurrency != w.max || l.Name != w.lane || c.Rules(w.lane) != l) {
			t.Errorf("%s: %+v", w.lane, l)
		}
	}
	if d := load(t, demo); d.Slots("retry") != 2 || d.Slots("critical") != 4 || d.FunctionTimeout("heavy").MS() != 900_000 {
		t.Errorf("demo: retry %d, critical %d slots", d.Slots("retry"), d.Slots("critical"))
	}
}

func TestShareOfTheRetryLaneIsRounded(t *testing.T) {
	t.Parallel()
	b, _ := load(t, demo).Compile()
	for others, want := range map[int]int{2: 2, 12: 2, 13: 3, 18: 4} { // heavy brings 2, critical 2, standard the rest; share 0.2
		c, err := policy.FromCompiled(b)
		if err != nil {
			t.Fatal(err)
		}
		c.Lanes["critical"].Workers = policy.Workers{MaxConcurrency: 2}
		c.Lanes["standard"].Workers = policy.Workers{MaxConcurrency: max(2, others-4)}
		c.Lanes["retry"].Workers = policy.Workers{}
		if f := policy.New(c, nil); len(f) > 0 {
			t.Fatal(f)
		}
		if got := c.Workers("retry"); got != want || c.Lanes["retry"].Workers.Reserved != want {
			t.Errorf("a fifth of %d slots: %d workers, want %d", others, got, want)
		}
	}
}

// Every attempt time-out that is accepted leaves a minute of the function's 15, and a claim needs 5 s more than it.
func TestFunctionTimeoutLeavesTimeToFinish(t *testing.T) {
	t.Parallel()
	base := load(t, demo)
	b, _ := base.Compile()
	rapid.Check(t, func(t *rapid.T) {
		c, err := policy.FromCompiled(b)
		if err != nil {
			t.Fatal(err)
		}
		a := policy.Duration(time.Duration(rapid.Int64Range(100, 840_000).Draw(t, "attempt ms")) * time.Millisecond)
		for _, l := range c.Lanes {
			l.AttemptTimeout, l.Ceiling = a, nil
		}
		if f := policy.New(c, nil); len(f) > 0 {
			t.Fatal(f)
		}
		f := c.FunctionTimeout("heavy")
		if f.MS()%1000 != 0 || f.MS() > 900_000 || f.MS() < a.MS()+60_000 || c.VisibilityTimeout("heavy").MS() < 6*f.MS() {
			t.Fatalf("attempt %s, function %s, visibility %s", a, f, c.VisibilityTimeout("heavy"))
		}
	})
}

func TestDefaultsOfPriorities(t *testing.T) {
	t.Parallel()
	c := load(t, full)
	want := map[string][2]string{"critical": {"5m", "30m"}, "high": {"15m", "2h"}, "normal": {"1h", "6h"}, "low": {"6h", "24h"}}
	for i, n := range policy.PriorityNames() {
		p, ok := c.Priority(n)
		if !ok || p.MaxWait.String() != want[n][0] || p.MaxDuration.String() != want[n][1] || policy.PriorityRank(n) != i {
			t.Errorf("%s: %+v", n, p)
		}
	}
	if policy.PriorityRank("urgent") != -1 {
		t.Error("an unknown priority has a rank")
	}
}

// What is filled in never contradicts what was given.
func TestDefaultPrioritiesFitWhatIsGiven(t *testing.T) {
	t.Parallel()
	for _, given := range []string{"tasks: {max_deadline: 90s}", "priorities: {low: {max_wait: 48h}}", "priorities: {low: {max_duration: 1m}}"} {
		text := "\n" + given + "\n"
		b, _ := load(t, demo).Compile()
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		delete(m, "tasks")
		delete(m, "priorities")
		rest, _ := json.Marshal(m)
		c, err := policyfile.Parse(given, []byte(strings.TrimSuffix(string(rest), "}")+", "+strings.TrimSpace(text)+"}"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, n := range policy.PriorityNames() {
			if p := c.Priorities[n]; p.MaxWait <= 0 || p.MaxWait > p.MaxDuration || p.MaxDuration > c.MaxDeadline() {
				t.Errorf("%s: %s has %+v", given, n, *p)
			}
		}
	}
}

func TestClassify(t *testing.T) { // not parallel: it counts allocations
	c := load(t, full)
	for _, w := range []struct {
		class        string
		hints        map[string]int64
		bucket, lane string
		p95, limit   string
	}{
		{"mail.send", nil, "default", "critical", "200ms", "10s"},
		{"mail.send", map[string]int64{"rows": 1 << 40}, "default", "critical", "200ms", "10s"},
		{"report.export", nil, "small", "critical", "800ms", "5m"},
		{"report.export", map[string]int64{"bytes": 1 << 40}, "small", "critical", "800ms", "5m"},
		{"report.export", map[string]int64{"rows": 99_999}, "small", "critical", "800ms", "5m"},
		{"report.export", map[string]int64{"rows": 100_000}, "large", "heavy", "6m", "15m"},
		{"report.export", map[string]int64{"rows": math.MaxInt64}, "huge", "heavy", "800ms", "5m"},
		{"report.export", map[string]int64{"rows": -1}, "small", "critical", "800ms", "5m"},
	} {
		bucket, lane, prior, limit, err := c.Classify(w.class, w.hints)
		if err != nil || bucket != w.bucket || lane != w.lane || prior.P95.String() != w.p95 || limit.String() != w.limit {
			t.Errorf("%s %v: %s %s %v %s %v", w.class, w.hints, bucket, lane, prior, limit, err)
		}
	}
	if _, _, _, _, err := c.Classify("no.such", nil); !errors.Is(err, policy.ErrUnknownClass) {
		t.Errorf("an unknown class: %v", err)
	}
	hints := map[string]int64{"rows": 100_000}
	if n := testing.AllocsPerRun(100, func() { _, _, _, _, _ = c.Classify("report.export", hints) }); n != 0 {
		t.Errorf("Classify allocates %v times", n)
	}
	k, _ := c.Class("report.export")
	if name, limit, over := k.OverHint(map[string]int64{"rows": 5_000_001}); !over || name != "rows" || limit != 5_000_000 {
		t.Errorf("over the largest hint: %s %d %v", name, limit, over)
	}
	if _, _, over := k.OverHint(map[string]int64{"rows": 5_000_000, "other": 1 << 60}); over {
		t.Error("the largest hint itself is refused")
	}
}

func TestAllowsPriority(t *testing.T) {
	t.Parallel()
	c := load(t, demo)
	for _, w := range []struct {
		class, tier, priority string
		want                  bool
	}{
		{"mail.send", "enterprise", "critical", true}, {"mail.send", "basic", "high", false}, {"mail.send", "basic", "normal", true},
		{"agent.lint", "enterprise", "critical", false}, {"agent.lint", "enterprise", "high", true},
		{"agent.lint", "basic", "low", true}, {"agent.lint", "basic", "urgent", false},
	} {
		k, _ := c.Class(w.class)
		tier, _ := c.Tier(w.tier)
		if got := policy.AllowsPriority(k, tier, w.priority); got != w.want {
			t.Errorf("%s for %s in tier %s: %v", w.priority, w.class, w.tier, got)
		}
	}
}

func TestDurationText(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile(policy.DurationPattern)
	rapid.Check(t, func(t *rapid.T) {
		d := policy.Duration(time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "ms")) * time.Millisecond)
		if got, err := policy.ParseDuration(d.String()); err != nil || got != d || !pattern.MatchString(d.String()) {
			t.Fatalf("%d ms is written %s and read %s, %v", d.MS(), d, got, err)
		}
		s := rapid.StringMatching(`[0-9hms.+\-u ]{0,8}`).Draw(t, "text")
		if _, err := policy.ParseDuration(s); err == nil && !pattern.MatchString(s) {
			t.Fatalf("%q is accepted against the pattern", s)
		} else if err != nil && pattern.MatchString(s) && !strings.Contains(err.Error(), "whole") && !strings.Contains(err.Error(), "long") {
			t.Fatalf("%q is refused against the pattern: %v", s, err)
		}
	})
	for s, ms := range map[string]int64{"0s": 0, "1.5s": 1500, "1h2m3s4ms": 3723004, "336h": 1209600000} {
		if d, err := policy.ParseDuration(s); err != nil || d.MS() != ms || d.Std().Milliseconds() != ms {
			t.Errorf("%s: %d, %v", s, d.MS(), err)
		}
	}
	for _, s := range []string{"", "0", "5", "-1s", "+1s", "1d", "1us", "1s ", "s", "1", ".5s", "1.s", "0.5ms", "99999999999h"} {
		if d, err := policy.ParseDuration(s); err == nil {
			t.Errorf("%q is accepted as %s", s, d)
		}
	}
}

func TestNotYetInForce(t *testing.T) {
	t.Parallel()
	want := []string{
		"classes.*.depends_on (report.export, vendor.sync): ", "classes.*.preemptible (report.export): ",
		"classes.*.target.http (vendor.push): ", "classes.*.target.lambda (vendor.sync): ",
		"dependencies: ", "lanes.*.brakes (critical): ",
		"lanes.*.rate (critical): ",
		"priorities.*.preempt_lower (critical): ", "tiers.*.dependency_share (basic): ",
	}
	got := policy.NotYetInForce(load(t, full))
	if len(got) != len(want) {
		t.Fatalf("%d lines:\n%s", len(got), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) || len(got[i]) == len(want[i]) {
			t.Errorf("line %d is %q, want %q and a reason", i, got[i], want[i])
		}
	}
}

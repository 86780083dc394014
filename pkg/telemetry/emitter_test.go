package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/aggregate"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
)

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("testdata/emf.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("emf.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("emf.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// line is a decoded line.
type line struct {
	AWS struct {
		Timestamp         int64
		CloudWatchMetrics []struct {
			Namespace  string
			Dimensions [][]string
			Metrics    []struct{ Name, Unit string }
		}
	} `json:"_aws"`
	root map[string]any
}

// read holds each line to AWS's schema and its other limits.
func read(s *jsonschema.Schema, out []byte) ([]line, error) {
	var lines []line
	for text := range bytes.Lines(out) {
		if len(text) > 256<<10 {
			return nil, fmt.Errorf("a line of %d bytes", len(text))
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		if err := s.Validate(doc); err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &l.root); err != nil {
			return nil, err
		}
		for _, d := range l.AWS.CloudWatchMetrics {
			for _, set := range d.Dimensions {
				for _, name := range set {
					if _, ok := l.root[name].(string); !ok {
						return nil, fmt.Errorf("%s: the dimension %s has no value", text, name)
					}
				}
			}
			for _, m := range d.Metrics {
				switch l.root[m.Name].(type) {
				case float64, []any:
				default:
					return nil, fmt.Errorf("%s: the metric %s has no value", text, m.Name)
				}
			}
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func minute() aggregate.Minute {
	return aggregate.Minute{
		AtMS: 1_700_000_000_000, LatenessMS: 1500,
		Lanes: []aggregate.LaneNow{{Name: "critical", WorkMS: 2500, Slots: 4, Running: 1, OldestMS: 12_000, QueuedMS: 800, BacklogP95MS: 9000, TargetMS: 2000, UsualMS: 30, DeadLetters: 3}},
		Counts: map[string]map[string]map[string]int64{
			tally.GroupAdmission: {"mail.send": {"accept|basic": 3, "reject_deadline|basic": 1}},
			tally.GroupStart:     {"critical|mail.send": {"d.0": 2, "d.3": 2, "d.sum": 160, "err.level": 400, "err.ratio": 4000, "err.n": 4}},
			tally.GroupSystem:    {tally.Ledgers: {"repaired": 2, "drift_ms": 900}, tally.Places: {tally.Moved: 3, tally.Blocked: 1}},
			tally.GroupClass:     {"mail.send": {"s.2": 4, "s.sum": 150}},
			tally.GroupLane:      {"critical": {"d.0": 2, "d.3": 2, "s.2": 4, "retries": 2, "quarantined": 1, "dead": 4, "dead.unreadable": 1, "miss.start": 1, "miss.finish": 2, "repaired": 1}},
		},
	}
}

func emit(t *testing.T, m aggregate.Minute) []line {
	t.Helper()
	var out bytes.Buffer
	if err := New(&out, "Lanekeeper/test").Emit(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	lines, err := read(schema(t), out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// find is the value of a metric with the given dimension values.
func find(lines []line, metric string, labels ...string) any {
	for _, l := range lines {
		d := l.AWS.CloudWatchMetrics[0]
		var have []string
		for _, name := range d.Dimensions[0] {
			have = append(have, l.root[name].(string))
		}
		if v, ok := l.root[metric]; ok && slices.Equal(have, labels) {
			return v
		}
	}
	return nil
}

func TestEmit(t *testing.T) {
	lines := emit(t, minute())
	for _, c := range []struct {
		metric string
		want   float64
		labels []string
	}{
		{AdmissionTotal, 3, []string{"accept", "mail.send", "basic"}},
		{AdmissionTotal, 1, []string{"reject_deadline", "mail.send", "basic"}},
		{EstimatedWork, 2.5, []string{"critical"}},
		{OldestAge, 12, []string{"critical"}},
		{OldestMessageAge, 0.8, []string{"critical"}},
		{BacklogAgeP95, 9, []string{"critical"}},
		{InflightCount, 1, []string{"critical"}},
		{WorkerBusyRatio, 0.25, []string{"critical"}},
		{RetryCount, 2, []string{"critical"}},
		{DLQCount, 3, []string{"critical"}},
		{DLQInflow, 5, []string{"critical"}},
		{QuarantineInflow, 1, []string{"critical"}},
		{LaneRepairs, 1, []string{"critical"}},
		{HeadOfLine, 0, []string{"critical"}},
		{QueueWaitP50, 10, []string{"critical"}},
		{QueueWaitP99, 99, []string{"critical"}},
		{ProcessP50, 38, []string{"critical"}},
		{PredictionError, 0.1, []string{MethodLevel}},
		{PredictionError, 1, []string{MethodRatio}},
		{DeadlineMissTotal, 1, []string{"start"}},
		{DeadlineMissTotal, 2, []string{"finish"}},
		{AggregatorLateness, 1.5, []string{ComponentAggregator}},
		{LedgerDrift, 2, []string{ComponentAggregator}},
		{LaneMoves, 3, []string{ComponentAggregator}},
		{LaneMovesBlocked, 1, []string{ComponentAggregator}},
	} {
		if got := find(lines, c.metric, c.labels...); got != c.want {
			t.Errorf("%s%v is %v, want %v", c.metric, c.labels, got, c.want)
		}
	}
	for metric, labels := range map[string][]string{TaskStartDelay: {"critical", "mail.send"}, ServiceTime: {"mail.send"}} {
		if list, ok := find(lines, metric, labels...).([]any); !ok || len(list) != 4 {
			t.Errorf("%s%v is %v, want four values", metric, labels, find(lines, metric, labels...))
		}
	}
	for _, l := range lines {
		if d := l.AWS.CloudWatchMetrics[0]; d.Namespace != "Lanekeeper/test" || l.AWS.Timestamp != 1_700_000_000_000 {
			t.Errorf("namespace %s, time %d", d.Namespace, l.AWS.Timestamp)
		}
	}
}

// TestQuietMinutes: what alarms watch is there all the same.
func TestQuietMinutes(t *testing.T) {
	lines := emit(t, aggregate.Minute{AtMS: 1, Lanes: []aggregate.LaneNow{{Name: "critical", Slots: 4, DeadLetters: -1}}})
	for _, metric := range []string{OldestAge, DLQInflow, QuarantineInflow, EstimatedWork} {
		if got := find(lines, metric, "critical"); got != 0.0 {
			t.Errorf("%s is %v, want 0", metric, got)
		}
	}
	if got := find(lines, DLQCount, "critical"); got != nil {
		t.Errorf("%s is %v although nobody counted", DLQCount, got)
	}
	for _, stage := range []string{"start", "finish"} {
		if got := find(lines, DeadlineMissTotal, stage); got != 0.0 {
			t.Errorf("misses %s: %v", stage, got)
		}
	}
	if len(lines) != 4 {
		t.Errorf("%d lines, want 4", len(lines))
	}
}

func TestHeadOfLine(t *testing.T) {
	for _, c := range []struct {
		target, usual int64
		counts        map[string]int64 // p95 is 75 ms, or about 4.9 s
		want          float64
	}{
		{2000, 0, map[string]int64{"d.3": 1}, 0},
		{2000, 0, map[string]int64{"d.8": 1}, 1},      // over the SLO
		{60_000, 1000, map[string]int64{"d.8": 1}, 0}, // unusual, but negligible
		{20_000, 1000, map[string]int64{"d.8": 1}, 1},
		{20_000, 2000, map[string]int64{"d.8": 1}, 0}, // usual
		{20_000, 1000, nil, 0},
	} {
		if got := headOfLine(aggregate.LaneNow{TargetMS: c.target, UsualMS: c.usual}, c.counts); got != c.want {
			t.Errorf("target %d, usual %d, %v: %g, want %g", c.target, c.usual, c.counts, got, c.want)
		}
	}
}

// TestSamplesHaveTheDistribution: CloudWatch computes percentiles of the values.
func TestSamplesHaveTheDistribution(t *testing.T) {
	counts := map[string]int64{"s.5": 9000, "s.8": 1000} // 250–500 ms, 2.5–5 s
	list := sample(counts, "s")
	if len(list) != MaxValues || !slices.IsSorted(list) {
		t.Fatalf("%d values", len(list))
	}
	if list[50] < 0.25 || list[50] > 0.5 || list[89] > 0.5 || list[90] < 2.5 || list[99] > 5 {
		t.Errorf("p50 %g, p90 %g to %g, p100 %g", list[50], list[89], list[90], list[99])
	}
}

// TestLinesKeepTheLimits: whatever the figures, every line is one that CloudWatch takes.
func TestLinesKeepTheLimits(t *testing.T) {
	s := schema(t)
	rapid.Check(t, func(t *rapid.T) {
		m := aggregate.Minute{AtMS: rapid.Int64Range(0, 4e12).Draw(t, "at"), LatenessMS: rapid.Int64Min(0).Draw(t, "late"), Counts: map[string]map[string]map[string]int64{}}
		for i := range rapid.IntRange(0, 5).Draw(t, "lanes") {
			m.Lanes = append(m.Lanes, aggregate.LaneNow{Name: fmt.Sprint("lane", i), WorkMS: rapid.Int64Min(0).Draw(t, "work"), Slots: rapid.Int64Range(0, 1000).Draw(t, "slots"),
				Running: rapid.Int64Range(0, 1000).Draw(t, "running"), DeadLetters: rapid.Int64Range(-1, 1e9).Draw(t, "dead")})
		}
		counter := rapid.SampledFrom([]string{"d.0", "d.15", "d.sum", "s.3", "s.15", "accept|basic", "err.n", "err.level", "retries", "miss.start"})
		name := rapid.SampledFrom([]string{"lane0", "lane0|a.b", "a.b", "other"})
		for _, group := range []string{tally.GroupAdmission, tally.GroupStart, tally.GroupClass, tally.GroupLane} {
			m.Counts[group] = rapid.MapOfN(name, rapid.MapOfN(counter, rapid.Int64Range(1, math.MaxInt64/100), 0, 5), 0, 3).Draw(t, group)
		}
		if group := m.Counts[tally.GroupStart]; group != nil {
			delete(group, "lane0") // names of starts are lane|class
			delete(group, "a.b")
			delete(group, "other")
		}
		for _, counts := range m.Counts[tally.GroupAdmission] {
			for c := range counts {
				if !strings.Contains(c, "|") { // names are decision|tier
					delete(counts, c)
				}
			}
		}
		var out bytes.Buffer
		if err := New(&out, "N").Emit(context.Background(), m); err != nil {
			t.Fatal(err)
		}
		if _, err := read(s, out.Bytes()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWriterSplitsAndRefuses(t *testing.T) {
	var out bytes.Buffer
	w := &writer{out: &out, namespace: "N"}
	many := make([]value, 250)
	for i := range many {
		many[i] = value{OldestAge, float64(i)}
	}
	if err := w.line(1, []string{DimLane}, []string{"a"}, many); err != nil {
		t.Fatal(err)
	}
	if lines, err := read(schema(t), out.Bytes()); err != nil || len(lines) != 3 {
		t.Errorf("%d lines for 250 metrics, %v", len(lines), err)
	}
	for name, err := range map[string]error{
		"too many values":   w.line(1, []string{DimLane, DimClass}, []string{"a", "b"}, []value{{TaskStartDelay, make([]float64, 101)}}),
		"no values":         w.line(1, []string{DimLane, DimClass}, []string{"a", "b"}, []value{{TaskStartDelay, []float64{}}}),
		"unknown metric":    w.line(1, []string{DimLane}, []string{"a"}, []value{{"x", 1.0}}),
		"other dimensions":  w.line(1, []string{DimClass}, []string{"a"}, []value{{OldestAge, 1.0}}),
		"an empty value":    w.line(1, []string{DimLane}, []string{""}, []value{{OldestAge, 1.0}}),
		"no number":         w.line(1, []string{DimLane}, []string{"a"}, []value{{OldestAge, math.NaN()}}),
		"no dimension":      w.line(1, nil, nil, []value{{OldestAge, 1.0}}),
		"a value too few":   w.line(1, []string{DimLane}, nil, []value{{OldestAge, 1.0}}),
		"a failing writer":  (&writer{out: broken{}, namespace: "N"}).line(1, []string{DimLane}, []string{"a"}, []value{{OldestAge, 1.0}}),
		"an endless string": w.line(1, []string{DimLane}, []string{strings.Repeat("x", 2000)}, []value{{OldestAge, 1.0}}),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, os.ErrClosed }

// TestNoTenantIsADimension: a label per tenant would cost by the tenant.
func TestNoTenantIsADimension(t *testing.T) {
	names := map[string]bool{}
	for _, m := range Metrics {
		if names[m.Name] {
			t.Errorf("%s is declared twice", m.Name)
		}
		names[m.Name] = true
		if len(m.Dimensions) == 0 || m.Meaning == "" || m.Unit == "" {
			t.Errorf("%s lacks a dimension, meaning or unit", m.Name)
		}
		for _, d := range m.Dimensions {
			if d == "tenant" || d == "tenant_id" {
				t.Errorf("%s has the dimension %s", m.Name, d)
			}
		}
	}
}

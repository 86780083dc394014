package telemetry

import (
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/aggregate"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
)

// Emitter writes each of the aggregator's reports as lines of metrics.
type Emitter struct{ w *writer }

var _ aggregate.Metrics = (*Emitter)(nil)

// New makes an emitter for a CloudWatch namespace; out is the standard output
// of a function.
func New(out io.Writer, namespace string) *Emitter {
	return &Emitter{&writer{out: out, namespace: namespace}}
}

// Emit implements aggregate.Metrics. What alarms look at is emitted every
// minute, zeros too; the rest where something happened, which keeps unused
// series free of charge.
func (e *Emitter) Emit(_ context.Context, m aggregate.Minute) error {
	var errs []error
	line := func(dims, labels []string, values ...value) {
		errs = append(errs, e.w.line(m.AtMS, dims, labels, values))
	}
	lanes := m.Counts[tally.GroupLane]
	for _, l := range m.Lanes {
		line([]string{DimLane}, []string{l.Name}, laneValues(l, lanes[l.Name])...)
	}
	for class, counts := range sorted(m.Counts[tally.GroupAdmission]) {
		for attr, n := range sorted(counts) {
			decision, tier, _ := strings.Cut(attr, "|")
			line([]string{DimDecision, DimClass, DimTier}, []string{decision, class, tier}, value{AdmissionTotal, float64(n)})
		}
	}
	var level, ratio, starts float64
	for name, counts := range sorted(m.Counts[tally.GroupStart]) {
		lane, class, _ := strings.Cut(name, "|")
		level += float64(counts["err.level"])
		ratio += float64(counts["err.ratio"])
		starts += float64(counts["err.n"])
		if sample := sample(counts, tally.SeriesDelay); sample != nil {
			line([]string{DimLane, DimClass}, []string{lane, class}, value{TaskStartDelay, sample})
		}
	}
	if starts > 0 {
		line([]string{DimMethod}, []string{MethodLevel}, value{PredictionError, level / 1000 / starts})
		line([]string{DimMethod}, []string{MethodRatio}, value{PredictionError, ratio / 1000 / starts})
	}
	for class, counts := range sorted(m.Counts[tally.GroupClass]) {
		if sample := sample(counts, tally.SeriesService); sample != nil {
			line([]string{DimClass}, []string{class}, value{ServiceTime, sample})
		}
	}
	misses := map[string]int64{}
	for _, counts := range lanes {
		for _, stage := range policy.MissStages {
			misses[stage] += counts["miss."+stage]
		}
	}
	for _, stage := range policy.MissStages {
		line([]string{DimStage}, []string{stage}, value{DeadlineMissTotal, float64(misses[stage])})
	}
	system := m.Counts[tally.GroupSystem]
	line([]string{DimComponent}, []string{ComponentAggregator}, value{AggregatorLateness, seconds(m.LatenessMS)}, value{LedgerDrift, float64(system[tally.Ledgers]["repaired"])},
		value{LaneMoves, float64(system[tally.Places][tally.Moved])}, value{LaneMovesBlocked, float64(system[tally.Places][tally.Blocked])})
	return errors.Join(errs...)
}

func laneValues(l aggregate.LaneNow, counts map[string]int64) []value {
	values := []value{
		{EstimatedWork, seconds(l.WorkMS)},
		{OldestAge, seconds(l.OldestMS)},
		{OldestMessageAge, seconds(l.QueuedMS)},
		{BacklogAgeP95, seconds(l.BacklogP95MS)},
		{InflightCount, float64(l.Running)},
		{WorkerBusyRatio, float64(l.Running) / float64(max(l.Slots, 1))},
		{RetryCount, float64(counts["retries"])},
		{DLQInflow, float64(counts["dead"] + counts["dead.unreadable"])},
		{QuarantineInflow, float64(counts["quarantined"])},
		{LaneRepairs, float64(counts["repaired"])},
	}
	if l.DeadLetters >= 0 {
		values = append(values, value{DLQCount, float64(l.DeadLetters)})
	}
	values = append(values, value{HeadOfLine, headOfLine(l, counts)})
	for _, h := range []struct {
		series        string
		p50, p95, p99 string
	}{{tally.SeriesDelay, QueueWaitP50, QueueWaitP95, QueueWaitP99}, {tally.SeriesService, ProcessP50, ProcessP95, ProcessP99}} {
		if bins, total := tally.Bins(counts, h.series); total > 0 {
			values = append(values, value{h.p50, math.Round(tally.InBins(bins, total, 0.50))},
				value{h.p95, math.Round(tally.InBins(bins, total, 0.95))}, value{h.p99, math.Round(tally.InBins(bins, total, 0.99))})
		}
	}
	return values
}

// headOfLine is 1 where short tasks seem to wait behind long ones: starts are
// later than promised, or much later than usual and not negligibly late.
func headOfLine(l aggregate.LaneNow, counts map[string]int64) float64 {
	p95, n := tally.Quantile(counts, tally.SeriesDelay, 0.95)
	target, usual := float64(l.TargetMS), float64(l.UsualMS)
	if n > 0 && (p95 > target || usual > 0 && p95 > 3*usual && p95 > target/10) {
		return 1
	}
	return 0
}

// sample are at most MaxValues values, in seconds, with a histogram's distribution, in
// which CloudWatch finds the percentiles; nil when there is nothing.
func sample(counts map[string]int64, series string) []float64 {
	bins, total := tally.Bins(counts, series)
	if total == 0 {
		return nil
	}
	n := int(min(total, MaxValues))
	values := make([]float64, n)
	for i := range values {
		ms := tally.InBins(bins, total, (float64(i)+0.5)/float64(n))
		values[i] = math.Round(ms) / 1000
	}
	return values
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

// sorted gives a map's entries in order of their keys, so that equal reports give equal lines.
func sorted[V any](m map[string]V) func(func(string, V) bool) {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

package demo

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/prom"
)

// countersWithin is how long the server's counters may take to include the last start.
const countersWithin = 10 * time.Second

// report prints what came of the predictions.
func (b *burst) report(ctx context.Context) {
	text, err := b.classTable(ctx)
	if err != nil {
		text = fmt.Sprintf("no figures: %v\n", err)
	}
	missed, accepted := b.missed()
	byDeadline, wouldHaveMade, byBudget := b.refused()
	b.printf("\n%s\n", text)
	b.printf("accepted tasks that missed their deadline: %d of %d\n", missed, accepted)
	b.printf("refused for their deadline that would have made it: %d of %d (refused for a budget: %d)\n", wouldHaveMade, byDeadline, byBudget)
}

// classTable has a line per class. The errors are the server's own sums over all starts.
func (b *burst) classTable(ctx context.Context) (string, error) {
	delays := map[string][]int64{}
	predicted := map[string]int64{}
	started := 0
	for _, t := range b.sent {
		if !t.accepted() || t.task.StartedAt == 0 {
			continue
		}
		started++
		c := t.request.Class
		delays[c] = append(delays[c], int64(t.task.StartedAt-t.task.SubmittedAt))
		predicted[c] += int64(t.task.Prediction.Wait)
	}
	m, err := b.counters(ctx, started)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	row := func(cells ...string) { _, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) }
	row("class", "started", "start delay p50", "p95", "predicted, mean", "mean |error| of the level", "of Q/c")
	for _, c := range []string{long, short} {
		d := delays[c]
		if len(d) == 0 {
			row(c, "0")
			continue
		}
		slices.Sort(d)
		label := prom.L("lane", pool, "task_class", c)
		n, _ := m.Value("lanekeeper_started_total", label...)
		row(c, strconv.Itoa(len(d)), seconds(percentile(d, 50)), seconds(percentile(d, 95)), seconds(predicted[c]/int64(len(d))),
			meanError(m, "water_level", n, label...), meanError(m, "queue_by_slots", n, label...))
	}
	if err := w.Flush(); err != nil {
		return "", err
	}
	n := m.Sum("lanekeeper_started_total")
	if n < float64(started) {
		_, _ = fmt.Fprintf(&text, "(errors over the %g starts that the server has counted)\n", n)
	}
	return text.String(), nil
}

// counters reads the metrics once they include so many starts, or as they are in the end.
func (b *burst) counters(ctx context.Context, started int) (prom.Families, error) {
	for end := b.cfg.Now().Add(countersWithin); ; {
		m, err := b.client.metrics(ctx)
		if err != nil || m.Sum("lanekeeper_started_total") >= float64(started) || b.cfg.Now().After(end) {
			return m, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func meanError(m prom.Families, method string, n float64, label ...prom.Label) string {
	sum, ok := m.Value("lanekeeper_prediction_error_seconds_total", append(prom.L("method", method), label...)...)
	if !ok || n == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.2f s", sum/n)
}

func seconds(ms int64) string { return fmt.Sprintf("%.2f s", float64(ms)/1000) }

// percentile is the nearest-rank percentile of sorted values, percent being 1 to 100.
func percentile(sorted []int64, percent int) int64 {
	return sorted[(len(sorted)*percent+99)/100-1]
}

// missed counts the accepted tasks that did not succeed before their deadline.
func (b *burst) missed() (missed, accepted int) {
	for _, t := range b.sent {
		if !t.accepted() {
			continue
		}
		accepted++
		if t.task.State != events.StateSucceeded || t.task.FinishedAt > t.task.DeadlineAt {
			missed++
		}
	}
	return missed, accepted
}

// refused counts the refusals for a deadline, those among them that would have made it, and the refusals for a
// budget, which are no prediction.
func (b *burst) refused() (byDeadline, wouldHaveMade, byBudget int) {
	for _, t := range b.sent {
		if t.accepted() {
			continue
		}
		if t.problem.Code != events.RejectDeadline {
			byBudget++
			continue
		}
		byDeadline++
		if took, ok := b.comparable(t); ok && took < int64(t.request.Within) {
			wouldHaveMade++
		}
	}
	return byDeadline, wouldHaveMade, byBudget
}

// comparable is the time from submission to end of the accepted task of the same class that was submitted closest in
// time to a refused one, in milliseconds.
func (b *burst) comparable(refused *sent) (int64, bool) {
	var took, nearest int64
	found := false
	for _, t := range b.sent {
		if !t.accepted() || t.request.Class != refused.request.Class || t.task.State != events.StateSucceeded {
			continue
		}
		apart := int64(t.task.SubmittedAt) - refused.answeredMS
		if apart = max(apart, -apart); !found || apart < nearest {
			found, nearest, took = true, apart, int64(t.task.FinishedAt-t.task.SubmittedAt)
		}
	}
	return took, found
}

package fair

import (
	"fmt"
	"io"
	"math"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

// Report prints a line per figure and counts.
type Report struct {
	Out            io.Writer
	Passed, Failed int
}

func (r *Report) head() {
	_, _ = fmt.Fprintf(r.Out, "%-5s %-62s %-26s %-30s %s\n", "", "", "figure", "bound", "without the mechanism")
}

func (r *Report) line(ok bool, name, figure, bound, off string) {
	verdict := "ok"
	if ok {
		r.Passed++
	} else {
		verdict = "FAIL"
		r.Failed++
	}
	r.print(verdict, name, figure, bound, off)
}

func (r *Report) print(verdict, name, figure, bound, off string) {
	_, _ = fmt.Fprintf(r.Out, "%-5s %-62s %-26s %-30s %s\n", verdict, name, figure, bound, off)
}

// figure prints a line that has no bound; it is not counted.
func (r *Report) figure(name, figure, note, off string) {
	_, _ = fmt.Fprintf(r.Out, "%-5s %-62s %-26s %-30s %s\n", "", name, figure, note, off)
}

// End prints the last line.
func (r *Report) End() { _, _ = fmt.Fprintf(r.Out, "fair: %d passed, %d failed\n", r.Passed, r.Failed) }

// Play plays all loads; with short only those that take a second or two.
func (r *Report) Play(t *testing.T, short bool) {
	r.head()
	r.cancelled(t)
	r.sharding(t)
	r.flood(t)
	r.units(t)
	r.outage(t, short)
	r.byTier(t)
	r.learning(t)
	if short {
		r.order(t, 50, 10)
	} else {
		r.order(t, 1000, 20)
		r.hog(t)
		r.weights(t)
		r.low(t)
		r.handOver(t)
		r.realTime(t.Context(), minutes)
	}
	r.End()
}

// play runs a load in a world of its own.
func play(t *testing.T, cfg *policy.Config, off without, load func(w *world)) (w *world) {
	synctest.Test(t, func(*testing.T) {
		w = newWorld(cfg, 1, off)
		load(w)
		w.end()
	})
	return w
}

// staged is a load for a world.
func staged(l load) func(w *world) { return func(w *world) { l.play(w.stage) } }

func quantile(v []int64, q float64) int64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Clone(v)
	slices.Sort(v)
	return v[min(int(q*float64(len(v))), len(v)-1)]
}

func seconds(ms int64) string { return fmt.Sprintf("%.3f s", float64(ms)/1000) }

func percent(f float64) string { return fmt.Sprintf("%.1f %%", 100*f) }

// slotMS is how long spans held slots between two times.
func slotMS(spans []*span, from, to int64) (sum int64) {
	for _, s := range spans {
		end := s.ended
		if end == 0 {
			end = to
		}
		sum += max(min(end, to)-max(s.began, from), 0)
	}
	return sum
}

func of(tenant string) func(*span) bool { return func(s *span) bool { return s.t.Tenant == tenant } }

// within are first attempts of the tenants (empty: of all) that came in a time.
func within(from, to int64, tenants ...string) func(*span) bool {
	return func(s *span) bool {
		return s.t.Attempt == 1 && s.came >= from && s.came < to && (len(tenants) == 0 || slices.Contains(tenants, s.t.Tenant))
	}
}

// relativeError is the mean absolute error of predicted waits over the mean wait.
func relativeError(spans []*span, predicted func(*span) int64) float64 {
	var wrong, waited float64
	for _, s := range spans {
		wrong += math.Abs(float64(predicted(s) - s.delay()))
		waited += float64(s.delay())
	}
	return wrong / math.Max(waited, 1)
}

func ratio(a, b int64) float64 { return float64(a) / math.Max(float64(b), 1) }

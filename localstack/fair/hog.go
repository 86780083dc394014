package fair

import (
	"fmt"
	"testing"
	"time"
)

// How long the hog's load is: it submits hogTasks as fast as it can, then what
// begins is replaced. Figures are taken from hogFrom to hogTo.
const (
	hogTasks = 2000
	hogFrom  = 60_000
	hogTo    = 400_000
)

var quiet = []string{"t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"}

// hogLoad is one tenant with hogTasks waiting and nine with a task now and then.
func hogLoad(hog bool) func(w *world) {
	return func(w *world) {
		if hog {
			for range 3 { // clients
				w.backlog(hogTo, hogTasks, "t0", func() { w.submit("t0", "unit", "", w.about(time.Second)) })
			}
		}
		for _, tenant := range quiet {
			w.nowAndThen(hogTo, 20*time.Second, func() {
				w.submit(tenant, "unit", "", w.about(time.Second))
			})
		}
		w.sleepUntil(hogTo + 5000)
	}
}

// hog: quiet tenants do not feel one that has thousands of tasks waiting, and
// are told so when they submit.
func (r *Report) hog(t *testing.T) {
	cfg := config()
	alone := play(t, cfg, without{}, hogLoad(false))
	on := play(t, cfg, without{}, hogLoad(true))
	off := play(t, cfg, without{order: true, prediction: true}, hogLoad(true))

	p95 := func(w *world) int64 { return quantile(w.delays(hogFrom, hogTo, quiet...), 0.95) }
	bound := max(p95(alone)*3/2, 50+quantile(on.firstFree("work", on.log(within(hogFrom, hogTo, quiet...))), 0.95))
	r.line(p95(on) <= bound, "hog of 2,000 waiting: quiet tenants' p95 start delay", seconds(p95(on)),
		fmt.Sprintf("<= %s (first free slot's p95 + 50 ms)", seconds(bound)), seconds(p95(off)))
	done := func(w *world) int {
		return len(w.log(func(s *span) bool { return s.ended >= hogFrom && s.ended < hogTo }))
	}
	share := float64(done(on)) / float64(done(off))
	r.line(share >= 0.95 && share <= 1.05, "hog of 2,000 waiting: total throughput", fmt.Sprintf("%d tasks (%s)", done(on), percent(share)), "95 to 105 %", fmt.Sprintf("%d tasks", done(off)))

	plain := play(t, cfg, without{prediction: true}, hogLoad(true))
	r.errors(on, plain)
}

// errors compares the predictions of the hog's load: fair, plain water level
// (both under the fair schedule) and Q/c.
func (r *Report) errors(on, plain *world) {
	wait := func(s *span) int64 { return s.t.Prediction.WaitMS }
	for _, who := range []struct {
		name     string
		from, to int64
		tenants  []string
	}{{"quiet tenants", hogFrom, hogTo, quiet}, {"all tenants", 20_000, hogFrom, nil}} { // the hog's own begin within the run if they came by then
		in := within(who.from, who.to, who.tenants...)
		a, b, c := relativeError(on.log(in), wait), relativeError(plain.log(in), wait), relativeError(on.log(in), func(s *span) int64 { return s.t.Prediction.RatioMS })
		r.line(a <= c/3 && a <= b/2, "hog of 2,000 waiting: prediction error / mean wait, "+who.name, fmt.Sprintf("%.3f", a),
			fmt.Sprintf("<= Q/c's %.3f / 3, level's %.3f / 2", c, b), fmt.Sprintf("%.3f", b))
	}
}

// cancelled: a tenant that cancelled 2,000 waiting tasks is served like one that
// never had them.
func (r *Report) cancelled(t *testing.T) {
	load := func(w *world) {
		w.backlog(200_000, 100, "t0", func() { w.submit("t0", "unit", "", time.Second) })
		w.sleepUntil(5000)
		var ids []string
		for range hogTasks {
			ids = append(ids, w.submit("t1", "unit", "", time.Second))
		}
		for _, id := range ids {
			w.cancel("t1", id)
		}
		begin := w.sinceMS() + 5000
		w.sleepUntil(begin)
		for _, tenant := range []string{"t1", "t2"} {
			w.nowAndThen(begin+100_000, 2*time.Second, func() { w.submit(tenant, "unit", "", time.Second) })
		}
		w.sleepUntil(begin + 130_000)
	}
	p95 := func(w *world, tenant string) int64 { return quantile(w.delays(w.lastCancel+1, 1<<60, tenant), 0.95) }
	on, off := play(t, config(), without{}, load), play(t, config(), without{refunds: true}, load)
	a, b := p95(on, "t1"), p95(on, "t2")
	r.line(a <= b*3/2+50, "2,000 waiting tasks cancelled: p95 start delay afterwards", seconds(a), fmt.Sprintf("<= 1.5 × %s + 50 ms (a tenant without)", seconds(b)), seconds(p95(off, "t1")))
}

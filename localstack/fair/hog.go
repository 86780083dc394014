package fair

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// How long the hog's load is on the virtual clock: it submits hogTasks as fast as it
// can, then what begins is replaced. Figures are taken from hogFrom to hogTo.
const (
	hogTasks = 2000
	hogFrom  = 60_000
	hogTo    = 400_000
)

var quiet = []string{"t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"}

// hogLoad is one tenant with a backlog and nine with a task now and then.
type hogLoad struct {
	tasks, clients int           // the hog's backlog (0: no hog), and how many submit it
	fill           bool          // the others come only once it is there
	service, every time.Duration // of all tasks; between two of a quiet tenant
	lead, window   int64         // ms before the figures begin, and that they are taken for
}

// play plays it; figures are taken for the window that begins at the stage's from.
func (l hogLoad) play(s *stage) {
	for range l.clients {
		if l.tasks > 0 {
			s.backlog(forever, l.tasks, "t0", func() { s.submit("t0", "unit", "", s.about(l.service)) })
		}
	}
	if l.fill {
		s.awaitBacklog("t0", l.tasks)
	}
	s.from = s.sinceMS() + l.lead
	for _, tenant := range quiet {
		s.nowAndThen(s.from+l.window, l.every, func() { s.submit(tenant, "unit", "", s.about(l.service)) })
	}
	s.sleepUntil(s.from + l.window + 5*l.service.Milliseconds())
}

// quietP95 is the quiet tenants' p95 start delay.
func (l hogLoad) quietP95(s *stage) int64 {
	return quantile(s.delays(s.from, s.from+l.window, quiet...), 0.95)
}

// bound is what it may be: 1.5 × what it is without the hog, or p95 of the first slot to come free and 50 ms.
func (l hogLoad) bound(alone, on *stage) int64 {
	return max(l.quietP95(alone)*3/2, 50+quantile(on.firstFree("work", on.log(within(on.from, on.from+l.window, quiet...))), 0.95))
}

// done is how many tasks ended in the window.
func (l hogLoad) done(s *stage) int {
	return len(s.log(func(x *span) bool { return x.ended >= s.from && x.ended < s.from+l.window }))
}

// hog: quiet tenants do not feel one that has thousands of tasks waiting, and
// are told so when they submit.
func (r *Report) hog(t *testing.T) {
	cfg := config()
	load := hogLoad{tasks: hogTasks, clients: 3, service: time.Second, every: 20 * time.Second, lead: hogFrom, window: hogTo - hogFrom}
	quietOnly := load
	quietOnly.tasks = 0
	alone := play(t, cfg, without{}, staged(quietOnly))
	on := play(t, cfg, without{}, staged(load))
	off := play(t, cfg, without{order: true, prediction: true}, staged(load))

	p95, bound := load.quietP95(on.stage), load.bound(alone.stage, on.stage)
	r.line(p95 <= bound, "hog of 2,000 waiting: quiet tenants' p95 start delay", seconds(p95),
		fmt.Sprintf("<= %s (first free slot's p95 + 50 ms)", seconds(bound)), seconds(load.quietP95(off.stage)))
	a, b := load.done(on.stage), load.done(off.stage)
	share := float64(a) / float64(b)
	r.line(share >= 0.95 && share <= 1.05, "hog of 2,000 waiting: total throughput", fmt.Sprintf("%d tasks (%s)", a, percent(share)), "95 to 105 %", fmt.Sprintf("%d tasks", b))

	plain := play(t, cfg, without{prediction: true}, staged(load))
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

// cancelLoad is a tenant, t1, that submits tasks behind t0's backlog, cancels them all, and
// goes on with a task now and then like t2, which never had any.
type cancelLoad struct {
	tasks, clients int
	service, every time.Duration
	pause, window  int64 // ms between cancelling and going on, and of going on
}

func (l cancelLoad) play(s *stage) {
	s.backlog(forever, 100, "t0", func() { s.submit("t0", "unit", "", l.service) })
	s.sleepUntil(5 * l.service.Milliseconds())
	ids := make([]string, l.tasks)
	share(l.clients, l.tasks, func(i int) { ids[i] = s.submit("t1", "unit", "", l.service) })
	share(l.clients, l.tasks, func(i int) { s.cancel("t1", ids[i]) })
	s.from = s.sinceMS() + l.pause
	s.sleepUntil(s.from)
	for _, tenant := range []string{"t1", "t2"} {
		s.nowAndThen(s.from+l.window, l.every, func() { s.submit(tenant, "unit", "", l.service) })
	}
	s.sleepUntil(s.from + l.window + 30*l.service.Milliseconds())
}

// p95 is a tenant's start delay after the last cancel.
func (l cancelLoad) p95(s *stage, tenant string) int64 {
	return quantile(s.delays(s.lastCancel+1, forever, tenant), 0.95)
}

// share has clients do n things, each its part of them one after another.
func share(clients, n int, do func(i int)) {
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := c; i < n; i += clients {
				do(i)
			}
		})
	}
	wg.Wait()
}

// cancelled: a tenant that cancelled 2,000 waiting tasks is served like one that
// never had them.
func (r *Report) cancelled(t *testing.T) {
	load := cancelLoad{tasks: hogTasks, clients: 1, service: time.Second, every: 2 * time.Second, pause: 5000, window: 100_000}
	on, off := play(t, config(), without{}, staged(load)), play(t, config(), without{refunds: true}, staged(load))
	a, b := load.p95(on.stage, "t1"), load.p95(on.stage, "t2")
	r.line(a <= b*3/2+50, "2,000 waiting tasks cancelled: p95 start delay afterwards", seconds(a), fmt.Sprintf("<= 1.5 × %s + 50 ms (a tenant without)", seconds(b)), seconds(load.p95(off.stage, "t1")))
}

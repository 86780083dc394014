package fair

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

// realScale says how large the loads in real time are.
type realScale struct {
	tasks   int   // that wait, of the hog and of the tenant that cancels
	window  int64 // ms of each figure
	service time.Duration
}

// minutes is what `make fair` plays: all the tasks, a fifth of their length.
var minutes = realScale{tasks: hogTasks, window: 15_000, service: 200 * time.Millisecond}

// realTime plays the first loads once more on the embedded engine: HTTP, SQLite, the mappings and the
// aggregator of `make run`, on this machine and its clock. What they show is printed and not judged:
// it depends on what else the machine does.
func (r *Report) realTime(ctx context.Context, scale realScale) {
	runs := &realRuns{ctx: ctx, r: r, cfg: realConfig(scale.service)}
	runs.hog(scale)
	runs.weights(scale)
	runs.cancelled(scale)
	runs.sharding(scale)
}

// realConfig expects of the tasks what they take.
func realConfig(service time.Duration) *policy.Config {
	prior := fmt.Sprintf("p50: %v, p95: %v", service, service)
	return config("p50: 1s, p95: 1s", prior, "KINDS", kindsOf(prior))
}

type realRuns struct {
	ctx  context.Context
	r    *Report
	cfg  *policy.Config
	said []string // faults of the runs of a figure
}

// play is playReal with its progress and its faults printed; nil: it could not be played.
func (p *realRuns) play(what string, off without, l load) *stage {
	_, _ = fmt.Fprintf(p.r.Out, "      in real time: %s …\n", what)
	s, err := playReal(p.ctx, p.cfg, off, l)
	if err != nil {
		p.said = append(p.said, fmt.Sprintf("%s: %v", what, err))
		return nil
	}
	for _, fault := range s.faults {
		p.said = append(p.said, what+": "+fault)
	}
	return s
}

// pair plays a load with the mechanism and without.
func (p *realRuns) pair(what string, off without, l load) (with, none *stage, ok bool) {
	with, none = p.play(what+", with the fair order", without{}, l), p.play(what+", without", off, l)
	return with, none, with != nil && none != nil
}

// line prints a figure, or what kept it from being taken.
func (p *realRuns) line(ok bool, name string, figures func() (figure, bound, off string)) {
	if ok {
		figure, bound, off := figures()
		p.r.print("real", name, figure, bound, off)
	} else {
		p.r.print("real", name, "not taken", "", "")
	}
	if len(p.said) > 0 {
		_, _ = fmt.Fprintf(p.r.Out, "      but: %s\n", strings.Join(p.said, "; "))
	}
	p.said = nil
}

var inOrder = without{order: true, prediction: true}

func (p *realRuns) hog(c realScale) {
	l := hogLoad{tasks: c.tasks, clients: 8, fill: true, service: c.service, every: 10 * c.service, lead: 2000, window: c.window}
	quietOnly := l
	quietOnly.tasks = 0
	quietOnly.fill = false
	what := fmt.Sprintf("hog of %d waiting", c.tasks)
	alone := p.play(what+", the quiet tenants alone", without{}, quietOnly)
	on, off, ok := p.pair(what, inOrder, l)
	p.line(ok && alone != nil, what+": quiet tenants' p95 start delay", func() (string, string, string) {
		return seconds(l.quietP95(on)), fmt.Sprintf("%s (first free slot's p95 + 50 ms)", seconds(l.bound(alone, on))), seconds(l.quietP95(off))
	})
	p.line(ok, what+": total throughput", func() (string, string, string) {
		a, b := l.done(on), l.done(off)
		return fmt.Sprintf("%d tasks (%s)", a, percent(ratio(int64(a), int64(b)))), "95 to 105 %", fmt.Sprintf("%d tasks", b)
	})
}

func (p *realRuns) weights(c realScale) {
	lead := c.window / 2 // until the backlogs stand
	l := threeLoad{lead + c.window, "unit", func(*stage) time.Duration { return c.service }}
	on, off, ok := p.pair("weights 3:1:1", inOrder, l)
	p.line(ok, fmt.Sprintf("weights 3:1:1, equal tasks: distance over %d s", c.window/1000), func() (string, string, string) {
		points := func(s *stage) string { return fmt.Sprintf("%.1f points", worst(s, lead, l.until, c.window)) }
		return points(on), "3 points (over 60 s)", points(off)
	})
}

func (p *realRuns) cancelled(c realScale) {
	l := cancelLoad{tasks: c.tasks, clients: 8, service: c.service, every: 2 * c.service, pause: 2000, window: c.window}
	what := fmt.Sprintf("%d waiting tasks cancelled", c.tasks)
	on, off, ok := p.pair(what, without{refunds: true}, l)
	p.line(ok, what+": p95 start delay afterwards", func() (string, string, string) {
		return seconds(l.p95(on, "t1")), fmt.Sprintf("1.5 × %s + 50 ms (a tenant without)", seconds(l.p95(on, "t2"))), seconds(l.p95(off, "t1"))
	})
}

func (p *realRuns) sharding(c realScale) {
	lead := c.window / 2
	l := shardLoad{until: lead + c.window, backlog: c.tasks / 2, clients: 4, keys: 10 * kinds, service: c.service}
	what := fmt.Sprintf("a hog split into %d keys, %d classes", l.keys, kinds)
	on, off, ok := p.pair(what, inOrder, l)
	p.line(ok, what+": its share", func() (string, string, string) {
		return percent(l.share(on, lead)), "50 ± 3 %", percent(l.share(off, lead))
	})
}

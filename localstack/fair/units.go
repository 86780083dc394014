package fair

import (
	"fmt"
	"testing"
	"time"
)

// units: what the order costs in write units, and what hand-over takes behind a
// long backlog.
func (r *Report) units(t *testing.T) {
	per := func(off without, load func(w *world)) float64 {
		w := play(t, config(), off, load)
		return w.wru / float64(w.accepted)
	}
	trickle := func(w *world) { // nobody waits
		for i := range 300 {
			w.submit(fmt.Sprintf("t%d", i%5), "unit", "", 300*time.Millisecond)
			time.Sleep(60 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
	}
	burst := func(w *world) { // everybody waits
		for i := range 600 {
			w.submit(fmt.Sprintf("t%d", i%5), "unit", "", 500*time.Millisecond)
		}
		time.Sleep(35 * time.Second)
	}
	fifo := without{order: true, prediction: true}
	a, b := per(without{}, trickle), per(fifo, trickle)
	r.line(a-b <= 0.3, "write units of a task that did not wait", fmt.Sprintf("%.2f (+%.2f)", a, a-b), "<= + 0.3", fmt.Sprintf("%.2f", b))
	a, b = per(without{}, burst), per(fifo, burst)
	r.line(a-b <= 4, "write units of a task that waited", fmt.Sprintf("%.2f (+%.2f)", a, a-b), "<= + 4", fmt.Sprintf("%.2f", b))
}

// handOver: the next task begins as soon behind 10,000 waiting as behind 100.
func (r *Report) handOver(t *testing.T) {
	gap := func(waiting int) int64 {
		w := play(t, config(), without{}, func(w *world) {
			for range 8 {
				w.wg.Go(func() {
					for range waiting / 8 {
						w.submit("t0", "unit", "", 20*time.Second)
					}
				})
			}
			w.sleepUntil(max(int64(waiting)*4, 30_000))
			time.Sleep(100 * time.Second)
		})
		// What the slots were idle for, in the last 100 s, per start.
		to := w.sinceEnd
		starts := w.log(func(s *span) bool { return s.began >= to-100_000 })
		return (10*100_000 - slotMS(w.log(of("t0")), to-100_000, to)) / int64(max(len(starts), 1))
	}
	few, many := gap(100), gap(10_000)
	r.line(ratio(many, few) <= 1.5, "hand-over behind 10,000 waiting tasks: idle time of a slot", seconds(many), fmt.Sprintf("<= 1.5 × %s (behind 100)", seconds(few)), "")
}

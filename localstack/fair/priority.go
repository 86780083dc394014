package fair

import (
	"fmt"
	"testing"
	"time"
)

// flood: heavy work beside critical work, and low priority beside high.
func (r *Report) flood(t *testing.T) {
	load := func(flood bool) func(w *world) {
		return func(w *world) {
			if flood {
				w.wg.Go(func() {
					for range 100 {
						w.submit("t0", "big", "", time.Minute)
					}
				})
			}
			w.nowAndThen(180_000, 250*time.Millisecond, func() { w.submit("t1", "urgent", "", 200*time.Millisecond) })
			w.sleepUntil(185_000)
		}
	}
	p95 := func(w *world) int64 { return quantile(w.delays(20_000, 180_000, "t1"), 0.95) }
	alone, on := p95(play(t, config(), without{}, load(false))), p95(play(t, config(), without{}, load(true)))
	// Without: the same work in one lane, in order of submission.
	off := p95(play(t, config("HEAVY", "critical"), without{order: true, prediction: true}, load(true)))
	bound := max(alone*11/10, alone+50)
	r.line(on <= bound, "flood of 100 × 60 s beside critical work: its p95 start delay", seconds(on), fmt.Sprintf("<= %s (alone %s)", seconds(bound), seconds(alone)), seconds(off))

	grows := func(w *world) {
		w.nowAndThen(180_000, 80*time.Millisecond, func() { w.submit("t0", "unit", "low", time.Second) })
		w.nowAndThen(180_000, 300*time.Millisecond, func() { w.submit("t1", "unit", "high", time.Second) })
		w.sleepUntil(185_000)
	}
	high := func(w *world) int64 { return quantile(w.delays(60_000, 180_000, "t1"), 0.95) }
	got, fifo := high(play(t, config(), without{}, grows)), high(play(t, config(), without{order: true, prediction: true}, grows))
	lane, _ := config().Lane("work")
	target := lane.SLO.QueueWaitP95.MS() / 2
	r.line(got < target, "low priority's backlog grows: high priority's p95 wait", seconds(got), fmt.Sprintf("< %s (half its target)", seconds(target)), seconds(fifo))
}

package fair

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/intake"
)

// three are a tenant of weight 3 and two of weight 1 with constant backlogs.
func three(until int64, class string, service func(w *world) time.Duration) func(w *world) {
	return func(w *world) {
		for _, tenant := range []string{"gold", "t0", "t1"} {
			w.backlog(until, 100, tenant, func() { w.submit(tenant, class, "", service(w)) })
		}
		w.sleepUntil(until)
	}
}

// off is the largest distance of a share from 60/20/20 in any window, in points.
func worst(w *world, from, to, window int64) (points float64) {
	for at := from; at+window <= to; at += window / 6 {
		var held [3]int64
		for i, tenant := range []string{"gold", "t0", "t1"} {
			held[i] = slotMS(w.log(of(tenant)), at, at+window)
		}
		total := held[0] + held[1] + held[2]
		for i, want := range []float64{0.6, 0.2, 0.2} {
			points = math.Max(points, 100*math.Abs(ratio(held[i], total)-want))
		}
	}
	return points
}

// weights: slots go by weight.
func (r *Report) weights(t *testing.T) {
	equal := func(*world) time.Duration { return time.Second }
	var got [2]float64
	for i, off := range []without{{}, {order: true, prediction: true}} {
		got[i] = worst(play(t, config(), off, three(240_000, "unit", equal)), 60_000, 240_000, 60_000)
	}
	r.line(got[0] <= 3, "weights 3:1:1, equal tasks: worst distance in any 60 s", fmt.Sprintf("%.1f points", got[0]), "<= 3 points", fmt.Sprintf("%.1f points", got[1]))
	// Heavy-tailed: log-normal, median 0.4 s, mean 1.2 s, some a minute long.
	tail := func(w *world) time.Duration {
		return time.Duration(min(400*math.Exp(1.5*w.normal()), 60_000)) * time.Millisecond
	}
	for i, off := range []without{{}, {order: true, prediction: true}} {
		got[i] = worst(play(t, config(), off, three(720_000, "tail", tail)), 60_000, 720_000, 600_000)
	}
	r.line(got[0] <= 3, "weights 3:1:1, heavy-tailed tasks: worst distance in any 10 min", fmt.Sprintf("%.1f points", got[0]), "<= 3 points", fmt.Sprintf("%.1f points", got[1]))
}

// sharding: splitting a backlog over classes, and over classes and ordering keys together, gains
// nothing. Tasks of a key run one after another; of 1,000 that wait ten stand behind each other in each
// of 100 keys, so that there are always more eligible ones than slots.
func (r *Report) sharding(t *testing.T) {
	r.split(t, "a hog split into 10 classes against one tenant: its share", func(w *world, i int) {
		w.submit("t0", fmt.Sprintf("k%d", i%kinds), "", time.Second)
	})
	r.split(t, "a hog split into 100 ordering keys and 10 classes: its share", func(w *world, i int) {
		w.submit("t0", fmt.Sprintf("k%d", (i+i/100)%kinds), "", time.Second, func(s *intake.Submission) { s.OrderingKey = fmt.Sprint("key ", i%100) })
	})
}

// split plays a hog that keeps 1,000 tasks waiting, the i-th submitted by hog, against a tenant with 100.
func (r *Report) split(t *testing.T, name string, hog func(w *world, i int)) {
	load := func(w *world) {
		w.backlog(200_000, 100, "t1", func() { w.submit("t1", "unit", "", time.Second) })
		w.wg.Go(func() {
			for i := 0; w.sinceMS() < 200_000; i++ {
				w.mu.Lock()
				have := w.waiting["t0"]
				w.mu.Unlock()
				if have >= 1000 {
					time.Sleep(50 * time.Millisecond)
					continue
				}
				hog(w, i)
			}
		})
		w.sleepUntil(200_000)
	}
	share := func(off without) float64 {
		w := play(t, config(), off, load)
		a, b := slotMS(w.log(of("t0")), 60_000, 200_000), slotMS(w.log(of("t1")), 60_000, 200_000)
		return ratio(a, a+b)
	}
	on, off := share(without{}), share(without{order: true, prediction: true})
	r.line(math.Abs(on-0.5) <= 0.03, name, percent(on), "50 ± 3 %", percent(off))
}

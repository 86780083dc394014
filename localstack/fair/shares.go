package fair

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/intake"
)

// threeLoad is a tenant of weight 3 and two of weight 1 with constant backlogs.
type threeLoad struct {
	until   int64
	class   string
	service func(s *stage) time.Duration
}

func (l threeLoad) play(s *stage) {
	for _, tenant := range []string{"gold", "t0", "t1"} {
		s.backlog(l.until, 100, tenant, func() { s.submit(tenant, l.class, "", l.service(s)) })
	}
	s.sleepUntil(l.until)
}

// worst is the largest distance of a share from 60/20/20 in any window, in points.
func worst(s *stage, from, to, window int64) (points float64) {
	for at := from; at+window <= to; at += window / 6 {
		var held [3]int64
		for i, tenant := range []string{"gold", "t0", "t1"} {
			held[i] = slotMS(s.log(of(tenant)), at, at+window)
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
	equal := func(*stage) time.Duration { return time.Second }
	var got [2]float64
	for i, off := range []without{{}, {order: true, prediction: true}} {
		got[i] = worst(play(t, config(), off, staged(threeLoad{240_000, "unit", equal})).stage, 60_000, 240_000, 60_000)
	}
	r.line(got[0] <= 3, "weights 3:1:1, equal tasks: worst distance in any 60 s", fmt.Sprintf("%.1f points", got[0]), "<= 3 points", fmt.Sprintf("%.1f points", got[1]))
	// Heavy-tailed: log-normal, median 0.4 s, mean 1.2 s, some a minute long.
	tail := func(s *stage) time.Duration {
		return time.Duration(min(400*math.Exp(1.5*s.normal()), 60_000)) * time.Millisecond
	}
	for i, off := range []without{{}, {order: true, prediction: true}} {
		got[i] = worst(play(t, config(), off, staged(threeLoad{720_000, "tail", tail})).stage, 60_000, 720_000, 600_000)
	}
	r.line(got[0] <= 3, "weights 3:1:1, heavy-tailed tasks: worst distance in any 10 min", fmt.Sprintf("%.1f points", got[0]), "<= 3 points", fmt.Sprintf("%.1f points", got[1]))
}

// shardLoad is a hog, t0, that splits its backlog over kinds classes, and over ordering keys
// if there are any, against t1, which does not.
type shardLoad struct {
	until   int64
	backlog int // of the hog; t1 has 100
	clients int // that submit it
	keys    int // 0: none
	service time.Duration
}

func (l shardLoad) play(s *stage) {
	s.backlog(l.until, 100, "t1", func() { s.submit("t1", "unit", "", l.service) })
	var n atomic.Int64
	for range l.clients {
		s.backlog(l.until, l.backlog, "t0", func() {
			i := n.Add(1)
			s.submit("t0", fmt.Sprintf("k%d", (i+i/100)%kinds), "", l.service, func(x *intake.Submission) {
				if l.keys > 0 {
					x.OrderingKey = fmt.Sprintf("key %d", i%int64(l.keys))
				}
			})
		})
	}
	s.sleepUntil(l.until)
}

// share is the hog's, from a time on.
func (l shardLoad) share(s *stage, from int64) float64 {
	a, b := slotMS(s.log(of("t0")), from, l.until), slotMS(s.log(of("t1")), from, l.until)
	return ratio(a, a+b)
}

// sharding: splitting a backlog over classes, and over classes and ordering keys together, gains
// nothing. Tasks of a key run one after another; of 1,000 that wait ten stand behind each other in each
// of 100 keys, so that there are always more eligible ones than slots.
func (r *Report) sharding(t *testing.T) {
	load := shardLoad{until: 200_000, backlog: 1000, clients: 1, service: time.Second}
	r.split(t, "a hog split into 10 classes against one tenant: its share", load)
	load.keys = 100
	r.split(t, "a hog split into 100 ordering keys and 10 classes: its share", load)
}

func (r *Report) split(t *testing.T, name string, load shardLoad) {
	share := func(off without) float64 {
		return load.share(play(t, config(), off, staged(load)).stage, 60_000)
	}
	on, off := share(without{}), share(without{order: true, prediction: true})
	r.line(math.Abs(on-0.5) <= 0.03, name, percent(on), "50 ± 3 %", percent(off))
}

package admission

import (
	"fmt"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/estimate"
	"github.com/lanekeeper/lanekeeper/pkg/wait"
)

// world is what an admission instance holds in memory: 30 lanes of 20 workers, 1,000 classes with their estimates.
type world struct {
	lanes   map[string]*LaneView
	classes map[string]*class
	tenant  *TenantView
	names   []string
}

type class struct {
	lane string
	est  estimate.Estimate
}

func newWorld() *world {
	w := &world{lanes: map[string]*LaneView{}, classes: map[string]*class{}}
	for i := range 30 {
		var residuals []int64
		for j := range 15 {
			residuals = append(residuals, int64((i*31+j*977)%20_000))
		}
		name := fmt.Sprintf("lane-%02d", i)
		w.lanes[name] = &LaneView{Name: name, Workers: 20, Slots: 20, WorkMS: int64(i) * 5_000, EnteredMS: 1 << 40,
			MaxWorkMS: 600_000, Free: wait.Slots(nil, residuals, 20)}
	}
	for i := range 1000 {
		name := fmt.Sprintf("class.%d/large", i)
		w.names = append(w.names, name)
		w.classes[name] = &class{fmt.Sprintf("lane-%02d", i%30),
			estimate.FromPrior(estimate.Prior{P50MS: int64(100 + i), P95MS: int64(400 + 4*i)}, 300_000)}
	}
	w.tenant = &TenantView{WorkMS: 20_000, EnteredMS: 1 << 30, LimitMS: 120_000, DayLimitMS: 7_200_000, DayWorkMS: 100_000,
		Free: wait.Slots(nil, []int64{900, 4_000}, 4)}
	return w
}

func (w *world) decide(i int) Decision {
	c := w.classes[w.names[i%len(w.names)]]
	return Decide(Request{
		AmountMS: c.est.AmountMS(), P95MS: c.est.P95MS, MarginMS: 500, DeadlineMS: int64(1_000 + i*7919%1000*20),
		MaxWaitMS: 8_000, Samples: c.est.Samples,
	}, w.lanes[c.lane], w.tenant)
}

func TestDecideDoesNotAllocate(t *testing.T) {
	w := newWorld()
	var codes = map[Code]int{Accept: 0, RejectDeadline: 0, DeadlineInfeasible: 0, RejectLaneBacklog: 0}
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		d := w.decide(i)
		codes[d.Code]++
		i++
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
	for code, n := range codes {
		if n == 0 {
			t.Errorf("the benchmark never reaches %s", code)
		}
	}
}

// BenchmarkDecide looks up class and lane and decides, with 30 lanes and 1,000 classes. The goal is under 1 µs.
func BenchmarkDecide(b *testing.B) {
	w := newWorld()
	accepted := 0
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if d := w.decide(i); d.Accepted() {
			accepted++
		}
	}
	b.ReportMetric(float64(accepted)/float64(b.N), "accepted/op")
}

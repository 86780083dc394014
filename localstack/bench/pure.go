package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/admission"
	"github.com/lanekeeper/lanekeeper/pkg/belief"
	"github.com/lanekeeper/lanekeeper/pkg/hist"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/wait"
)

// timing is what one call of something costs.
type timing struct {
	ns     float64
	allocs int64
	bytes  int64
}

func (t timing) String() string {
	return fmt.Sprintf("%s  %d allocs  %d B", short(time.Duration(t.ns)), t.allocs, t.bytes)
}

// measure times f, which performs n calls.
func measure(f func(n int)) timing {
	r := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		f(b.N)
	})
	return timing{ns: float64(r.T.Nanoseconds()) / float64(max(r.N, 1)), allocs: r.AllocsPerOp(), bytes: r.AllocedBytesPerOp()}
}

// world is what an admission instance holds in memory.
type world struct {
	cfg    *policy.Config
	book   *belief.Book
	lanes  map[string]*admission.LaneView
	tenant *admission.TenantView
	hints  []map[string]int64
}

const worldLanes, worldClasses = 30, 1000

func newWorld() (*world, error) {
	cfg, err := manyClasses(worldLanes, worldClasses)
	if err != nil {
		return nil, err
	}
	w := &world{cfg: cfg, book: belief.FromConfig(cfg), lanes: map[string]*admission.LaneView{},
		hints: []map[string]int64{nil, {"rows": 10}, {"rows": 5000}}}
	for i, name := range cfg.LaneNames() {
		workers := cfg.Workers(name)
		var residuals []int64
		for j := range workers - 5 {
			residuals = append(residuals, int64((i*31+j*977)%20_000))
		}
		w.lanes[name] = &admission.LaneView{Name: name, Workers: workers, Slots: workers, WorkMS: int64(i) * 5_000,
			EnteredMS: 1 << 40, MaxWorkMS: 600_000, Free: wait.Slots(nil, residuals, workers)}
	}
	w.tenant = &admission.TenantView{WorkMS: 20_000, EnteredMS: 1 << 30, LimitMS: 120_000, DayWorkMS: 100_000, DayLimitMS: 7_200_000,
		Free: wait.Slots(nil, []int64{900, 4_000}, 4)}
	return w, nil
}

// decide does for submission i all that is pure: class and hints to bucket and
// lane, the estimate, and the decision with its guards and retry guidance.
func (w *world) decide(i int) admission.Decision {
	names := w.cfg.ClassNames()
	class := names[i%len(names)]
	bucket, lane, _, _, err := w.cfg.Classify(class, w.hints[i%len(w.hints)])
	if err != nil {
		panic(err) // the class comes from the configuration itself
	}
	est := w.book.Get(class, bucket)
	return admission.Decide(admission.Request{
		AmountMS: est.AmountMS(), P95MS: est.P95MS, MarginMS: 500, DeadlineMS: int64(1_000 + i*7919%1000*20),
		MaxWaitMS: 8_000, Samples: est.Samples,
	}, w.lanes[lane], w.tenant)
}

func pureSection(r *report) (timing, error) {
	w, err := newWorld()
	if err != nil {
		return timing{}, err
	}
	codes := map[admission.Code]int{}
	for i := range 3 * worldClasses {
		codes[w.decide(i).Code]++
	}
	accepted := 0
	decide := measure(func(n int) {
		for i := range n {
			if d := w.decide(i); d.Accepted() {
				accepted++
			}
		}
	})
	r.section(fmt.Sprintf("pure functions (%d lanes, %d classes of 2 buckets)", worldLanes, worldClasses))
	r.row("decision: classify, estimate, level, guards", decide.String(), goal("< 1µs, 0 allocs", decide.ns < 1000 && decide.allocs == 0))
	r.row("  of which accepted", fmt.Sprintf("%d of %d, %d codes met", codes[admission.Accept], 3*worldClasses, len(codes)), "")
	var bins, other hist.Bins
	add := measure(func(n int) {
		for i := range n {
			bins.Add(int64(i*7919%3_600_000), 1)
		}
	})
	for i := range int64(100_000) {
		other.Add(i*37, 1)
	}
	merge := measure(func(n int) {
		for range n {
			bins.Merge(&other)
		}
	})
	r.row("bin update", add.String(), "")
	r.row("bin merge (714 bins)", merge.String(), "")
	if accepted == 0 || bins.Count() == 0 {
		return timing{}, fmt.Errorf("nothing was measured: %d accepted, %d counted", accepted, bins.Count())
	}
	return decide, nil
}

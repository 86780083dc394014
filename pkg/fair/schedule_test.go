package fair_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/fair"
	"github.com/lanekeeper/lanekeeper/pkg/wait"
)

// The exact schedule: slots, tenants with weights, tasks in order of their keys.
type job struct {
	tenant, at, amount, rank int
	tag, cost, key, bound    int64
	ahead                    int64 // predicted level, if nobody came after it
	began                    int64
}

type lane struct {
	weights []float64
	finish  []int64
	virtual int64
	free    []int64 // when each slot is free
	queue   []*job
}

func (l *lane) enter(j *job, loads []fair.Load) {
	now := int64(j.at)
	w := l.weights[j.tenant]
	j.tag = fair.Start(l.virtual, l.finish[j.tenant])
	j.cost = fair.Cost(int64(j.amount), w)
	l.finish[j.tenant] = j.tag + j.cost
	j.key = j.tag + fair.Shift(j.rank)
	var residual int64
	free := make([]int64, 0, len(l.free))
	for _, f := range l.free {
		free = append(free, max(f-now, 0))
		residual += max(f-now, 0)
	}
	slices.Sort(free)
	j.bound = now + fair.Bound(j.tag, l.virtual, fair.Shift(j.rank), fair.Shift(0), loads, residual, len(l.free))
	var entries []fair.Entry
	var total int64
	for _, q := range l.queue {
		entries = append(entries, fair.Entry{Key: q.key, AmountMS: int64(q.amount)})
		total += int64(q.amount)
	}
	s := fair.Summarise(entries, total, 0, l.virtual, now)
	j.ahead = now + wait.Level(free, s.Ahead(j.key, fair.Now{WorkMS: total, Virtual: l.virtual}))
	l.queue = append(l.queue, j)
}

// run begins what can begin before a time.
func (l *lane) run(until int64) {
	for len(l.queue) > 0 {
		slot := 0
		for i := range l.free {
			if l.free[i] < l.free[slot] {
				slot = i
			}
		}
		at := l.free[slot]
		for _, j := range l.queue { // nobody begins before the first is there
			at = max(at, int64(j.at))
			break
		}
		if at >= until {
			return
		}
		next := slices.MinFunc(l.queue, func(a, b *job) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.at, b.at)) })
		at = max(at, int64(next.at))
		if at >= until {
			return
		}
		next.began = at
		l.free[slot] = at + int64(next.amount)
		l.queue = slices.DeleteFunc(l.queue, func(j *job) bool { return j == next })
		if len(l.queue) == 0 {
			l.virtual = max(l.virtual, next.tag)
		} else {
			l.virtual = max(l.virtual, fair.Virtual(next.tag, fair.Shift(next.rank)))
		}
	}
}

// TestBoundAgainstTheSchedule: whatever comes, before or after it, every task
// begins within its bound.
func TestBoundAgainstTheSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "tenants")
		l := &lane{finish: make([]int64, n), free: make([]int64, rapid.IntRange(1, 6).Draw(t, "slots"))}
		mix := rapid.Bool().Draw(t, "mixed priorities")
		largest, ranks := make([]int64, n), make([]int, n)
		for i := range n {
			l.weights = append(l.weights, float64(rapid.IntRange(1, 5).Draw(t, "weight")))
			ranks[i] = rapid.IntRange(0, 3).Draw(t, "rank")
		}
		var jobs []*job
		at := 0
		for range rapid.IntRange(1, 200).Draw(t, "jobs") {
			at += rapid.SampledFrom([]int{0, 0, 0, 10, 500, 5000}).Draw(t, "gap")
			j := &job{tenant: rapid.IntRange(0, n-1).Draw(t, "tenant"), at: at, amount: rapid.SampledFrom([]int{1, 100, 1000, 1000, 20_000}).Draw(t, "amount")}
			j.rank = ranks[j.tenant]
			if mix {
				j.rank = rapid.IntRange(0, 3).Draw(t, "own rank")
			}
			largest[j.tenant] = max(largest[j.tenant], int64(j.amount))
			jobs = append(jobs, j)
		}
		loads := make([]fair.Load, n)
		for i := range n {
			loads[i] = fair.Load{Weight: l.weights[i], LargestMS: largest[i]}
			if mix {
				loads[i].SpreadMS = fair.Shift(3) - fair.Shift(0)
			}
		}
		for _, j := range jobs {
			l.run(int64(j.at))
			l.enter(j, loads)
		}
		l.run(1 << 60)
		for _, j := range jobs {
			if j.began > j.bound {
				t.Fatalf("tenant %d of rank %d came at %d with tag %d and began at %d, after its bound of %d", j.tenant, j.rank, j.at, j.tag, j.began, j.bound)
			}
		}
	})
}

// TestPredictionAgainstTheSchedule: the water level over what stands before a
// key is never below the exact schedule, if nobody comes after it.
func TestPredictionAgainstTheSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "tenants")
		l := &lane{finish: make([]int64, n), free: make([]int64, rapid.IntRange(1, 6).Draw(t, "slots"))}
		for range n {
			l.weights = append(l.weights, float64(rapid.IntRange(1, 5).Draw(t, "weight")))
		}
		for i := range l.free {
			l.free[i] = rapid.Int64Range(0, 20_000).Draw(t, "residual")
		}
		var last *job
		for range rapid.IntRange(1, 80).Draw(t, "jobs") {
			last = &job{tenant: rapid.IntRange(0, n-1).Draw(t, "tenant"), amount: rapid.SampledFrom([]int{1, 100, 1000, 20_000}).Draw(t, "amount"), rank: rapid.IntRange(0, 3).Draw(t, "rank")}
			l.enter(last, nil)
		}
		l.run(1 << 60)
		if last.began > last.ahead {
			t.Fatalf("predicted %d, began at %d", last.ahead, last.began)
		}
	})
}

// TestSharesFollowTheWeights: with constant backlogs the work begun is in
// proportion to the weights, whatever the priorities and the sizes.
func TestSharesFollowTheWeights(t *testing.T) {
	l := &lane{weights: []float64{3, 1, 1}, finish: make([]int64, 3), free: make([]int64, 10)}
	sizes := [][]int{{1000}, {200, 5000, 50}, {700, 900}}
	ranks := []int{3, 1, 2}
	done, waiting, n := make([]int64, 3), make([]int, 3), 0
	enter := func(tenant int, at int64) {
		n++
		l.enter(&job{tenant: tenant, at: int(at), amount: sizes[tenant][n%len(sizes[tenant])], rank: ranks[tenant]}, nil)
	}
	for tenant := range 3 {
		for range 100 {
			enter(tenant, 0)
		}
	}
	const length = 10 * 60_000
	for now := int64(0); now < length; now += 50 {
		before := slices.Clone(l.queue)
		l.run(now)
		for _, j := range before {
			if !slices.Contains(l.queue, j) {
				waiting[j.tenant]++
				if now > 120_000 { // past the head start of the priorities
					done[j.tenant] += int64(j.amount)
				}
			}
		}
		for tenant := range 3 {
			for ; waiting[tenant] > 0; waiting[tenant]-- {
				enter(tenant, now)
			}
		}
	}
	total := done[0] + done[1] + done[2]
	for tenant, want := range []float64{0.6, 0.2, 0.2} {
		if got := float64(done[tenant]) / float64(total); got < want-0.01 || got > want+0.01 {
			t.Errorf("tenant %d: share %.3f, want %.2f", tenant, got, want)
		}
	}
}

// TestPredictionFromAnOldSnapshot: what has begun since the snapshot is known by
// the virtual time; the prediction is still not below the schedule.
func TestPredictionFromAnOldSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "tenants")
		l := &lane{finish: make([]int64, n), free: make([]int64, rapid.IntRange(1, 4).Draw(t, "slots"))}
		for range n {
			l.weights = append(l.weights, float64(rapid.IntRange(1, 5).Draw(t, "weight")))
		}
		next := func(at int64) *job {
			return &job{tenant: rapid.IntRange(0, n-1).Draw(t, "tenant"), at: int(at), amount: rapid.SampledFrom([]int{1, 100, 1000, 20_000}).Draw(t, "amount"), rank: rapid.IntRange(0, 3).Draw(t, "rank")}
		}
		now := int64(0)
		for range rapid.IntRange(0, 40).Draw(t, "jobs") {
			l.enter(next(now), nil)
		}
		now = rapid.Int64Range(0, 5000).Draw(t, "begun by then")
		l.run(now)
		var entries []fair.Entry
		var waiting int64
		for _, q := range l.queue {
			entries = append(entries, fair.Entry{Key: q.key, AmountMS: int64(q.amount)})
			waiting += int64(q.amount)
		}
		s := fair.Summarise(entries, waiting, 0, l.virtual, now)
		var entered int64
		for range rapid.IntRange(0, 10).Draw(t, "more") {
			now += rapid.Int64Range(0, 1000).Draw(t, "gap")
			l.run(now)
			j := next(now)
			entered += int64(j.amount)
			l.enter(j, nil)
		}
		now += rapid.Int64Range(0, 5000).Draw(t, "later")
		l.run(now)
		last := next(now)
		waiting = 0
		for _, q := range l.queue {
			waiting += int64(q.amount)
		}
		var free []int64
		for _, f := range l.free {
			free = append(free, max(f-now, 0))
		}
		slices.Sort(free)
		virtual := l.virtual
		l.enter(last, nil)
		predicted := now + wait.Level(free, s.Ahead(last.key, fair.Now{WorkMS: waiting, EnteredMS: entered, Virtual: virtual}))
		l.run(1 << 60)
		if last.began > predicted {
			t.Fatalf("predicted %d, began at %d", predicted, last.began)
		}
	})
}

package estimate

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/hist"
)

func ExampleLearn() {
	prior := Prior{P50MS: 3_000, P95MS: 12_000}
	var done hist.Bins
	fmt.Println(FromPrior(prior, 300_000).P95MS)
	for range 20 {
		done.Add(1_000, 1)
	}
	e := Learn(&done, &done, nil, prior, 300_000)
	fmt.Println(e.Samples, e.MeanMS, e.P95MS)
	// Output:
	// 12000
	// 20 1336 1642
}

func TestPriorMean(t *testing.T) {
	for _, c := range []struct {
		prior Prior
		want  int64
	}{
		{Prior{3_000, 12_000}, 4_279}, // σ = 0.8427
		{Prior{1_000, 1_000}, 1_000}, {Prior{1_000, 10}, 1_000}, {Prior{0, 0}, 1}, {Prior{-5, -9}, 1},
		{Prior{1, math.MaxInt64}, math.MaxInt64},
	} {
		if got := c.prior.MeanMS(); got != c.want {
			t.Errorf("%+v: mean %d, want %d", c.prior, got, c.want)
		}
	}
}

func TestFromPriorIsTheLognormal(t *testing.T) {
	p := Prior{3_000, 12_000}
	e := FromPrior(p, 0)
	if e.Learned || e.Samples != 0 || e.P50MS != 3_000 || e.P95MS != 12_000 {
		t.Fatalf("%+v", e)
	}
	if got := p.quantileMS(0.5); got != 3_000 {
		t.Errorf("median %d", got)
	}
	if got := p.quantileMS(0.95); math.Abs(float64(got-12_000)) > 5 {
		t.Errorf("p95 %d", got)
	}
	// The mean of the points is below the true mean only by what the top strip hides.
	var sum int64
	for _, q := range e.Quantiles {
		sum += q
	}
	if mean := sum / Points; mean < e.MeanMS*90/100 || mean > e.MeanMS {
		t.Errorf("mean of points %d, mean %d", mean, e.MeanMS)
	}
	capped := FromPrior(p, 5_000)
	if capped.P95MS != 5_000 || capped.Quantiles[Points-1] != 5_000 || capped.P50MS != 3_000 {
		t.Errorf("cap: %+v", capped)
	}
}

func TestLearnTakesPlainQuantilesWithoutCensoring(t *testing.T) {
	var b hist.Bins
	for ms := int64(1); ms <= 60; ms++ {
		b.Add(ms, 1000)
	}
	e := Learn(&b, &b, nil, Prior{30, 57}, 0)
	if e.P50MS != 30 || e.P95MS != 57 || e.Quantiles[0] != 2 || e.Quantiles[19] != 59 || e.MeanMS < 30 || e.MeanMS > 31 {
		t.Fatalf("%+v", e)
	}
}

// The textbook case, computed by hand: ends at 10, 20, 30, 40 and one attempt still running at 25. S falls by 1/5 at 10
// and 20, then by halves of what is left: masses 0.2, 0.2, 0.3, 0.3.
func TestProductLimitByHand(t *testing.T) {
	var b hist.Bins
	for _, ms := range []int64{10, 20, 30, 40} {
		b.Add(ms, 1)
	}
	c := productLimit(&b, []int64{25})
	want := []float64{0.2, 0.2, 0.3, 0.3}
	if !slices.Equal(c.at, []int64{10, 20, 30, 40}) {
		t.Fatalf("at %v", c.at)
	}
	for i, m := range c.mass {
		if math.Abs(m-want[i]) > 1e-12 {
			t.Fatalf("masses %v, want %v", c.mass, want)
		}
	}
	if c.mean() != 27 { // 2 + 4 + 9 + 12
		t.Fatalf("mean %d", c.mean())
	}
	// An age equal to an end is still at risk there; one beyond all ends carries the rest.
	c = productLimit(&b, []int64{10, 50})
	if c.at[4] != 50 || math.Abs(c.mass[0]-1.0/6) > 1e-12 || math.Abs(c.mass[4]-(5.0/6)/4) > 1e-12 {
		t.Fatalf("%+v", c)
	}
}

func TestRunningAttemptsRaiseTheEstimateAndNeverCountAsEnded(t *testing.T) {
	prior := Prior{1_000, 1_500}
	var b hist.Bins
	b.Add(1_000, 40)
	alone := Learn(&b, &b, nil, prior, 0)
	young := Learn(&b, &b, []int64{1, 2, 3, 4, 5, 6, 7, 8}, prior, 0)
	if young != alone {
		t.Errorf("young running attempts change the estimate: %+v, %+v", young, alone)
	}
	stuck := Learn(&b, &b, []int64{60_000, 60_000, 60_000, 60_000}, prior, 0)
	if stuck.P95MS < 20_000 || stuck.MeanMS <= alone.MeanMS || stuck.P50MS > alone.P50MS+50 {
		t.Errorf("four stuck attempts in 44: %+v", stuck)
	}
	if stuck.Samples != 40 {
		t.Errorf("samples %d", stuck.Samples)
	}
	// Nothing has ended yet, and one attempt is far past the prior.
	first := Learn(nil, nil, []int64{100_000}, prior, 0)
	if !first.Learned || first.P95MS <= 1_500 {
		t.Errorf("%+v", first)
	}
	if got := Learn(nil, nil, []int64{5}, prior, 0); got != FromPrior(prior, 0) {
		t.Errorf("a young attempt alone changes the prior: %+v", got)
	}
}

func TestFailuresCountForSlotsAndNotForDeadlines(t *testing.T) {
	var ok, all hist.Bins
	ok.Add(1_000, 50)
	all.Merge(&ok)
	all.Add(30_000, 50)
	e := Learn(&ok, &all, nil, Prior{1_000, 1_000}, 0)
	if e.P95MS > 1_020 || e.MeanMS < 10_000 || e.Quantiles[Points-1] < 20_000 {
		t.Fatalf("%+v", e)
	}
}

func TestShrinkageFades(t *testing.T) {
	prior := Prior{10_000, 10_000}
	last := int64(math.MaxInt64)
	for _, n := range []int64{0, 1, 5, 20, 1_000, 1_000_000} {
		var b hist.Bins
		b.Add(100, n)
		e := Learn(&b, &b, nil, prior, 0)
		if e.P50MS >= last && n > 0 {
			t.Errorf("n = %d: p50 %d, not below %d", n, e.P50MS, last)
		}
		last = e.P50MS
		if n == PriorWeight && (e.P50MS < 990 || e.P50MS > 1_010) {
			t.Errorf("at n = k, p50 %d is not the geometric middle", e.P50MS)
		}
	}
	if last > 101 {
		t.Errorf("the prior never fades: %d", last)
	}
}

func TestLearnKeepsItsBounds(t *testing.T) {
	ms := rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(0, hist.MaxMS), rapid.Int64())
	rapid.Check(t, func(t *rapid.T) {
		bins := func(label string) *hist.Bins {
			var b hist.Bins
			for _, v := range rapid.SliceOfN(ms, 0, 20).Draw(t, label) {
				b.Add(v, rapid.Int64Range(1, 5).Draw(t, "n"))
			}
			return &b
		}
		prior := Prior{ms.Draw(t, "p50"), ms.Draw(t, "p95")}
		capMS := ms.Draw(t, "cap")
		ages := rapid.SliceOfN(ms, 0, 8).Draw(t, "ages")
		before := slices.Clone(ages)
		success, occupancy := bins("success"), bins("occupancy")
		e := Learn(success, occupancy, ages, prior, capMS)
		if !slices.Equal(ages, before) {
			t.Fatal("the caller's ages were reordered")
		}
		top := capMS
		if top <= 0 {
			top = math.MaxInt64
		}
		figures := append([]int64{e.MeanMS, e.P50MS, e.P95MS}, e.Quantiles[:]...)
		if slices.Min(figures) < 1 || slices.Max(figures) > top || e.P50MS > e.P95MS || !slices.IsSorted(e.Quantiles[:]) {
			t.Fatalf("%+v", e)
		}
		// An older running attempt never lowers what deadlines are judged by.
		if len(ages) > 0 {
			older := slices.Clone(ages)
			i := rapid.IntRange(0, len(ages)-1).Draw(t, "i")
			older[i] = max(older[i], ms.Draw(t, "older"))
			if o := Learn(success, occupancy, older, prior, capMS); o.P95MS < e.P95MS*98/100-1 && sameCount(ages, older, prior) {
				t.Fatalf("ages %v: p95 %d; ages %v: p95 %d", ages, e.P95MS, older, o.P95MS)
			}
		}
		left := ms.Draw(t, "left")
		if r := e.ResidualMS(ms.Draw(t, "age"), left); r < 0 || r > max(left, 0) {
			t.Fatalf("residual %d with %d left", r, left)
		}
	})
}

// sameCount reports whether the same number of ages outlive the prior's median, so that the weights are equal.
func sameCount(a, b []int64, p Prior) bool {
	count := func(ages []int64) (n int) {
		for _, v := range ages {
			if v > max(p.P50MS, 1) {
				n++
			}
		}
		return n
	}
	return count(a) == count(b)
}

func TestResidual(t *testing.T) {
	var e Estimate
	for i := range e.Quantiles {
		e.Quantiles[i] = int64(i+1) * 100 // 100 … 2000
	}
	steady := FromPrior(Prior{60_000, 60_000}, 0)
	zero := Estimate{}
	for _, c := range []struct {
		name           string
		e              *Estimate
		age, left, got int64
	}{
		{"fresh", &e, 0, 9_999, 1_050},
		{"half way", &e, 1_000, 9_999, 550},
		{"just before the last point", &e, 1_999, 9_999, 1},
		{"past the last point", &e, 2_000, 9_999, 450},
		{"late is late once more", &e, 5_000, 9_999, 3_000},
		{"the timeout bounds it", &e, 5_000, 700, 700},
		{"nothing left", &e, 5_000, -1, 0},
		{"a clock behind the start", &e, -50, 9_999, 1_050},
		{"a steady class a little late", &steady, 60_100, 600_000, 1_202},
		{"nothing known", &zero, 0, 600_000, 600_000},
		{"the oldest age there is", &e, math.MaxInt64, math.MaxInt64, math.MaxInt64 - 2_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.e.ResidualMS(c.age, c.left); got != c.got {
				t.Fatalf("residual %d, want %d", got, c.got)
			}
		})
	}
	if n := testing.AllocsPerRun(100, func() { e.ResidualMS(700, 5_000) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestMoved(t *testing.T) {
	base := Estimate{MeanMS: 1_000, P50MS: 39, P95MS: 2_000}
	for _, c := range []struct {
		next Estimate
		want bool
	}{
		{base, false},
		{Estimate{MeanMS: 1_050, P50MS: 39, P95MS: 2_000}, false},
		{Estimate{MeanMS: 1_051, P50MS: 39, P95MS: 2_000}, true},
		{Estimate{MeanMS: 949, P50MS: 39, P95MS: 2_000}, true},
		{Estimate{MeanMS: 1_000, P50MS: 40, P95MS: 2_000}, false},
		{Estimate{MeanMS: 1_000, P50MS: 41, P95MS: 2_000}, true},
		{Estimate{MeanMS: 1_000, P50MS: 39, P95MS: 1_899}, true},
		{Estimate{MeanMS: 1_000, P50MS: 39, P95MS: 2_000, Samples: 99}, false},
	} {
		if got := Moved(&base, &c.next); got != c.want {
			t.Errorf("%+v: %v", c.next, got)
		}
	}
	if !Moved(&Estimate{}, &base) || !Moved(&Estimate{MeanMS: 1}, &Estimate{MeanMS: math.MaxInt64}) {
		t.Error("extremes")
	}
}

func TestAmountIsNeverZero(t *testing.T) {
	if got := (&Estimate{}).AmountMS(); got != 1 {
		t.Fatalf("amount %d", got)
	}
}

func TestJSONIsCompactAndRoundTrips(t *testing.T) {
	e := FromPrior(Prior{120_000, 360_000}, 900_000)
	e.Learned, e.Samples = true, 1_234
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 230 {
		t.Errorf("%d bytes: %s", len(raw), raw)
	}
	var back Estimate
	if err := json.Unmarshal(raw, &back); err != nil || back != e {
		t.Fatalf("%v: %+v", err, back)
	}
}

func BenchmarkResidual(b *testing.B) {
	e := FromPrior(Prior{3_000, 12_000}, 0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e.ResidualMS(int64(i&0x3fff), 30_000)
	}
}

func BenchmarkLearn(b *testing.B) {
	var bins hist.Bins
	for i := int64(0); i < 10_000; i++ {
		bins.Add(i*37%60_000, 1)
	}
	ages := []int64{100, 5_000, 20_000}
	b.ReportAllocs()
	for b.Loop() {
		Learn(&bins, &bins, ages, Prior{3_000, 12_000}, 300_000)
	}
}

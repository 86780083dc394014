package hist

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestIndexesAreFrozen holds the mapping to values written down once: stored bins depend on it.
func TestIndexesAreFrozen(t *testing.T) {
	for _, c := range []struct {
		ms    int64
		index int
		value int64
	}{
		{-5, 0, 0}, {0, 0, 0}, {1, 1, 1}, {31, 31, 31}, {63, 63, 63}, {64, 64, 64}, {65, 64, 64}, {66, 65, 66},
		{127, 95, 126}, {128, 96, 129}, {1000, 190, 999}, {60_000, 378, 59_903}, {3_600_000, 566, 3_571_711},
		{MaxMS, Max, 87_031_807}, {math.MaxInt64, Max, 87_031_807},
	} {
		if got := Index(c.ms); got != c.index {
			t.Errorf("Index(%d) = %d, want %d", c.ms, got, c.index)
		}
		if got := Value(c.index); got != c.value {
			t.Errorf("Value(%d) = %d, want %d", c.index, got, c.value)
		}
	}
	if Value(-1) != 0 || Value(Max+1) != Value(Max) {
		t.Error("an index outside the range is not taken as the nearest one")
	}
}

func TestBinsTileTheRange(t *testing.T) {
	next := int64(0)
	for i := 0; i <= Max; i++ {
		low, width := bounds(i)
		if low != next {
			t.Fatalf("bin %d begins at %d, want %d", i, low, next)
		}
		next = low + width
		for _, ms := range []int64{low, low + width - 1, Value(i)} {
			if got := Index(ms); got != i {
				t.Fatalf("Index(%d) = %d, want %d", ms, got, i)
			}
		}
	}
	if next <= MaxMS {
		t.Fatalf("the last bin ends at %d, before %d", next, MaxMS)
	}
}

func TestValueErrsByAtMostTwoPercent(t *testing.T) {
	check := func(ms int64) float64 { return math.Abs(float64(Value(Index(ms))-ms)) / float64(ms) }
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(1, MaxMS).Draw(t, "ms")
		if e := check(ms); e > 0.02 {
			t.Fatalf("%d ms is represented by %d: error %.4f", ms, Value(Index(ms)), e)
		}
		other := rapid.Int64Range(1, MaxMS).Draw(t, "other")
		if ms < other && Index(ms) > Index(other) {
			t.Fatalf("Index(%d) > Index(%d)", ms, other)
		}
	})
	for ms := int64(1); ms < 64; ms++ {
		if check(ms) != 0 {
			t.Errorf("%d ms is not exact", ms)
		}
	}
}

func drawBins(t *rapid.T, label string) (*Bins, []int64) {
	values := rapid.SliceOfN(rapid.Int64Range(0, MaxMS), 0, 50).Draw(t, label)
	b := new(Bins)
	for _, v := range values {
		b.Add(v, 1)
	}
	return b, values
}

func TestMergeEqualsAddingAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, av := drawBins(t, "a")
		b, bv := drawBins(t, "b")
		all := new(Bins)
		for _, v := range append(slices.Clone(av), bv...) {
			all.Add(v, 1)
		}
		a.Merge(b)
		if *a != *all {
			t.Fatal("merged bins differ from bins of all values")
		}
		again := new(Bins)
		a.ForEach(func(i int, n int64) {
			if !again.AddBin(i, n) {
				t.Fatalf("AddBin(%d, %d) refused", i, n)
			}
		})
		if *again != *a {
			t.Fatal("a round trip by ForEach and AddBin lost something")
		}
	})
}

func TestQuantileSumMeanAgainstExactValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, values := drawBins(t, "values")
		if len(values) == 0 {
			if b.Quantile(0.5) != 0 || b.Mean() != 0 || b.Sum() != 0 {
				t.Fatal("empty bins are not zero")
			}
			return
		}
		slices.Sort(values)
		p := rapid.Float64Range(0, 1).Draw(t, "p")
		rank := max(int(math.Ceil(p*float64(len(values)))), 1)
		near(t, "quantile", b.Quantile(p), values[rank-1])
		var sum int64
		for _, v := range values {
			sum += v
		}
		near(t, "sum", b.Sum(), sum)
		near(t, "mean", b.Mean(), sum/int64(len(values)))
		if b.Count() != int64(len(values)) {
			t.Fatalf("count %d, want %d", b.Count(), len(values))
		}
	})
}

func near(t *rapid.T, what string, got, want int64) {
	t.Helper()
	if math.Abs(float64(got-want)) > 0.02*float64(want)+1 {
		t.Fatalf("%s %d, want %d within 2 %%", what, got, want)
	}
}

func TestHostileInput(t *testing.T) {
	var b Bins
	b.Add(5, 0)
	b.Add(5, -3)
	if b.AddBin(-1, 1) || b.AddBin(Max+1, 1) || b.AddBin(3, 0) || b.Count() != 0 {
		t.Fatal("invalid additions were counted")
	}
	b.Add(7, math.MaxInt64)
	b.Add(7, math.MaxInt64)
	b.Add(MaxMS, math.MaxInt64)
	if b.Count() != math.MaxInt64 || b.Sum() != math.MaxInt64 || b.Quantile(0.5) != 7 {
		t.Fatalf("saturation: count %d sum %d p50 %d", b.Count(), b.Sum(), b.Quantile(0.5))
	}
	if got := b.Quantile(math.NaN()); got != 7 {
		t.Fatalf("Quantile(NaN) = %d, want the minimum", got)
	}
	b.Reset()
	b.Merge(nil)
	if b.Count() != 0 || (*Bins)(nil).Count() != 0 {
		t.Fatal("nil or reset bins are not empty")
	}
}

func FuzzIndex(f *testing.F) {
	for _, ms := range []int64{0, 1, 63, 64, 1 << 26, MaxMS, -1, math.MaxInt64} {
		f.Add(ms)
	}
	f.Fuzz(func(t *testing.T, ms int64) {
		i := Index(ms)
		if i < 0 || i > Max || Index(Value(i)) != i && i != Max {
			t.Fatalf("Index(%d) = %d, its value %d is in bin %d", ms, i, Value(i), Index(Value(i)))
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	var bins Bins
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		bins.Add(int64(i&0xfffff), 1)
	}
}

func BenchmarkMerge(b *testing.B) {
	var x, y Bins
	for i := int64(0); i < 10_000; i++ {
		y.Add(i*37%60_000, 1)
	}
	b.ReportAllocs()
	for b.Loop() {
		x.Merge(&y)
	}
}

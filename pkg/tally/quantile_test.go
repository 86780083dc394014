package tally

import (
	"testing"

	"pgregory.net/rapid"
)

func TestQuantile(t *testing.T) {
	counts := map[string]int64{"d.0": 90, "d.3": 10, "d.sum": 1}
	for q, want := range map[float64]float64{0.45: 5, 0.9: 10, 0.95: 75, 1: 100} {
		if got, n := Quantile(counts, "d", q); got != want || n != 100 {
			t.Errorf("q%g is %g of %d, want %g of 100", q, got, n, want)
		}
	}
	if got, n := Quantile(nil, "d", 0.5); got != 0 || n != 0 {
		t.Errorf("nothing gives %g of %d", got, n)
	}
	if got, _ := Quantile(map[string]int64{"d.15": 1}, "d", 0.5); got != float64(Bounds[len(Bounds)-1]) {
		t.Errorf("above all bounds: %g", got)
	}
}

func TestQuantilesRise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bins := rapid.SliceOfN(rapid.Int64Range(0, 1000), len(Bounds)+1, len(Bounds)+1).Draw(t, "bins")
		var total int64
		for _, n := range bins {
			total += n
		}
		last := 0.0
		for q := range 101 {
			v := InBins(bins, total, float64(q)/100)
			if v < last || v > float64(Bounds[len(Bounds)-1]) {
				t.Fatalf("q%d is %g after %g", q, v, last)
			}
			last = v
		}
	})
}

package estimate

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestLateBinsBoundWhatIsInThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(-10, 10*MarginMaxMS).Draw(t, "late")
		bound := LateMS(LateBin(ms))
		if bound < ms || ms <= 0 && bound != 0 || ms > 0 && float64(bound) > 1.2*float64(ms)+1 {
			t.Fatalf("%d ms are in a bin up to %d", ms, bound)
		}
		if later := rapid.Int64Range(ms, 20*MarginMaxMS).Draw(t, "later"); LateBin(later) < LateBin(ms) {
			t.Fatal("bins do not rise")
		}
	})
}

// TestMarginIsTheQuantileWithinItsBounds: enough starts, and it is at least the 95 % quantile
// and at most a fifth over it, unless a bound of the configured margin is met.
func TestMarginIsTheQuantileWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		configured := rapid.Int64Range(0, MarginMaxMS).Draw(t, "configured")
		list := rapid.SliceOfN(rapid.Int64Range(-1000, 100_000), 0, 200).Draw(t, "late")
		late := map[int]int64{}
		for _, ms := range list {
			late[LateBin(ms)]++
		}
		got := Margin(late, configured)
		if len(list) < MarginSamples {
			if got != configured {
				t.Fatalf("%d starts make %d of %d", len(list), got, configured)
			}
			return
		}
		slices.Sort(list)
		exact := max(list[(95*len(list)+99)/100-1], 0)
		low, high := min(max(exact, configured/2), MarginMost*configured, MarginMaxMS), max(exact+exact/5+1, configured/2)
		if got < low || got > high || got > MarginMost*configured || got > MarginMaxMS {
			t.Fatalf("margin %d, the quantile is %d, configured %d", got, exact, configured)
		}
		if configured == 0 && got != 0 {
			t.Fatal("a margin that is switched off came to life")
		}
		// Later starts never make it smaller.
		late[LateBin(list[0])]--
		late[LateBin(200_000)]++
		if worse := Margin(late, configured); worse < got {
			t.Fatalf("later starts lower the margin from %d to %d", got, worse)
		}
	})
}

func TestMarginOfUnknownBinsIsTheLargest(t *testing.T) {
	if got := Margin(map[int]int64{100_000: 60}, 1000); got != MarginMost*1000 {
		t.Errorf("margin %d", got)
	}
}

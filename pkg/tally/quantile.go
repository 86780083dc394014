package tally

import "github.com/lanekeeper/lanekeeper/pkg/taskop"

// SeriesDelay and SeriesService are the histograms with Bounds among the
// counters of a lane, of its starts and of a class: start delays and durations,
// in ms.
const (
	SeriesDelay   = "d"
	SeriesService = "s"
)

// Bins are the counts of a histogram with Bounds; the last is of what is above
// them all.
func Bins(counts map[string]int64, series string) (bins []int64, total int64) {
	bins = make([]int64, len(Bounds)+1)
	for i := range bins {
		bins[i] = max(0, counts[taskop.BinAttr(series, i)])
		total += bins[i]
	}
	return bins, total
}

// Quantile is the value, in ms, below which the share q of a histogram's
// observations lies, values being spread evenly inside a bin, and how many
// observations there are. It is at most the last bound.
func Quantile(counts map[string]int64, series string, q float64) (ms float64, total int64) {
	bins, total := Bins(counts, series)
	return InBins(bins, total, q), total
}

// InBins is Quantile for bins and their total; 0 if there are none.
func InBins(bins []int64, total int64, q float64) float64 {
	if total == 0 {
		return 0
	}
	rank, below := q*float64(total), 0.0
	for i, n := range bins {
		if n > 0 && below+float64(n) >= rank {
			return lower(i) + (upper(i)-lower(i))*max(0, rank-below)/float64(n)
		}
		below += float64(n)
	}
	return upper(len(bins) - 1)
}

func lower(i int) float64 {
	if i == 0 {
		return 0
	}
	return float64(Bounds[i-1])
}

func upper(i int) float64 { return float64(Bounds[min(i, len(Bounds)-1)]) }

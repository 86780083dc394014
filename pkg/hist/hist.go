// Package hist counts durations in bins of bounded relative error.
//
// It guarantees that a duration between 1 ms and 24 h is represented by its bin's value with an error of at most 2 %
// (exactly, below 64 ms), and that the index of a bin never changes: not between processes, processors or releases.
// The second matters because outcomes are merged in a table by adding to one attribute per bin, so that workers of
// adjacent versions write into the same bins. Indexes are therefore computed with integers only; logarithms in
// floating point may round differently on another processor.
//
// The scheme is the one of HDR histograms (http://hdrhistogram.org): each power of two is cut into 32 equal bins, so a
// bin's half width is at most 1/64 of its lower bound.
package hist

import (
	"math"
	"math/bits"
)

const (
	// MaxMS is the longest duration told apart, 24 hours. Longer ones are counted in the last bin.
	MaxMS int64 = 24 * 60 * 60 * 1000

	// Max is the index of the last bin, the one that holds MaxMS. Indexes run from 0 (for 0 ms) to Max.
	Max = 713

	// subBits is the logarithm of the number of bins in one power of two. Changing it changes every index ever
	// stored: don't.
	subBits = 5
)

// Index returns the bin of a duration in milliseconds. Durations below 0 fall into bin 0, those over 24 h into Max.
func Index(ms int64) int {
	if ms <= 0 {
		return 0
	}
	if ms >= MaxMS {
		return Max
	}
	if ms < 1<<(subBits+1) {
		return int(ms)
	}
	shift := bits.Len64(uint64(ms)) - 1 - subBits
	return shift<<subBits + int(ms>>shift)
}

// bounds returns the first duration of bin i and the number of durations it holds, for 0 <= i <= Max.
func bounds(i int) (low, width int64) {
	if i < 1<<(subBits+1) {
		return int64(i), 1
	}
	shift := i>>subBits - 1
	return int64(i-shift<<subBits) << shift, 1 << shift
}

// Value returns the duration in milliseconds that stands for bin i: the middle of the bin. An index outside 0 … Max is
// taken as the nearest one inside.
func Value(i int) int64 {
	low, width := bounds(min(max(i, 0), Max))
	return low + (width-1)/2
}

// Bins counts durations. The zero value is empty and ready to use. It is about 6 KB; pass it by pointer. It is not safe
// for use by several goroutines at once. Counts saturate at the largest int64.
type Bins struct {
	counts [Max + 1]int64
	n      int64
}

// Add counts a duration in milliseconds n times. Nothing happens when n <= 0.
func (b *Bins) Add(ms, n int64) {
	b.add(Index(ms), n)
}

// AddBin adds n to bin i, as read from a table, and reports whether it did: indexes outside 0 … Max and n <= 0 are
// ignored.
func (b *Bins) AddBin(i int, n int64) bool {
	if i < 0 || i > Max || n <= 0 {
		return false
	}
	b.add(i, n)
	return true
}

func (b *Bins) add(i int, n int64) {
	if n <= 0 {
		return
	}
	b.counts[i] = satAdd(b.counts[i], n)
	b.n = satAdd(b.n, n)
}

// Merge adds all counts of o; a nil o is empty.
func (b *Bins) Merge(o *Bins) {
	if o == nil || o.n == 0 {
		return
	}
	for i, n := range o.counts {
		if n != 0 {
			b.counts[i] = satAdd(b.counts[i], n)
		}
	}
	b.n = satAdd(b.n, o.n)
}

// Reset empties the bins.
func (b *Bins) Reset() { *b = Bins{} }

// Count returns the number of durations counted.
func (b *Bins) Count() int64 {
	if b == nil {
		return 0
	}
	return b.n
}

// Sum returns the sum of all durations in milliseconds as the bins represent them (within 2 %), saturating.
func (b *Bins) Sum() int64 {
	return toInt(b.sum())
}

func (b *Bins) sum() float64 {
	var s float64
	b.ForEach(func(i int, n int64) { s += float64(Value(i)) * float64(n) })
	return s
}

// Mean returns the mean in milliseconds, rounded (within 2 %); 0 when empty.
func (b *Bins) Mean() int64 {
	if b.Count() == 0 {
		return 0
	}
	return toInt(math.Round(b.sum() / float64(b.n)))
}

// Quantile returns the value of the bin that holds the p-quantile by the nearest-rank rule: the smallest value with at
// least p·Count() durations at or below its bin. p is taken into 0 … 1; 0 when empty.
func (b *Bins) Quantile(p float64) int64 {
	if b.Count() == 0 {
		return 0
	}
	if !(p > 0) {
		p = 0
	}
	rank := min(max(toInt(math.Ceil(min(p, 1)*float64(b.n))), 1), b.n)
	var seen int64
	for i, n := range b.counts {
		if seen = satAdd(seen, n); n > 0 && seen >= rank {
			return Value(i)
		}
	}
	return Value(Max)
}

// ForEach calls f for every bin that is not empty, by rising index.
func (b *Bins) ForEach(f func(i int, n int64)) {
	if b.Count() == 0 {
		return
	}
	for i, n := range b.counts {
		if n != 0 {
			f(i, n)
		}
	}
}

func satAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func toInt(f float64) int64 {
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(f)
}

// Package wait predicts how long work queued now will wait, as a water level.
//
// A lane (or a tenant) has slots; slot i becomes free in r_i milliseconds, 0 if it is free now. Work Q queued ahead is
// poured onto the slots, and the wait is the level it reaches: the t at which Σ max(0, t − r_i) = Q. With two slots
// that have just taken 60 s tasks and nothing queued the level says 60 s, where the plain Q / slots says 0.
//
// All arguments and results are whole milliseconds >= 0 (negative work counts as none). Nothing overflows: sums
// saturate at Infinite. Nothing allocates, but for Slots when its destination is too small. Lists of free times are
// sorted ascending, as Slots makes them.
//
// Level and Room are exact inverses: for every list, every q >= 0 and every level L,
//
//	Level(free, q) <= L   if and only if   q <= Room(free, L)
//
// Admission's guard rests on this, so that no rounding lets a write pass that a decision would have refused.
package wait

import (
	"math"
	"math/bits"
	"slices"
)

// Infinite is the level when there are no slots, or when it is too large to represent.
const Infinite int64 = math.MaxInt64

// Level returns the smallest whole t >= min r_i at which the slots have taken in the work q: the predicted wait.
// Without slots it is Infinite. It never falls when q or any free time grows.
func Level(free []int64, q int64) int64 {
	if len(free) == 0 {
		return Infinite
	}
	if q <= 0 {
		return free[0]
	}
	rest := uint64(q)
	for k := 1; k < len(free); k++ {
		// Raising k slots from one free time to the next takes in k times the difference.
		gap := uint64(free[k] - free[k-1])
		hi, taken := bits.Mul64(uint64(k), gap)
		if hi != 0 || taken >= rest {
			return raise(free[k-1], rest, uint64(k))
		}
		rest -= taken
	}
	return raise(free[len(free)-1], rest, uint64(len(free)))
}

// raise returns from + rest / slots, rounded up and saturated.
func raise(from int64, rest, slots uint64) int64 {
	if rest == 0 {
		return from
	}
	return satAdd(from, int64((rest-1)/slots+1))
}

// Room returns the most work that may be queued for the level to be at most `level`: Σ max(0, level − r_i). It is −1
// when no slot becomes free by then, so that not even an empty queue fits, and Infinite for the level Infinite.
func Room(free []int64, level int64) int64 {
	if level == Infinite {
		return Infinite
	}
	if len(free) == 0 || level < free[0] {
		return -1
	}
	var sum int64
	for _, r := range free {
		if r >= level {
			break
		}
		sum = satAdd(sum, level-r)
	}
	return sum
}

// Ratio returns the plain prediction of the literature, q / slots, rounded up; Infinite without slots. It is computed
// beside the level, to compare the two, and decides nothing.
func Ratio(q int64, slots int) int64 {
	if slots <= 0 {
		return Infinite
	}
	if q <= 0 {
		return 0
	}
	return (q-1)/int64(slots) + 1
}

// Slots returns the sorted free times of `slots` slots on which attempts with these residuals run, in dst's memory if
// it is large enough. Slots that run nothing are free now. When more attempts run than there are slots (their number
// was lowered), the earliest ends free nothing, so their residuals are dropped. Negative residuals count as 0.
func Slots(dst, residuals []int64, slots int) []int64 {
	dst = dst[:0]
	if slots <= 0 {
		return dst
	}
	for n := slots - len(residuals); n > 0; n-- {
		dst = append(dst, 0)
	}
	for _, r := range residuals {
		dst = append(dst, max(r, 0))
	}
	slices.Sort(dst)
	if over := len(dst) - slots; over > 0 {
		copy(dst, dst[over:])
		dst = dst[:slots]
	}
	return dst
}

// DrainMS returns the time after which `amount` of the work queued ahead will have been claimed, if nothing else
// happens: 0 when amount <= 0. Work is claimed whole, when it starts, so this is an upper bound of the fluid picture.
func DrainMS(free []int64, amount int64) int64 {
	if amount <= 0 {
		return 0
	}
	return Level(free, amount)
}

func satAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

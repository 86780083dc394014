// Package fair is the order of release: start-time fair queueing written into a
// sort key, and what of a backlog stands before a key in it.
//
// A tenant's next task in a lane gets the start tag S = max(V, f): V is the
// lane's virtual time (the largest start tag that began, see Virtual), f the
// tenant's last finish tag there. Its finish tag S + amount/weight becomes the
// tenant's f. Tasks begin in order of S + shift(priority): shares follow the
// weights, priority reorders by a bounded amount and never changes shares,
// and age is inherent, because V moves on while a key stays. (P. Goyal, H. Vin,
// H. Cheng, "Start-time Fair Queueing", SIGCOMM 1996.)
//
// A snapshot says how much of a lane's waiting work stands before a key, which
// is what predictions are poured from. Its answers are never too little.
//
// Tags are milliseconds of work at weight 1. Everything is pure.
package fair

import "math"

// ShiftMS is how far one step of priority moves a key, in ms of work at weight 1:
// a task goes before those of the next lower priority that began to wait while
// up to this much work per weight was begun before it.
const ShiftMS = 30_000

// Shift is the shift of a priority by its rank: 0 critical, 1 high, 2 normal, 3 low.
func Shift(rank int) int64 { return int64(rank-2) * ShiftMS }

// Cost is what a task of an amount moves its tenant's finish tag on by. A weight
// that is not positive counts as 1.
func Cost(amountMS int64, weight float64) int64 {
	if !(weight > 0) {
		weight = 1
	}
	c := math.Ceil(float64(amountMS) / weight)
	if c >= math.MaxInt64/4 {
		return math.MaxInt64 / 4
	}
	return max(int64(c), 1)
}

// Virtual is where a lane's virtual time stands when a task begins out of a
// backlog: at its tag, but at its key if its priority has moved it forward. So
// who comes at normal priority stands at the head of a backlog of high
// priority, and before one of low priority. (Where nobody waits it is the tag.)
func Virtual(tag, shiftMS int64) int64 { return tag + min(shiftMS, 0) }

// Start is the start tag of a tenant's next task.
func Start(virtual, finish int64) int64 { return max(virtual, finish) }

// Correction is what a finish tag moves by when a task that was charged cost for
// an amount really took actual: charged work in proportion, rounded down.
func Correction(cost, amountMS, actualMS int64) int64 {
	if cost <= 0 || amountMS <= 0 {
		return 0
	}
	d := float64(actualMS-amountMS) * float64(cost) / float64(amountMS)
	return int64(math.Max(math.Min(math.Floor(d), math.MaxInt64/4), -math.MaxInt64/4))
}

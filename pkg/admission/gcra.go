package admission

import "math"

// GCRA is a rate limit by the generic cell rate algorithm, in its virtual scheduling form (ITU-T I.371, annex A; ATM
// Forum Traffic Management 4.0, section 4.4). Its whole state is one time, the theoretical arrival time (TAT) at which
// the next submission would be exactly on schedule; the tenant's ledger stores it. It admits bursts of Burst
// submissions and IntervalUS apart in the long run.
//
// Times are unix microseconds, unlike elsewhere: at more than 1,000 a second the interval is below a millisecond. The
// zero value is unlimited.
type GCRA struct {
	IntervalUS int64 // between submissions; <= 0: unlimited
	Burst      int64 // submissions at once; below 1 counts as 1
}

// NewGCRA returns the limit for a rate per second (0, negative or not a number: unlimited). The interval is rounded up
// to whole microseconds, so the limit is never exceeded; rates over a million a second are taken as a million.
func NewGCRA(perSecond float64, burst int64) GCRA {
	if !(perSecond > 0) {
		return GCRA{}
	}
	const longest = 1 << 61 // far from overflow when added to a time
	interval := min(math.Ceil(1e6/perSecond), longest)
	return GCRA{IntervalUS: max(int64(interval), 1), Burst: max(burst, 1)}
}

// Unlimited reports whether the limit admits everything.
func (g GCRA) Unlimited() bool { return g.IntervalUS <= 0 }

// MaxTAT returns the largest stored TAT with which a submission at nowUS is admitted: the condition of the write.
func (g GCRA) MaxTAT(nowUS int64) int64 {
	if g.Unlimited() {
		return math.MaxInt64
	}
	return satAdd(max(nowUS, 0), g.tolerance())
}

// tolerance is how far ahead of now the TAT may be: (burst − 1) intervals.
func (g GCRA) tolerance() int64 {
	n := max(g.Burst, 1) - 1
	if n > 0 && g.IntervalUS > math.MaxInt64/n {
		return math.MaxInt64
	}
	return n * g.IntervalUS
}

// Check judges a submission at nowUS with the stored tatUS (0: none yet). Admitted: waitMS is 0 and nextUS is the TAT
// to store. Refused: waitMS > 0 is the time until one would be admitted, rounded up to milliseconds, and nextUS is
// tatUS.
func (g GCRA) Check(tatUS, nowUS int64) (waitMS, nextUS int64) {
	tatUS, nowUS = max(tatUS, 0), max(nowUS, 0)
	if g.Unlimited() {
		return 0, tatUS
	}
	if latest := g.MaxTAT(nowUS); tatUS > latest {
		return (tatUS-latest-1)/1000 + 1, tatUS
	}
	return 0, satAdd(max(tatUS, nowUS), g.IntervalUS)
}

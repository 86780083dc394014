package admission

import (
	"math"
	"math/bits"

	"github.com/lanekeeper/lanekeeper/pkg/wait"
)

const (
	// PausedRetryMS is the guidance where only an operator or a scaling change can help, so that nothing can be
	// computed: the lane is paused, or has no slots at all.
	PausedRetryMS int64 = 60_000

	// NeverFitsRetryMS is the guidance when the amount alone exceeds a limit. Only another configuration or a lower
	// estimate lets the task in, and estimates move by the minute.
	NeverFitsRetryMS int64 = 3_600_000
)

// retryAfter returns when a request refused for a lack of room would find it, if nothing else came in: the latest time
// over all checks of room that fail now, so that who obeys the first is not refused by the next.
func (s *situation) retryAfter() int64 {
	var ms int64
	if t := s.tenant; !fits(t.WorkMS, s.amount, t.LimitMS) {
		ms = max(ms, s.tenantDrain())
	}
	if t := s.tenant; t.DayLimitMS != 0 && !fits(t.DayWorkMS, s.amount, t.DayLimitMS) {
		ms = max(ms, t.DayResetMS)
		if s.amount > t.DayLimitMS {
			ms = max(ms, NeverFitsRetryMS)
		}
	}
	if l := s.lane; !fits(l.WorkMS, s.amount, l.MaxWorkMS) {
		ms = max(ms, s.laneDrain())
	}
	if s.wait > s.fit {
		ms = max(ms, known(s.wait-s.fit, s.wait))
	}
	return max(ms, 1)
}

// tenantDrain returns when enough of the tenant's queued work will have been claimed. It must get through the tenant's
// own slots, and through the lane, where it is mixed with the work of others: as much of the lane's work goes first as
// the tenant's share of it demands.
func (s *situation) tenantDrain() int64 {
	t, l := s.tenant, s.lane
	if s.amount > t.LimitMS {
		return NeverFitsRetryMS
	}
	excess := satAdd(t.WorkMS, s.amount) - t.LimitMS
	own := wait.DrainMS(t.Free, excess)
	mixed := wait.DrainMS(l.Free, mulDiv(excess, max(l.WorkMS, 0), t.WorkMS))
	if len(l.Free) > 0 {
		mixed = max(mixed, l.Free[0]) // nothing is claimed before a slot is free
	}
	return max(known(own, own), known(mixed, mixed))
}

// laneDrain returns when enough of the lane's queued work will have been claimed.
func (s *situation) laneDrain() int64 {
	l := s.lane
	if s.amount > l.MaxWorkMS {
		return NeverFitsRetryMS
	}
	drain := wait.DrainMS(l.Free, satAdd(l.WorkMS, s.amount)-l.MaxWorkMS)
	return known(drain, drain)
}

// known returns ms, unless the wait it came from is infinite: then there are no slots, and nothing to compute from.
func known(ms, from int64) int64 {
	if from == wait.Infinite {
		return PausedRetryMS
	}
	return ms
}

// mulDiv returns a·b/c rounded up and saturated, for a, b >= 0 and c > 0.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, r := bits.Div64(hi, lo, uint64(c))
	if q >= math.MaxInt64 {
		return math.MaxInt64
	}
	if r > 0 {
		q++
	}
	return int64(q)
}

// RetryAfterSeconds turns guidance into the value of a Retry-After header: whole seconds, rounded up, then jittered
// upward by up to a fifth (u in 0 … 1, drawn by the caller) so that the refused do not come back all at once; 1 to
// 86,400.
func RetryAfterSeconds(ms int64, u float64) int64 {
	const day = 86_400
	s := int64(1)
	if ms > 0 {
		s = min((ms-1)/1000+1, day)
	}
	if u > 0 { // false for NaN
		s += min(int64(min(u, 1)*float64(s/5+1)), s/5)
	}
	return min(s, day)
}

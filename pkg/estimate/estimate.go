// Package estimate holds what a (class, bucket) is believed to cost, and how that is learned from outcomes.
//
// It guarantees that every figure of an Estimate made here is at least 1 ms and at most the cap, that P50 <= P95, that
// the quantile points rise, and that an attempt which still runs is never taken as one that ended: it only says that
// the service time exceeds its age. Everything is pure; times are milliseconds.
package estimate

import (
	"math"
)

// Points is the number of quantile points of an Estimate.
const Points = 20

// z95 is the 95 % quantile of the standard normal distribution, to the precision the priors deserve.
const z95 = 1.645

// Prior is what the configuration states about a (class, bucket) before anything was observed: the median and the 95 %
// quantile of the service time. A lognormal distribution is put through the two.
type Prior struct {
	P50MS, P95MS int64
}

// sigma is the standard deviation of the logarithm; 0 when p95 is not above p50.
func (p Prior) sigma() float64 {
	p50 := max(p.P50MS, 1)
	if p.P95MS <= p50 {
		return 0
	}
	return math.Log(float64(p.P95MS)/float64(p50)) / z95
}

// MeanMS returns the mean of the prior, p50·exp(σ²/2) with σ = ln(p95/p50)/1.645, at least 1 ms.
func (p Prior) MeanMS() int64 {
	s := p.sigma()
	return toMS(float64(max(p.P50MS, 1)) * math.Exp(s*s/2))
}

// quantileMS returns the q-quantile of the prior, 0 < q < 1.
func (p Prior) quantileMS(q float64) int64 {
	z := math.Sqrt2 * math.Erfinv(2*q-1)
	return toMS(float64(max(p.P50MS, 1)) * math.Exp(p.sigma()*z))
}

// Estimate is what a (class, bucket) is believed to cost. P50MS and P95MS are of the service time of attempts that
// succeed: deadlines are judged by P95MS. MeanMS and Quantiles are of the time any attempt occupies a slot: queued work
// and residuals are counted by them. Samples is the number of finished attempts behind it, and Learned is false while
// it is the prior alone.
//
// The zero value means that nothing is known at all; use FromPrior.
type Estimate struct {
	Samples   int64         `json:"n"`
	MeanMS    int64         `json:"mean"`
	P50MS     int64         `json:"p50"`
	P95MS     int64         `json:"p95"`
	Quantiles [Points]int64 `json:"q"` // at (i + 0.5) / Points
	Learned   bool          `json:"l,omitempty"`
}

// FromPrior returns the estimate of a prior alone, each figure at most capMS (<= 0: no cap) and at least 1 ms.
func FromPrior(p Prior, capMS int64) Estimate {
	e := Estimate{MeanMS: p.MeanMS(), P50MS: max(p.P50MS, 1), P95MS: max(p.P95MS, p.P50MS, 1)}
	for i := range e.Quantiles {
		e.Quantiles[i] = p.quantileMS((float64(i) + 0.5) / Points)
	}
	e.clamp(capMS)
	return e
}

// AmountMS returns the work to reserve for one attempt: the mean, at least 1 ms.
func (e *Estimate) AmountMS() int64 { return max(e.MeanMS, 1) }

// ResidualMS returns how much longer an attempt of age ageMS is expected to hold its slot, E[S − a | S > a] from the
// quantile points, between 0 and timeoutLeftMS.
//
// Past the last point the distribution says nothing any more. Then the residual is the largest of
//   - half the distance from the median to the last point, near the mean residual life of a lognormal there;
//   - the time by which the attempt has outlived the last point: what is late is expected to be late once more;
//   - 2 % of the age, the error of the bins.
//
// So a class that always takes a minute is not believed to take another one because it is some milliseconds late, and
// an attempt that hangs is believed to hang on, until its timeout. Of an estimate without points (the zero value) the
// whole of timeoutLeftMS is expected.
func (e *Estimate) ResidualMS(ageMS, timeoutLeftMS int64) int64 {
	timeoutLeftMS, age := max(timeoutLeftMS, 0), max(ageMS, 0)
	last := e.Quantiles[Points-1]
	if last <= 0 {
		return timeoutLeftMS
	}
	var sum, n float64
	for i := Points - 1; i >= 0 && e.Quantiles[i] > age; i-- {
		sum += float64(e.Quantiles[i] - age)
		n++
	}
	if n > 0 {
		return min(toMS(sum/n), timeoutLeftMS)
	}
	return min(max((last-e.Quantiles[Points/2])/2, age-last, age/50, 1), timeoutLeftMS)
}

// EnoughSamples is how many outcomes make an estimate one to be believed: by then the prior, which counts like PriorWeight
// of them, hardly matters.
const EnoughSamples = 20

// Proven reports whether enough outcomes stand behind the estimate.
func (e *Estimate) Proven() bool { return e.Samples >= EnoughSamples }

// Moved reports whether the mean, p50 or p95 of next differs from prev's by more than 5 %.
func Moved(prev, next *Estimate) bool {
	return moved(prev.MeanMS, next.MeanMS) || moved(prev.P50MS, next.P50MS) || moved(prev.P95MS, next.P95MS)
}

// MarginMoved reports whether a margin differs from another by more than 5 %.
func MarginMoved(prev, next int64) bool { return moved(prev, next) }

func moved(a, b int64) bool {
	a, b = max(a, 0), max(b, 0)
	return max(a, b)-min(a, b) > a/20 // exact: for integers, d > a/20 and d > floor(a/20) are the same
}

// clamp takes every figure into 1 … capMS and restores the order that rounding may have broken.
func (e *Estimate) clamp(capMS int64) {
	if capMS <= 0 {
		capMS = math.MaxInt64
	}
	in := func(ms int64) int64 { return min(max(ms, 1), capMS) }
	e.MeanMS, e.P50MS, e.P95MS = in(e.MeanMS), in(e.P50MS), in(max(e.P95MS, e.P50MS))
	low := int64(1)
	for i, q := range e.Quantiles {
		low = max(low, q)
		e.Quantiles[i] = in(low)
	}
}

// toMS rounds to whole milliseconds, at least 1, saturating.
func toMS(f float64) int64 {
	switch {
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f >= 1:
		return int64(math.Round(f))
	}
	return 1
}

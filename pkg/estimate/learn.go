package estimate

import (
	"math"
	"slices"

	"github.com/lanekeeper/lanekeeper/pkg/hist"
)

// PriorWeight is k in the weight n/(n + k) that n observations get against the prior: the prior counts like five
// observations. It is a guess made by a person, so some twenty outcomes should all but replace it, and a single one
// should not.
const PriorWeight = 5

// Learn returns the estimate of a (class, bucket) from
//
//   - success: service times of attempts that succeeded;
//   - occupancy: slot times of all finished attempts, failed and timed-out ones too;
//   - censored: ages of attempts that run now;
//   - the prior and the cap (<= 0: none).
//
// P50MS and P95MS come from success and censored, MeanMS and Quantiles from occupancy and censored, each by the
// product-limit estimator (E. L. Kaplan, P. Meier, "Nonparametric Estimation from Incomplete Observations", J. Am.
// Stat. Assoc. 53, 1958), where the largest observation counts as ended even if it is censored (B. Efron, "The Two
// Sample Problem with Censored Data", 1967): a lower bound that grows as the attempt goes on. Without censored attempts
// these are the plain quantiles and mean of the bins.
//
// Each figure x is then shrunk to the prior's in logarithms, exp(w·ln x + (1 − w)·ln prior) with w = n/(n + PriorWeight):
// the normal-normal credibility of a lognormal's location, which fades equally fast from a prior ten times too high
// and ten times too low. n counts finished attempts, and running ones that have outlived the prior's median; a younger
// one says too little to count.
//
// Either histogram may be nil; neither is changed. Negative ages count as 0. Learn sorts a copy of censored.
func Learn(success, occupancy *hist.Bins, censored []int64, prior Prior, capMS int64) Estimate {
	e := FromPrior(prior, 0)
	ages := slices.Clone(censored)
	slices.Sort(ages)
	var outlived int64
	for _, a := range ages {
		if a > e.P50MS {
			outlived++
		}
	}

	if n := success.Count() + outlived; n > 0 {
		c, w := productLimit(success, ages), weight(n)
		e.P50MS = shrink(c.quantile(0.50), e.P50MS, w)
		e.P95MS = shrink(c.quantile(0.95), e.P95MS, w)
		e.Learned = true
	}
	if n := occupancy.Count() + outlived; n > 0 {
		c, w := productLimit(occupancy, ages), weight(n)
		e.MeanMS = shrink(c.mean(), e.MeanMS, w)
		for i := range e.Quantiles {
			e.Quantiles[i] = shrink(c.quantile((float64(i)+0.5)/Points), e.Quantiles[i], w)
		}
		e.Learned = true
	}
	e.Samples = max(success.Count(), occupancy.Count())
	e.clamp(capMS)
	return e
}

func weight(n int64) float64 { return float64(n) / (float64(n) + PriorWeight) }

func shrink(observed, prior int64, w float64) int64 {
	return toMS(math.Exp(w*math.Log(float64(max(observed, 1))) + (1-w)*math.Log(float64(max(prior, 1)))))
}

// curve is a discrete distribution: steps by rising time, masses that add up to 1.
type curve struct {
	at   []int64
	mass []float64
}

// productLimit estimates the distribution of times of which ended are known and of which those running now (sorted
// ages) are only known to exceed their age. At least one of the two must hold something.
func productLimit(ended *hist.Bins, ages []int64) curve {
	var c curve
	survival := 1.0
	atRisk := float64(ended.Count()) + float64(len(ages))
	next, lastBin := 0, -1
	ended.ForEach(func(i int, n int64) {
		// Ages in the same bin are still at risk there: an end at a time comes before a censoring at that time.
		for next < len(ages) && hist.Index(ages[next]) < i {
			atRisk--
			next++
		}
		step := survival * min(float64(n)/atRisk, 1)
		c.at, c.mass = append(c.at, hist.Value(i)), append(c.mass, step)
		survival -= step
		atRisk -= float64(n)
		lastBin = i
	})
	if survival > 0 && len(ages) > 0 && (lastBin < 0 || hist.Index(ages[len(ages)-1]) >= lastBin) {
		at := max(ages[len(ages)-1], 0)
		if lastBin >= 0 {
			at = max(at, hist.Value(lastBin))
		}
		c.at, c.mass = append(c.at, at), append(c.mass, survival)
	}
	return c
}

// quantile returns the first time by which a share of at least p has ended.
func (c curve) quantile(p float64) int64 {
	const rounding = 1e-12 // of sums of shares; far below one observation
	var sum float64
	for i, m := range c.mass {
		if sum += m; sum >= p-rounding {
			return c.at[i]
		}
	}
	return c.at[len(c.at)-1]
}

func (c curve) mean() int64 {
	var sum float64
	for i, m := range c.mass {
		sum += m * float64(c.at[i])
	}
	return toMS(sum)
}

package estimate

import "math"

// A lane's safety margin covers what its predictions get wrong: it follows by how much later than predicted tasks began.
const (
	// MarginSamples is how many starts a margin is learned from at least; before that it is the configured one.
	MarginSamples = 50
	// MarginMost is how many times the configured margin a learned one may be at most; it is half of it at least.
	MarginMost = 8
	// MarginMaxMS is what no margin exceeds, ten minutes: the most that can be configured.
	MarginMaxMS = 600_000

	marginQuantile = 0.95
	lateSteps      = 4 // bins per doubling: a bin's bound is at most a fifth above what is in it
	lateBins       = 1 + 40*lateSteps
)

// LateBin is the bin of a delay beyond the predicted one, in ms; all that began in time is in bin 0.
func LateBin(ms int64) int {
	if ms <= 0 {
		return 0
	}
	return min(1+int(math.Ceil(lateSteps*math.Log2(float64(ms)))), lateBins)
}

// LateMS is the upper bound of a bin.
func LateMS(bin int) int64 {
	if bin <= 0 {
		return 0
	}
	return int64(math.Ceil(math.Pow(2, float64(min(bin, lateBins)-1)/lateSteps)))
}

// Margin is the margin of a lane whose predictions missed by late (counts by bin), where configuredMS is where it starts:
// the 95 % quantile, within the bounds above. A configured margin of 0 stays 0.
func Margin(late map[int]int64, configuredMS int64) int64 {
	var total int64
	for _, n := range late {
		total += max(n, 0)
	}
	if total < MarginSamples {
		return max(configuredMS, 0)
	}
	need, sum := int64(math.Ceil(marginQuantile*float64(total))), int64(0)
	for bin := 0; bin <= lateBins; bin++ {
		if sum += max(late[bin], 0); sum >= need {
			return ClampMargin(LateMS(bin), configuredMS)
		}
	}
	return ClampMargin(MarginMaxMS, configuredMS) // counts of bins that this build does not know
}

// ClampMargin takes a learned margin into the bounds of the configured one.
func ClampMargin(ms, configuredMS int64) int64 {
	configuredMS = min(max(configuredMS, 0), MarginMaxMS)
	return min(max(ms, configuredMS/2), MarginMost*configuredMS, MarginMaxMS)
}

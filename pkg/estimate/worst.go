package estimate

// Known says whether the estimate says anything: mean, p50 and p95 are positive.
func (e *Estimate) Known() bool { return e.MeanMS > 0 && e.P50MS > 0 && e.P95MS > 0 }

// Worst is the estimate of what nothing is known about: every attempt takes the
// whole of capMS, at least 1 ms.
func Worst(capMS int64) Estimate {
	ms := max(capMS, 1)
	e := Estimate{MeanMS: ms, P50MS: ms, P95MS: ms}
	for i := range e.Quantiles {
		e.Quantiles[i] = ms
	}
	return e
}

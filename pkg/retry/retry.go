// Package retry decides what follows a failed attempt: again after a backoff, failed, or quarantine. It also gives
// errors a signature, so that the same failure is recognised on other tasks and at other times.
//
// Everything is pure: the caller draws the random numbers and knows the time. Times are milliseconds.
package retry

import "math"

// Verdict is what becomes of a task whose attempt failed.
type Verdict string

// The verdicts.
const (
	Retry      Verdict = "retry"      // wait for the backoff, then run again
	Fail       Verdict = "fail"       // terminal: trying again cannot help
	Quarantine Verdict = "quarantine" // attempts are used up; only a replay or a cancel leads out
)

// Next returns the verdict after `failures` failed attempts, the last one included, of at most maxAttempts (below 1
// counts as 1). An error that is not retryable fails the task at once.
func Next(failures, maxAttempts int, retryable bool) Verdict {
	switch {
	case !retryable:
		return Fail
	case failures < max(maxAttempts, 1):
		return Retry
	default:
		return Quarantine
	}
}

// Ceiling returns the longest backoff before the retry that follows the given number of failures (1 for the first):
// min(cap, base·2^(failures−1)).
func Ceiling(failures int, baseMS, capMS int64) int64 {
	baseMS, capMS = max(baseMS, 0), max(capMS, 0)
	shift := max(failures, 1) - 1
	if baseMS == 0 {
		return 0
	}
	if baseMS > math.MaxInt64>>shift { // of large shifts nothing is left
		return capMS
	}
	return min(capMS, baseMS<<shift)
}

// Backoff returns how long to wait before the next attempt, full jitter: evenly drawn between 0 and the Ceiling, both
// included, by u in 0 … 1 (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
func Backoff(failures int, baseMS, capMS int64, u float64) int64 {
	ceiling := Ceiling(failures, baseMS, capMS)
	if !(u > 0) { // also not a number
		return 0
	}
	f := u * (float64(ceiling) + 1)
	if f >= float64(ceiling) {
		return ceiling
	}
	return int64(f)
}

// Package failure applies the retry policy to a task whose attempt failed: that
// of the lane which admitted it (the retry lane's if that was removed), and of
// its class. It is pure.
//
// It guarantees that nothing is repeated which its class declares unrepeatable,
// that an attempt which never began is always repeatable, and that a task is
// repeated at most max_attempts times between two admissions.
package failure

import (
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/retry"
	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// Codes of attempts that ended before the handler began. Repeating them cannot
// do anything twice.
const (
	CodeNoHandler = "no_handler"          // this worker does not know the class; another may
	CodeNoPayload = "payload_unavailable" // the payload could not be read
)

// Failure is how an attempt failed.
type Failure struct {
	Retryable bool
	Lost      bool  // the worker disappeared: nobody knows how far it came
	NotBegun  bool  // the handler was never called
	AfterMS   int64 // what a downstream asked to wait for, 0 nothing
	// SamePayload is how many tasks of the tenant and class with this payload
	// have failed with this signature, this one included; 0 when it is not known.
	SamePayload int64
}

// Count notes a failure with an error on the task: one failure more, and one more in
// a row if its last one had the same signature.
func Count(t *task.Task, last *task.Error, now *task.Error) {
	t.Failures++
	if last != nil && last.Signature == now.Signature && t.Same > 0 {
		t.Same++
	} else {
		t.Same = 1
	}
	t.Error = now
}

// Next is what follows the failure that was just counted on t: Retry with the
// time (unix ms) before which it does not begin, Poison, or Fail. u in [0, 1)
// draws the backoff.
func Next(cfg *policy.Config, t *task.Task, f Failure, nowMS int64, u float64) (task.Event, int64) {
	if c, ok := cfg.Class(t.Class); ok && !c.Retryable() && !f.NotBegun {
		if f.Lost {
			return task.Poison, 0 // it may have done its work: somebody has to look
		}
		return task.Fail, 0
	}
	attempts, immediate, quarantine, base, limit := 1, 0, 0, int64(1000), int64(60_000)
	if l := cfg.Rules(t.Lane); l != nil {
		r := &l.Retry
		attempts, immediate, quarantine, base, limit = r.MaxAttempts, r.Immediate, r.QuarantineAfter, r.BackoffBase.MS(), r.BackoffCap.MS()
	}
	if f.Retryable && quarantine > 0 && max(t.Same, f.SamePayload) >= int64(quarantine) {
		return task.Poison, 0
	}
	switch retry.Next(int(t.Failures), attempts, f.Retryable) {
	case retry.Retry:
		if f.AfterMS == 0 && int(t.Failures) <= immediate {
			return task.Retry, nowMS
		}
		n := max(int(t.Failures)-immediate, 1)
		return task.Retry, nowMS + max(retry.Backoff(n, base, limit, u), f.AfterMS)
	case retry.Quarantine:
		return task.Poison, 0
	default:
		return task.Fail, 0
	}
}

// Counts says whether failures of equal payloads are to be counted for t, and up
// to how many: the lane that admitted it quarantines by signature, and this is
// the task's first failure in a row with this signature.
func Counts(cfg *policy.Config, t *task.Task) (most int64, ok bool) {
	l := cfg.Rules(t.Lane)
	if l == nil || l.Retry.QuarantineAfter == 0 || t.Same > 1 {
		return 0, false
	}
	return int64(l.Retry.QuarantineAfter), true
}

// Package failure applies a lane's retry policy to a task whose attempt
// failed. It is pure.
package failure

import (
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/retry"
	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// Next is what follows the failure that was just counted on t, by the policy of
// the lane that admitted it: Retry with the time (unix ms) before which it does
// not begin, Poison, or Fail. afterMS is what a downstream asked for; u in
// [0, 1) draws the backoff.
func Next(cfg *policy.Config, t *task.Task, retryable bool, afterMS, nowMS int64, u float64) (task.Event, int64) {
	attempts, base, limit := 1, int64(1000), int64(60_000)
	if l, ok := cfg.Lane(t.Lane); ok {
		attempts, base, limit = l.Retry.MaxAttempts, l.Retry.BackoffBase.MS(), l.Retry.BackoffCap.MS()
	}
	switch retry.Next(int(t.Failures), attempts, retryable) {
	case retry.Retry:
		return task.Retry, nowMS + max(retry.Backoff(int(t.Failures), base, limit, u), afterMS)
	case retry.Quarantine:
		return task.Poison, 0
	default:
		return task.Fail, 0
	}
}

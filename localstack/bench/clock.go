package bench

import (
	"context"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/clock"
)

func now() time.Time { return clock.System() }

// until waits for a moment, or for the end of ctx, whose error it returns.
func until(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(at.Sub(now()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

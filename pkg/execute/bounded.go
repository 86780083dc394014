package execute

import (
	"context"
	"time"
)

// returnLead is what of an invocation's time is left when its last call ends, so that it
// returns by itself whatever stalls: killed, it would have its whole batch come again.
const returnLead = 500 * time.Millisecond

// ending is the context of an invocation that has to return before its end.
func ending(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, end.Add(-returnLead))
	}
	return context.WithCancel(ctx)
}

// settling is a context for calls that settle what was begun, also when the
// invocation is told to stop: for so long at most, and never past its end.
func settling(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	bare, stop := context.WithTimeout(context.WithoutCancel(ctx), most)
	end, ok := ctx.Deadline()
	if !ok {
		return bare, stop
	}
	bounded, cancel := context.WithDeadline(bare, end)
	return bounded, func() {
		cancel()
		stop()
	}
}

package dynamo

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

// Options are the times and sources of a Table. The zero value is what
// production uses.
type Options struct {
	// AttemptTimeout bounds each attempt of a call. Default 2 s.
	AttemptTimeout time.Duration
	// Attempts is how often the SDK sends a call at most. Default 4, minimum 1.
	Attempts int
	// ConflictTime bounds the repetition in place of colliding transactions and
	// of the unprocessed rest of a BatchGet. Default 1.5 s.
	ConflictTime time.Duration
	// BackoffBase and BackoffCap bound the waits between attempts: a wait is
	// uniform in [0, min(cap, base·2^n)) (full jitter: AWS Architecture Blog,
	// "Exponential Backoff And Jitter"). Default 20 ms and 400 ms.
	BackoffBase, BackoffCap time.Duration

	// Rand gives numbers in [0, 1) for the jitter; it must be safe for
	// concurrent use. Default: a source of the table's own, seeded at random.
	Rand func() float64
	// Now is a clock that never goes back, to measure the repetition in place.
	Now func() time.Time
	// Sleep waits for d or until the context ends, whose error it returns.
	Sleep func(ctx context.Context, d time.Duration) error
	// Token makes client request tokens, 1 to 36 characters, never the same
	// one twice.
	Token func() string
}

// withDefaults fills in what is not set. This is the one place where the
// adapter meets the real clock and real randomness.
func (o Options) withDefaults() Options {
	if o.AttemptTimeout <= 0 {
		o.AttemptTimeout = 2 * time.Second
	}
	if o.Attempts <= 0 {
		o.Attempts = 4
	}
	if o.ConflictTime <= 0 {
		o.ConflictTime = 1500 * time.Millisecond
	}
	if o.BackoffBase <= 0 {
		o.BackoffBase = 20 * time.Millisecond
	}
	if o.BackoffCap <= 0 {
		o.BackoffCap = 400 * time.Millisecond
	}
	if o.Rand == nil {
		o.Rand = newRand()
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default of an injected clock
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Token == nil {
		o.Token = crand.Text // 26 characters, 130 bits
	}
	return o
}

// backoff is the wait before repetition n (from 0).
func (o Options) backoff(n int) time.Duration {
	limit := o.BackoffCap
	if n < 30 && o.BackoffBase<<n < limit {
		limit = o.BackoffBase << n
	}
	return time.Duration(o.Rand() * float64(limit))
}

// retryer is the SDK's standard one with our waits: its own begin at up to a
// second, which is longer than a submission may take. All calls share its quota of
// retries, so that an outage is not answered with a multiple of the load.
func (o Options) retryer() aws.Retryer {
	return retry.NewStandard(func(so *retry.StandardOptions) {
		so.MaxAttempts = o.Attempts
		so.MaxBackoff = o.BackoffCap
		so.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
			return o.backoff(max(attempt-1, 0)), nil
		})
	})
}

func newRand() func() float64 {
	var seed [32]byte
	crand.Read(seed[:]) // never fails: it ends the program instead
	src := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:]), binary.LittleEndian.Uint64(seed[8:])))
	var mu sync.Mutex
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return src.Float64()
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

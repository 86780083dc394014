package intake

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/belief"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
)

// Deps is what the service works with.
type Deps struct {
	Config *policy.Config
	Table  op.Table
	Queue  queue.Sender
	Clock  clock.Clock
	Tally  *tally.Recorder
	// Float returns a number in [0, 1), for jitter; safe for concurrent use.
	Float func() float64
	// NewID returns an unguessable UUID, in order of time where it can be.
	NewID func() string
	// Wake asks for a run of the aggregator, without waiting for it. nil: none.
	Wake func(ctx context.Context)
	// Probes lets tasks of classes in, now and then, that are refused for their estimate alone.
	Probes bool
	// Trace follows submissions that are sampled; nil: none.
	Trace *trace.Tracer
}

// Service is the admission.
type Service struct {
	Deps
	priors *belief.Book
	// allWorkers is what runs at once over all lanes: no tenant's level needs more slots.
	allWorkers int
	creds      cache[string, Principal]
	mu         sync.Mutex // of what follows
	copies     copies
	woken      time.Time
	probing    map[belief.Kind]*probing
}

// New makes the service.
func New(d Deps) *Service {
	priors := belief.FromConfig(d.Config)
	workers := 0
	for _, lane := range d.Config.LaneNames() {
		workers += d.Config.Workers(lane)
	}
	return &Service{Deps: d, priors: priors, allWorkers: workers, copies: newCopies(priors), probing: map[belief.Kind]*probing{},
		creds: cache[string, Principal]{max: 10_000, m: map[string]cached[Principal]{}}}
}

// WakeInterval is how often an instance asks for a run of the aggregator at most.
const WakeInterval = 20 * time.Second

func (s *Service) wake(ctx context.Context, now time.Time) {
	if s.Wake == nil {
		return
	}
	s.mu.Lock()
	due := now.Sub(s.woken) >= WakeInterval
	if due {
		s.woken = now
	}
	s.mu.Unlock()
	if due {
		s.Wake(ctx)
	}
}

// Refusal is why a call was not carried out: the code, a text that is safe to
// show, and where it applies the faults, the retry guidance and the decision.
type Refusal struct {
	Code              events.Code
	Detail            string
	Faults            []events.FieldError
	RetryAfterSeconds int64
	Decision          *events.Decision
}

// Error is for logs; clients get the fields.
func (r *Refusal) Error() string { return string(r.Code) + ": " + r.Detail }

func refuse(code events.Code, detail string) *Refusal { return &Refusal{Code: code, Detail: detail} }

var (
	errNotFound  = refuse(events.NotFound, "there is no such task")
	errForbidden = refuse(events.Forbidden, "operator keys do not submit or read tasks; use a tenant's key")
)

// unavailableRetrySeconds is the guidance when our own store or queue failed.
const unavailableRetrySeconds = 2

// Unavailable turns an error of the store or queue into the refusal that
// clients see. Its own text stays inside; it is logged here, once.
func Unavailable(ctx context.Context, what string, err error) *Refusal {
	if r := (*Refusal)(nil); errors.As(err, &r) {
		return r
	}
	slog.ErrorContext(ctx, "unavailable", "while", what, "error", err)
	return &Refusal{Code: events.Unavailable, RetryAfterSeconds: unavailableRetrySeconds,
		Detail: "the task store or queue did not answer; nothing was half-done, the same request can be sent again"}
}

// cleanupTimeout bounds what has to be undone after a call's own context may
// have ended.
const cleanupTimeout = 3 * time.Second

func cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
}

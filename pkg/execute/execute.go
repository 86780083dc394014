package execute

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// Deps is what the service works with.
type Deps struct {
	Config *policy.Config
	Table  op.Table
	Mux    *worker.Mux
	Clock  clock.Clock
	Tally  *tally.Recorder
	Float  func() float64 // in [0, 1), for jitter; safe for concurrent use
	NewID  func() string  // unguessable, for lease tokens
	// Stopping says that no further attempts are to begin in this process. nil: never.
	Stopping func() bool
	// Trace follows attempts whose submission was sampled; nil: none.
	Trace *trace.Tracer
}

// Service runs the tasks of lanes.
type Service struct {
	Deps
	mu   sync.Mutex
	seen map[string]taskop.Lane // the lane items last seen
}

// New makes the service.
func New(d Deps) *Service {
	return &Service{Deps: d, seen: map[string]taskop.Lane{}}
}

// Delivery is one message of a batch.
type Delivery struct {
	MessageID string
	Body      []byte
	Receives  int
}

// Times of an attempt.
const (
	leaseLength  = 30 * time.Second // a lease at most, before its slack
	leaseSlack   = 5 * time.Second
	renewFirst   = 20 * time.Second // shorter attempts never renew
	renewEvery   = 10 * time.Second
	renewRetry   = time.Second
	handBackLead = 5 * time.Second // of the invocation's time kept for the outcome
	abandonAfter = 2 * time.Second // a handler that ignores its context
)

// Batch works through the messages of one invocation, one after another, and
// returns the ids of those that must come again: the store failed, or nobody
// could read them (after enough receives those end in the dead-letter queue).
// The context's deadline is the invocation's.
func (s *Service) Batch(ctx context.Context, lane string, batch []Delivery) (failed []string) {
	ctx, cancel := ending(ctx)
	defer cancel()
	for _, d := range batch {
		if err := s.one(ctx, lane, d); err != nil {
			slog.WarnContext(ctx, "a message has to come again", "lane", lane, "message", d.MessageID, "receives", d.Receives, "error", err)
			failed = append(failed, d.MessageID)
		}
	}
	s.Tally.FlushDue(ctx, s.Clock(), s.Table)
	return failed
}

func (s *Service) one(ctx context.Context, lane string, d Delivery) error {
	m, err := events.DecodeMessage(d.Body)
	if err != nil {
		return err
	}
	t, err := s.claimQueued(ctx, lane, m)
	if err != nil {
		return err
	}
	wait := trace.QueueWait
	if t == nil {
		// A stale message: its wake-up still serves whoever waits.
		wait = trace.ReadyWait
		if t, err = s.takeWaiting(ctx, lane); err != nil {
			slog.WarnContext(ctx, "looking for waiting work failed", "lane", lane, "error", err)
			return nil
		}
	}
	for ; t != nil; wait = trace.ReadyWait {
		s.Trace.Waited(ctx, t, wait)
		t = s.attempt(ctx, t)
	}
	return nil
}

// lease is a new lease for an attempt that begins now.
func (s *Service) lease(ctx context.Context) taskop.Lease {
	now := s.Clock()
	return taskop.Lease{Token: s.NewID(), NowMS: now.UnixMilli(), UntilMS: s.leaseUntil(ctx, now)}
}

// leaseUntil is when a lease taken or renewed now runs out: nobody can hold one
// for longer than its invocation can live.
func (s *Service) leaseUntil(ctx context.Context, now time.Time) int64 {
	until := now.Add(leaseLength)
	if end, ok := ctx.Deadline(); ok && end.Before(until) {
		until = end
	}
	return until.Add(leaseSlack).UnixMilli()
}

// claimQueued claims the task that a message names. It returns nil when the
// message is stale: the task is unknown, elsewhere, of a later generation, not
// queued, too late, parked, or somebody else's.
func (s *Service) claimQueued(ctx context.Context, lane string, m events.Message) (*task.Task, error) {
	t, err := s.read(ctx, m.Tenant, m.Task)
	if err != nil || t == nil {
		return nil, err
	}
	if t.State != task.Queued || t.Gen != m.Gen || t.AtLane != lane {
		return nil, nil
	}
	if t.TooLate(s.Clock().UnixMilli()) {
		return nil, s.expire(ctx, t)
	}
	claimed, full, err := s.claim(ctx, t)
	if err != nil {
		return nil, err
	}
	if full {
		return nil, s.parkQueued(ctx, t)
	}
	if claimed == nil {
		return nil, nil
	}
	s.writeLane(ctx, taskop.BeginRun(lane, s.open(claimed)), lane)
	return claimed, nil
}

// claim begins an attempt. It returns nil when the row has moved on, full when
// the tenant is at max_active.
func (s *Service) claim(ctx context.Context, t *task.Task) (claimed *task.Task, full bool, err error) {
	l := s.lease(ctx)
	err = s.Table.Transact(ctx, taskop.Claim(t, l))
	if op.IsUnavailable(err) {
		err = s.Table.Transact(ctx, taskop.Claim(t, l)) // our own token is recognised below
	}
	if err == nil {
		return taskop.Claimed(t, l), false, nil
	}
	ce := op.FailedCond(err)
	if ce == nil {
		return nil, false, err
	}
	if item, failed := ce.On(taskop.OnRow); failed {
		if now, derr := taskop.DecodeRow(taskop.RowKey(t.Tenant, t.ID), item); item != nil && derr == nil && now.LeaseToken == l.Token && now.State == task.Running {
			return taskop.Claimed(t, l), false, nil
		}
		return nil, false, nil
	}
	return nil, true, nil
}

func (s *Service) open(t *task.Task) taskop.Open {
	o := taskop.OpenOf(t, t.AttemptMS)
	o.Running = true
	return o
}

func (s *Service) read(ctx context.Context, tenant, id string) (*task.Task, error) {
	key := taskop.RowKey(tenant, id)
	item, err := s.Table.Get(ctx, key, true)
	if err != nil || item == nil {
		return nil, err
	}
	return taskop.DecodeRow(key, item)
}

// expire ends a task that can no longer start in time.
func (s *Service) expire(ctx context.Context, t *task.Task) error {
	err := s.Table.Transact(ctx, taskop.Close(t, task.Expire, s.Clock().UnixMilli(), s.Config.Tasks.Retention.MS()))
	if err != nil {
		if op.FailedCond(err) != nil {
			return nil
		}
		return err
	}
	s.Tally.Expired(s.Clock(), t)
	w := taskop.LeaveSlot(t.AtLane, taskop.Open{ID: t.ID, AmountMS: t.AmountMS})
	if t.State == task.Waiting {
		w = taskop.LeaveWaiting(t.AtLane, t.ID, t.AmountMS, t.Parked)
	}
	s.writeLane(ctx, w, t.AtLane)
	s.passOn(ctx, t, task.Expired)
	return nil
}

// parkQueued takes a queued task whose tenant is at max_active out of the way.
func (s *Service) parkQueued(ctx context.Context, t *task.Task) error {
	if _, err := s.Table.Write(ctx, taskop.ParkRow(t, s.parkedDue(t))); err != nil {
		if op.FailedCond(err) != nil {
			return nil
		}
		return err
	}
	s.writeLane(ctx, taskop.ParkSlot(t.AtLane, t.ID), t.AtLane)
	return nil
}

// parkedDue is when a parked task is looked at in any case.
func (s *Service) parkedDue(t *task.Task) int64 {
	due := s.Clock().UnixMilli() + s.Config.Tasks.ResendAfter.MS()
	if !t.RunLate {
		due = min(due, t.StartByMS)
	}
	return due
}

// writeLane writes a lane item, also when the invocation is told to stop, and
// remembers it. A failure leaves the lane too full, to be repaired; the item is returned only on
// success, failed conditions give the item met.
func (s *Service) writeLane(ctx context.Context, w op.Write, lane string) (met op.Item, ok bool) {
	ctx, cancel := settling(ctx, 3*time.Second)
	defer cancel()
	item, err := s.Table.Write(ctx, w)
	if ce := op.FailedCond(err); ce != nil {
		met, _ := ce.On(0)
		s.remember(ctx, lane, met)
		return met, false
	}
	if err != nil {
		slog.WarnContext(ctx, "a lane's counts are wrong until repaired", "lane", lane, "write", w.Name, "error", err)
		return nil, false
	}
	s.remember(ctx, lane, item)
	return item, true
}

func (s *Service) remember(ctx context.Context, lane string, item op.Item) {
	l, err := taskop.DecodeLane(lane, item)
	if err != nil {
		slog.ErrorContext(ctx, "bad lane item", "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[lane] = l
}

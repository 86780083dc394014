package aggregate

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/belief"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/fair"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
)

// Deps is what the service works with.
type Deps struct {
	Config *policy.Config
	Table  op.Table
	Queue  queue.Sender
	Clock  clock.Clock
	Tally  *tally.Recorder
	Float  func() float64 // in [0, 1), for jitter; safe for concurrent use
	NewID  func() string
	// Stopping says that the process ends and runs should too, after their tick.
	// nil: never.
	Stopping func() bool
	// PublishEvery is how often estimates are published; 0 is once a minute.
	PublishEvery time.Duration
	// Metrics is told once a minute what happened; nil: nobody is.
	Metrics Metrics
	// DeadLetters is asked for each lane then; nil: they are not counted.
	DeadLetters DeadLetters
	// Admission admits quarantined tasks again; nil makes one beside the same store.
	Admission *intake.Service
	// Trace follows attempts whose worker was lost; nil: none.
	Trace *trace.Tracer
}

// Service is the aggregator.
type Service struct {
	Deps
	priors *belief.Book
}

// New makes the service.
func New(d Deps) *Service {
	if d.PublishEvery == 0 {
		d.PublishEvery = time.Minute
	}
	if d.Admission == nil {
		d.Admission = intake.New(intake.Deps{Config: d.Config, Table: d.Table, Queue: d.Queue, Clock: d.Clock, Tally: d.Tally, Float: d.Float, NewID: d.NewID})
	}
	return &Service{Deps: d, priors: belief.FromConfig(d.Config)}
}

// Times of a run.
const (
	TickEvery   = time.Second
	runLength   = 170 * time.Second // below three runs of the schedule
	leaseLength = 5 * time.Second
	idleEnd     = 30 * time.Second // with nothing live
	askFor      = 15 * time.Second // how long a newcomer waits for the lease
	askPause    = 200 * time.Millisecond
	endLead     = 5 * time.Second // before the invocation's deadline
)

// Report is what a run did.
type Report struct {
	Epoch   int64  `json:"epoch"`
	Ticks   int    `json:"ticks"`
	EndedBy string `json:"ended_by"` // "held", "asked", "idle", "time", "stopping", "context", "lost"
}

// Run takes the lease and ticks until somebody asks for it, the time is over or
// nothing has been live for a while. With insist (the schedule) it asks a
// holder to stop and waits; without it returns at once while the lease is held.
func (s *Service) Run(ctx context.Context, insist bool) (Report, error) {
	if end, ok := ctx.Deadline(); ok { // whatever call stalls by then
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-endLead))
		defer cancel()
	}
	owner := s.NewID()
	lease, err := s.take(ctx, owner, insist)
	if err != nil || lease.Owner != owner {
		return Report{EndedBy: "held"}, err
	}
	r := s.newRun(lease)
	rep := Report{Epoch: lease.Epoch}
	rep.EndedBy = r.loop(ctx, &rep)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	s.Tally.FlushDue(end, s.Clock(), s.Table)
	if rep.EndedBy != "lost" {
		if _, err := s.Table.Write(end, taskop.EndRunLease(r.lease)); err != nil && op.FailedCond(err) == nil {
			slog.WarnContext(ctx, "the aggregator's lease was not given up; it will run out", "error", err)
		}
	}
	return rep, nil
}

// newRun is a run that remembers nothing yet.
func (s *Service) newRun(lease taskop.Run) *run {
	return &run{Service: s, lease: lease, book: s.priors, counts: map[string]counted{}, doubt: map[string]bool{}, parkedFrom: map[string]string{}, refused: map[string]bool{}, snapped: map[string]time.Time{}, drains: map[string]*fair.Drain{}, looked: map[op.Key]bool{}, strandedAt: map[string]time.Time{}}
}

// take takes the lease, or returns the one that another owner holds.
func (s *Service) take(ctx context.Context, owner string, insist bool) (taskop.Run, error) {
	giveUp := s.Clock().Add(askFor)
	for {
		item, err := s.Table.Get(ctx, taskop.AggregatorKey(), true)
		if err != nil {
			return taskop.Run{}, err
		}
		held := taskop.DecodeRun(item)
		now := s.Clock()
		if held.UntilMS < now.UnixMilli() {
			_, err := s.Table.Write(ctx, taskop.TakeRun(held, owner, now.Add(leaseLength).UnixMilli()))
			if err == nil {
				return taskop.Run{Owner: owner, Epoch: held.Epoch + 1, UntilMS: now.Add(leaseLength).UnixMilli()}, nil
			}
			if op.FailedCond(err) == nil {
				return taskop.Run{}, err
			}
			continue
		}
		if !insist || now.After(giveUp) {
			return held, nil
		}
		if held.Wanted == "" {
			if _, err := s.Table.Write(ctx, taskop.AskRun(held, owner)); err != nil && op.FailedCond(err) == nil {
				return taskop.Run{}, err
			}
		}
		select {
		case <-ctx.Done():
			return held, nil
		case <-time.After(askPause):
		}
	}
}

// run is one run under its lease.
type run struct {
	*Service
	lease      taskop.Run
	book       *belief.Book
	loaded     bool           // book is what was published last
	margins    belief.Margins // as published; nil: not read yet
	published  time.Time
	checked    time.Time
	reportedMS int64 // the last report of metrics, as far as this run knows
	counts     map[string]counted
	doubt      map[string]bool   // lanes in which a waiting task was visited: the item may count too little
	parkedFrom map[string]string // per lane, where unparking goes on
	drift      drift
	circuits   circuits
	refused    map[string]bool // replay and task: refused for good
	snapped    map[string]time.Time
	drains     map[string]*fair.Drain // per lane
	looked     map[op.Key]bool        // chains of ordering keys, in this tick
	strandedAt map[string]time.Time   // per lane that was removed, when it was named
}

func (r *run) loop(ctx context.Context, rep *Report) string {
	began := r.Clock()
	liveAt := began
	if end, ok := ctx.Deadline(); ok && end.Sub(began) < runLength {
		began = end.Add(-runLength)
	}
	for {
		tickAt := r.Clock()
		live, err := r.Tick(ctx)
		rep.Ticks++
		now := r.Clock()
		if err != nil && ctx.Err() == nil {
			slog.ErrorContext(ctx, "a tick failed", "error", err)
		}
		if live || err != nil {
			liveAt = now
		}
		wanted, err := r.renew(ctx, now)
		switch {
		case err != nil:
			return "lost"
		case wanted:
			return "asked"
		case r.Stopping != nil && r.Stopping():
			return "stopping"
		case now.Sub(liveAt) >= idleEnd:
			return "idle"
		case now.Sub(began) >= runLength:
			return "time"
		}
		select {
		case <-ctx.Done():
			return "context"
		case <-time.After(max(TickEvery-now.Sub(tickAt), 10*time.Millisecond)):
		}
	}
}

var errLeaseLost = errors.New("aggregate: another run has the lease")

// renew extends the lease. A store that does not answer is survived while the
// lease lasts.
func (r *run) renew(ctx context.Context, now time.Time) (wanted bool, err error) {
	until := now.Add(leaseLength).UnixMilli()
	item, err := r.Table.Write(ctx, taskop.RenewRun(r.lease, until))
	if err == nil {
		r.lease.UntilMS = until
		return taskop.DecodeRun(item).Wanted != "", nil
	}
	if op.FailedCond(err) != nil || now.UnixMilli() > r.lease.UntilMS {
		return false, errLeaseLost
	}
	return false, nil
}

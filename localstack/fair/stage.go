package fair

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// span is one attempt, as the table saw it or, in real time, its handler. Times are ms since the stage began.
type span struct {
	t            *task.Task // as it was claimed
	came         int64
	accepted     int64
	began, ended int64 // ended 0: still running
	service      int64 // what its payload asks for
}

func (s *span) delay() int64 { return s.began - s.came }

// stage is what loads are played on, whatever stands behind it, and a log of what ran.
type stage struct {
	door  door
	start time.Time
	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup

	rngMu sync.Mutex
	rng   *rand.Rand

	mu       sync.Mutex
	spans    []*span
	running  map[string]*span
	waiting  map[string]int   // per tenant, accepted and not begun
	pending  map[string]*span // the same by id
	accepted int
	faults   []string // what did not go as the load meant it
	// When a task was last cancelled, when the figures begin, and when the stage ended.
	lastCancel, from, sinceEnd int64
}

// door is the way in for a load: to the services themselves, or over HTTP.
type door interface {
	enter(tenant string, s intake.Submission) (id string) // "" when it was refused
	withdraw(tenant, id string)                           // cancels
}

// newStage begins one, with chance from a seed.
func newStage(seed uint64) *stage {
	s := &stage{start: clock.System(), rng: rand.New(rand.NewPCG(seed, 7)), running: map[string]*span{}, waiting: map[string]int{}, pending: map[string]*span{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// load is what can be played on a stage.
type load interface{ play(s *stage) }

func (s *stage) sinceMS() int64 { return clock.System().Sub(s.start).Milliseconds() }

func (s *stage) float() float64 {
	s.rngMu.Lock()
	defer s.rngMu.Unlock()
	return s.rng.Float64()
}

func (s *stage) exp(mean time.Duration) time.Duration {
	s.rngMu.Lock()
	defer s.rngMu.Unlock()
	return time.Duration(s.rng.ExpFloat64() * float64(mean))
}

// about is d give or take a half, so that tasks do not end in step.
func (s *stage) about(d time.Duration) time.Duration {
	return d/2 + time.Duration(s.int64N(int64(d)+1))
}

func (s *stage) normal() float64 {
	s.rngMu.Lock()
	defer s.rngMu.Unlock()
	return s.rng.NormFloat64()
}

func (s *stage) int64N(n int64) int64 {
	s.rngMu.Lock()
	defer s.rngMu.Unlock()
	return s.rng.Int64N(n)
}

// submit submits a task that takes service; "" when it was refused.
func (s *stage) submit(tenant, class, priority string, service time.Duration, more ...func(*intake.Submission)) string {
	sub := intake.Submission{Class: class, Priority: priority, Payload: fmt.Sprintf(`{"sleep_ms":%d}`, service.Milliseconds()), RequestHash: "h"}
	for _, m := range more {
		m(&sub)
	}
	return s.door.enter(tenant, sub)
}

// backlog keeps n tasks of a tenant waiting until a time.
func (s *stage) backlog(until int64, n int, tenant string, submit func()) {
	s.wg.Go(func() {
		for s.sinceMS() < until && s.ctx.Err() == nil {
			s.mu.Lock()
			have := s.waiting[tenant]
			s.mu.Unlock()
			if have >= n {
				time.Sleep(50 * time.Millisecond)
				continue
			}
			submit()
		}
	})
}

// nowAndThen submits at random times, on average every so often, until a time.
func (s *stage) nowAndThen(until int64, every time.Duration, submit func()) {
	s.wg.Go(func() {
		for {
			time.Sleep(s.exp(every))
			if s.sinceMS() >= until || s.ctx.Err() != nil {
				return
			}
			submit()
		}
	})
}

// forever is a time that no load reaches: until the stage ends.
const forever = int64(1) << 60

// patience is how long a backlog may take to grow.
const patience = time.Minute

// awaitBacklog waits until n tasks of a tenant wait. Where that takes too long it goes on
// and says so among the stage's faults.
func (s *stage) awaitBacklog(tenant string, n int) {
	for until := s.sinceMS() + patience.Milliseconds(); ; time.Sleep(20 * time.Millisecond) {
		s.mu.Lock()
		have := s.waiting[tenant]
		if have < n && s.sinceMS() > until {
			s.faults = append(s.faults, fmt.Sprintf("only %d of %d tasks waited after %v", have, n, patience))
			have = n
		}
		s.mu.Unlock()
		if have >= n || s.ctx.Err() != nil {
			return
		}
	}
}

// sleepUntil waits for a time of the stage.
func (s *stage) sleepUntil(ms int64) {
	time.Sleep(time.Duration(ms-s.sinceMS()) * time.Millisecond)
}

// log is the spans of which keep says yes.
func (s *stage) log(keep func(*span) bool) []*span {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*span
	for _, x := range s.spans {
		if keep(x) {
			out = append(out, x)
		}
	}
	return out
}

// delays are the start delays of first attempts that came between two times, of some
// tenants or of all; of tasks that had not begun when the stage ended what they had waited by then.
func (s *stage) delays(from, to int64, tenants ...string) (out []int64) {
	in := within(from, to, tenants...)
	for _, x := range s.log(in) {
		out = append(out, x.delay())
	}
	for _, x := range s.pending {
		x.t.Attempt = 1
		if in(x) {
			out = append(out, s.sinceEnd-x.came)
		}
	}
	return out
}

// firstFree is how long after tasks came the first slot of the lane came free that could
// be given to them: after they were accepted, and not given to another of them.
func (s *stage) firstFree(lane string, spans []*span) (out []int64) {
	var ends []int64
	for _, x := range s.log(func(x *span) bool { return x.t.AtLane == lane && x.ended > 0 }) {
		ends = append(ends, x.ended)
	}
	slices.Sort(ends)
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b *span) int { return cmp.Compare(a.accepted, b.accepted) })
	next := 0
	for _, x := range spans {
		at, _ := slices.BinarySearch(ends, x.accepted)
		if at = max(at, next); at < len(ends) {
			out, next = append(out, ends[at]-x.came), at+1
		}
	}
	return out
}

// cancel cancels a task that waits.
func (s *stage) cancel(tenant, id string) {
	s.door.withdraw(tenant, id)
	s.mu.Lock()
	s.lastCancel = s.sinceMS()
	s.mu.Unlock()
}

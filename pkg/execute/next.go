package execute

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/fair"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// readyPeek is how many heads of the ready order a worker looks at.
const readyPeek = 10

// sharedPeek is how far it looks in a lane that several lanes share, past the
// tasks of those that hold their part already.
const sharedPeek = 100

// looks are the pauses before a worker looks again when the lane says that
// somebody waits whom the index does not show yet.
var looks = []time.Duration{0, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond}

// passes are the pauses before a worker tries again to pass its slot on to a task
// whose name in the lane is still another's slot. They last longer than that
// other one's looks.
var passes = []time.Duration{25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond}

// roomForAnother says whether the invocation has time for another attempt.
func (s *Service) roomForAnother(ctx context.Context, lane string) bool {
	end, ok := ctx.Deadline()
	if ctx.Err() != nil || s.Stopping != nil && s.Stopping() {
		return false
	}
	if !ok {
		return true
	}
	need := handBackLead
	if l, known := s.Config.Lane(lane); known {
		need += l.AttemptTimeout.Std()
	}
	return end.Sub(s.Clock()) >= need
}

// handOver gives the slot of an ended attempt to the next waiting task, which
// it claims and returns; or it gives the slot back.
func (s *Service) handOver(ctx context.Context, ended *task.Task) *task.Task {
	lane := ended.AtLane
	if lane == s.Config.RetryLane() {
		return s.handOverShared(ctx, ended)
	}
	for i, pause := range looks {
		if pause > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
		if !s.roomForAnother(ctx, lane) {
			break
		}
		state, err := s.laneNow(ctx, lane)
		if err != nil || state.Paused {
			break
		}
		if state.Ready > 0 || state.Parked > 0 {
			next, err := s.nextOf(ctx, &state, ended)
			if err != nil {
				slog.WarnContext(ctx, "looking for the next task failed", "lane", lane, "error", err)
				break
			}
			if next != nil {
				s.pass(ctx, &state, ended, next)
				return next.Task
			}
			if state.Ready <= 0 {
				i = len(looks) - 1 // only parked tasks, none of them ours to take
			}
		}
		last := i == len(looks)-1
		met, ok := s.writeLane(ctx, taskop.EndRun(lane, ended.ID, !last), lane)
		if ok || met == nil || !met.Has(taskop.RunningEntry(ended.ID)) || last {
			return nil
		}
	}
	s.writeLane(ctx, taskop.EndRun(lane, ended.ID, false), lane)
	return nil
}

// handOverShared gives the slot back and takes one again: in a lane that several
// lanes share, a slot may only go to a task whose lane does not hold its part
// already, and only taking it anew proves that.
func (s *Service) handOverShared(ctx context.Context, ended *task.Task) *task.Task {
	s.writeLane(ctx, taskop.EndRun(ended.AtLane, ended.ID, false), ended.AtLane)
	next, err := s.takeWaiting(ctx, ended.AtLane)
	if err != nil {
		slog.WarnContext(ctx, "looking for the next task failed", "lane", ended.AtLane, "error", err)
	}
	return next
}

// pass gives the slot of an ended attempt to the next one, which has begun.
func (s *Service) pass(ctx context.Context, lane *taskop.Lane, ended *task.Task, next *candidate) {
	swap := taskop.HandOverSlot(lane.Name, ended.ID, s.open(next.Task), next.parked)
	met, ok := s.begin(ctx, swap, lane, next.Task)
	for _, pause := range passes {
		if ok || next.ID == ended.ID || !met.Has(taskop.RunningEntry(next.ID)) || !met.Has(taskop.RunningEntry(ended.ID)) {
			break
		}
		// It goes on after another attempt, whose worker is still passing that one's slot on.
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		met, ok = s.begin(ctx, swap, lane, next.Task)
	}
	begun := false
	if !ok && met.Has(taskop.QueuedEntry(next.ID)) {
		// A release of it, or an earlier try of its submission, stopped half-way: it has
		// a slot of its own; or it goes on itself, and the lane was never told that it ran.
		if _, begun = s.writeLane(ctx, taskop.BeginRun(lane.Name, s.open(next.Task)), lane.Name); !begun {
			_, ok = s.begin(ctx, swap, lane, next.Task) // that release has just been taken back
		}
	}
	switch {
	case ok:
	case begun:
		if next.ID != ended.ID {
			s.writeLane(ctx, taskop.EndRun(lane.Name, ended.ID, false), lane.Name)
		} else {
			s.writeLane(ctx, taskop.LeaveReady(lane.Name, next.AmountMS, next.parked), lane.Name)
		}
	default:
		// The slot was repaired away under us: count the new attempt afresh. If it is
		// named already, only the answer to the hand-over was lost.
		for try := 0; !ok && try < laneTries; try++ {
			if met, ok = s.writeLane(ctx, taskop.AdoptOpen(lane.Name, s.open(next.Task)), lane.Name); ok {
				s.writeLane(ctx, taskop.LeaveReady(lane.Name, next.AmountMS, next.parked), lane.Name)
			} else if met != nil {
				break // named already
			}
		}
	}
}

// begin writes a lane, as it was read, by which a task begins out of the backlog, and
// moves its virtual time on.
func (s *Service) begin(ctx context.Context, w op.Write, lane *taskop.Lane, t *task.Task) (met op.Item, ok bool) {
	virtual := fair.Virtual(t.Tag, t.ShiftMS)
	met, ok = s.writeLane(ctx, taskop.Advance(w, lane.Virtual, virtual), lane.Name)
	if !ok && taskop.Beyond(met, virtual) && virtual > lane.Virtual {
		met, ok = s.writeLane(ctx, w, lane.Name)
	}
	return met, ok
}

// laneNow reads the lane item; old news only cost a look in vain.
func (s *Service) laneNow(ctx context.Context, lane string) (taskop.Lane, error) {
	item, err := s.Table.Get(ctx, taskop.LaneKey(lane), true)
	if err != nil {
		return taskop.Lane{}, err
	}
	return taskop.DecodeLane(lane, item)
}

// candidate is a task found waiting.
type candidate struct {
	*task.Task
	parked bool
}

// nextOf claims the first waiting task that can be claimed, in order. The head
// of one tenant's parked list stands in the order like anybody else, since that tenant
// just ended an attempt.
func (s *Service) nextOf(ctx context.Context, lane *taskop.Lane, ended *task.Task) (*candidate, error) {
	heads, err := s.heads(ctx, lane, ended)
	if err != nil {
		return nil, err
	}
	running := make(map[string]bool, len(lane.Tasks))
	for _, o := range lane.Tasks {
		running[o.ID] = o.Running
	}
	for _, h := range heads {
		if running[h.id] && h.id != ended.ID {
			continue // it goes on, and the worker that ran it has not passed its slot on yet
		}
		t, err := s.read(ctx, h.tenant, h.id)
		if err != nil {
			return nil, err
		}
		if t == nil || t.State != task.Waiting || t.AtLane != lane.Name || lane.Halts(t.Class) {
			continue // an old index entry, or a class that the aggregator holds back
		}
		if t.TooLate(s.Clock().UnixMilli()) {
			if err := s.expire(ctx, t); err != nil {
				return nil, err
			}
			continue
		}
		parked := t.Parked
		claimed, full, err := s.claim(ctx, t)
		switch {
		case err != nil:
			return nil, err
		case claimed != nil:
			return &candidate{claimed, parked}, nil
		case full && !parked:
			if err := s.parkWaiting(ctx, t); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// parkWaiting takes a waiting task whose tenant is at max_active out of the order.
func (s *Service) parkWaiting(ctx context.Context, t *task.Task) error {
	if _, err := s.Table.Write(ctx, taskop.ParkRow(t, s.parkedDue(t))); err != nil {
		if op.FailedCond(err) != nil {
			return nil
		}
		return err
	}
	s.writeLane(ctx, taskop.ParkReady(t.AtLane), t.AtLane)
	return nil
}

type head struct{ tenant, id, order string }

// heads lists the first waiting tasks in order.
// Where slots are kept for low priority and it holds fewer than these, its own come first.
func (s *Service) heads(ctx context.Context, lane *taskop.Lane, ended *task.Task) ([]head, error) {
	out, err := s.headsIn(ctx, lane, ended, taskop.ReadyPartition(lane.Name))
	kept := s.Config.LowSlots(lane.Name, int(lane.Slots))
	if err != nil || kept == 0 || lane.Ready <= 0 {
		return out, err
	}
	low, err := s.headsIn(ctx, lane, nil, taskop.LowPartition(lane.Name))
	if err != nil {
		return nil, err
	}
	held := lane.LowHeld()
	if ended != nil && ended.Low && ended.AtLane == ended.Lane {
		held-- // its slot is the one that is given
	}
	out = append(low, out...)
	if held >= kept {
		slices.SortStableFunc(out, func(a, b head) int { return strings.Compare(a.order, b.order) })
	}
	return out, nil
}

// headsIn lists the first tasks in one part of the order, and among them the head of what is
// parked of the tenant whose attempt ended.
func (s *Service) headsIn(ctx context.Context, lane *taskop.Lane, ended *task.Task, partition string) ([]head, error) {
	var out []head
	if lane.Ready > 0 {
		q := op.Query{Index: op.IndexReady, PK: partition, Limit: readyPeek}
		if lane.Name == s.Config.RetryLane() {
			q.Limit = sharedPeek
		}
		page, err := q.First(ctx, s.Table)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Rows {
			if e, err := taskop.ParseReadySort(r.Item.Str("rs")); err == nil && lane.OriginFull(e.Origin) {
				continue
			}
			if len(out) == readyPeek {
				break
			}
			if owner, id, ok := taskop.ParseRowKey(r.Key); ok {
				out = append(out, head{owner, id, r.Item.Str("rs")})
			}
		}
	}
	if lane.Parked <= 0 || ended == nil {
		return out, nil
	}
	tenant := ended.Tenant
	from, to := taskop.ParkedRange(tenant)
	page, err := op.Query{Index: op.IndexReady, PK: taskop.ParkedPartition(lane.Name), From: from, To: to, Limit: 1}.First(ctx, s.Table)
	if err != nil {
		return nil, err
	}
	for _, r := range page.Rows {
		_, id, ok := taskop.ParseRowKey(r.Key)
		if !ok {
			continue
		}
		h := head{tenant, id, taskop.OrderOf(r.Item.Str("rs"))}
		at := len(out)
		for at > 0 && h.order < out[at-1].order {
			at--
		}
		out = append(out[:at], append([]head{h}, out[at:]...)...)
	}
	return out, nil
}

// takeWaiting takes a free slot for the head of the ready order and claims it:
// what a worker does that was woken but has no slot to hand over.
func (s *Service) takeWaiting(ctx context.Context, lane string) (*task.Task, error) {
	state, err := s.laneNow(ctx, lane)
	if err != nil || state.Paused || state.Ready <= 0 || state.Open >= state.Slots || !s.roomForAnother(ctx, lane) {
		return nil, err
	}
	heads, err := s.heads(ctx, &state, nil)
	if err != nil {
		return nil, err
	}
	for _, h := range heads {
		t, err := s.read(ctx, h.tenant, h.id)
		if err != nil {
			return nil, err
		}
		if t == nil || t.State != task.Waiting || t.AtLane != lane || t.Parked || state.Halts(t.Class) {
			continue
		}
		if t.TooLate(s.Clock().UnixMilli()) {
			if err := s.expire(ctx, t); err != nil {
				return nil, err
			}
			continue
		}
		slot := taskop.OpenOf(t, s.Clock().UnixMilli())
		if state.OriginFull(slot.Origin) {
			continue
		}
		if _, ok := s.begin(ctx, taskop.ReleaseSlotOf(&state, slot, false), &state, t); !ok {
			return nil, nil // no slot after all
		}
		claimed, full, err := s.claim(ctx, t)
		if claimed != nil {
			s.writeLane(ctx, taskop.BeginRun(lane, s.open(claimed)), lane)
			return claimed, nil
		}
		if err != nil {
			return nil, err // whether it was claimed is unknown: the slot stays taken until repaired
		}
		s.writeLane(ctx, taskop.UnreleaseSlot(lane, slot, false), lane)
		state.Shared++ // ours: it was given and taken back
		if full {
			if err := s.parkWaiting(ctx, t); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

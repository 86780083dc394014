package admission

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/wait"
)

// ms draws figures of a size at which the limits interact.
func ms() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(0, 12), rapid.Int64Range(0, 200))
}

// anyMS draws any figure at all, also senseless ones.
func anyMS() *rapid.Generator[int64] {
	return rapid.OneOf(ms(), rapid.Int64(), rapid.Int64Range(math.MaxInt64-3, math.MaxInt64))
}

// task is a piece of queued work.
type task struct {
	amount       int64
	ours, inLane bool // of the tenant that asks, in the lane it asks for
}

func drawTask(t *rapid.T) task {
	k := task{rapid.Int64Range(1, 40).Draw(t, "amount"), rapid.Bool().Draw(t, "ours"), rapid.Bool().Draw(t, "inLane")}
	k.inLane = k.inLane || !k.ours // what is neither concerns nobody here
	return k
}

// state is a lane, a tenant and the queued tasks that make up their work.
type state struct {
	lane   LaneView
	tenant TenantView
	queued []task
}

func (s *state) enter(k task) {
	if k.inLane {
		s.lane.WorkMS += k.amount
		s.lane.EnteredMS += k.amount
	}
	if k.ours {
		s.tenant.WorkMS += k.amount
		s.tenant.EnteredMS += k.amount
		s.tenant.DayWorkMS += k.amount
	}
	s.queued = append(s.queued, k)
}

// claim starts task i if a slot is free for it now; it is expected to hold it for its amount.
func (s *state) claim(i int) {
	k := s.queued[i]
	take := func(free []int64) []int64 {
		free = slices.Clone(free)
		free[0] = k.amount
		slices.Sort(free)
		return free
	}
	open := func(free []int64) bool { return len(free) > 0 && free[0] == 0 }
	if k.inLane && !open(s.lane.Free) || k.ours && !open(s.tenant.Free) {
		return
	}
	if k.inLane {
		s.lane.WorkMS -= k.amount
		s.lane.Free = take(s.lane.Free)
	}
	if k.ours {
		s.tenant.WorkMS -= k.amount
		s.tenant.Free = take(s.tenant.Free)
	}
	s.queued = slices.Delete(slices.Clone(s.queued), i, i+1)
}

func drawState(t *rapid.T) state {
	residuals := func(label string) []int64 { return rapid.SliceOfN(ms(), 0, 5).Draw(t, label) }
	workers := rapid.IntRange(0, 4).Draw(t, "workers")
	s := state{
		lane: LaneView{
			Name: "standard", Workers: workers, Slots: workers, Paused: rapid.IntRange(0, 9).Draw(t, "paused") == 0,
			Free: wait.Slots(nil, residuals("running"), workers), MaxWorkMS: rapid.Int64Range(0, 400).Draw(t, "max_work"),
		},
		tenant: TenantView{
			Free:    wait.Slots(nil, residuals("own"), rapid.IntRange(0, 4).Draw(t, "active")),
			LimitMS: rapid.Int64Range(0, 300).Draw(t, "limit"), DayLimitMS: rapid.Int64Range(0, 400).Draw(t, "daily"),
			DayResetMS: ms().Draw(t, "reset"),
		},
	}
	s.lane.EnteredMS, s.tenant.EnteredMS = ms().Draw(t, "entered"), ms().Draw(t, "tenant entered")
	for range rapid.IntRange(0, 4).Draw(t, "queued") {
		s.enter(drawTask(t))
	}
	return s
}

func drawRequest(t *rapid.T) Request {
	return Request{
		AmountMS: rapid.Int64Range(0, 40).Draw(t, "want"), P95MS: ms().Draw(t, "p95"),
		MarginMS: rapid.Int64Range(0, 5).Draw(t, "margin"), DeadlineMS: rapid.Int64Range(0, 600).Draw(t, "deadline"),
		MaxWaitMS: ms().Draw(t, "max_wait"), Probe: rapid.IntRange(0, 9).Draw(t, "probe") == 0,
	}
}

func passes(g Guard, s *state) bool {
	return s.lane.EnteredMS <= g.LaneEnteredMaxMS && s.tenant.EnteredMS <= g.TenantEnteredMaxMS &&
		s.tenant.WorkMS <= g.TenantWorkMaxMS && s.tenant.DayWorkMS <= g.DayWorkMaxMS
}

// Whatever others are accepted between the copy and the write, the guard passes exactly when the decision on the true
// state would have been an acceptance.
func TestGuardEqualsTheDecisionOnTheTrueState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, req := drawState(t), drawRequest(t)
		d := Decide(req, &s.lane, &s.tenant)
		if d.Accepted() != passes(d.Guard, &s) {
			t.Fatalf("on its own copy: %s, guard %+v", d.Code, d.Guard)
		}
		if !d.Accepted() {
			return
		}
		for range rapid.IntRange(0, 6).Draw(t, "others") {
			s.enter(drawTask(t))
			now := Decide(req, &s.lane, &s.tenant)
			if passes(d.Guard, &s) != now.Accepted() {
				t.Fatalf("guard passes: %v, decision on the true state: %s %s", passes(d.Guard, &s), now.Code, now.Binding)
			}
		}
	})
}

// With claims in between as well the guard may refuse too much, and still never lets pass what would be refused.
func TestGuardIsSoundUnderClaims(t *testing.T) {
	passed := 0
	rapid.Check(t, func(t *rapid.T) {
		s, req := drawState(t), drawRequest(t)
		d := Decide(req, &s.lane, &s.tenant)
		if !d.Accepted() {
			return
		}
		for range rapid.IntRange(1, 8).Draw(t, "events") {
			if len(s.queued) > 0 && rapid.Bool().Draw(t, "claim") {
				s.claim(rapid.IntRange(0, len(s.queued)-1).Draw(t, "which"))
			} else {
				s.enter(drawTask(t))
			}
			if !passes(d.Guard, &s) {
				continue
			}
			passed++
			if now := Decide(req, &s.lane, &s.tenant); !now.Accepted() {
				t.Fatalf("the guard passes, the true state says %s %s\nlane %+v\ntenant %+v", now.Code, now.Binding, s.lane, s.tenant)
			}
		}
	})
	if passed == 0 {
		t.Fatal("no guard ever passed: nothing was tested")
	}
}

func TestMoreLoadNeverAccepts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		residuals, own := rapid.SliceOfN(ms(), 0, 6).Draw(t, "running"), rapid.SliceOfN(ms(), 0, 6).Draw(t, "own")
		s, req := drawState(t), drawRequest(t)
		workers, active := s.lane.Workers, len(s.tenant.Free)
		s.lane.Free, s.tenant.Free = wait.Slots(nil, residuals, workers), wait.Slots(nil, own, active)
		before := Decide(req, &s.lane, &s.tenant)
		more := ms().Draw(t, "more")
		switch rapid.IntRange(0, 9).Draw(t, "what") {
		case 0:
			s.lane.WorkMS += more
		case 1:
			s.tenant.WorkMS += more
		case 2:
			s.tenant.DayWorkMS += more
		case 3:
			s.lane.Free = wait.Slots(nil, append(residuals, more), workers)
		case 4:
			s.tenant.Free = wait.Slots(nil, append(own, more), active)
		case 5:
			s.lane.Free, s.lane.Workers = wait.Slots(nil, residuals, workers-1), workers-1
		case 6:
			s.tenant.RateWaitMS += more
		case 7:
			req.AmountMS += more
		case 8:
			req.P95MS += more
		case 9:
			s.enter(task{max(more, 1), true, true})
		}
		after := Decide(req, &s.lane, &s.tenant)
		if !before.Accepted() && after.Accepted() {
			t.Fatalf("more load turns %s %s into an acceptance", before.Code, before.Binding)
		}
		// The guard of the lighter state is the wider one, too.
		if after.Accepted() && after.Guard.TenantWorkMaxMS > before.Guard.TenantWorkMaxMS {
			t.Fatalf("more load widens the guard: %+v, %+v", before.Guard, after.Guard)
		}
	})
}

func TestALaterDeadlineNeverRejects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, req := drawState(t), drawRequest(t)
		before := Decide(req, &s.lane, &s.tenant)
		later := req
		later.DeadlineMS = max(req.DeadlineMS, anyMS().Draw(t, "later"))
		after := Decide(later, &s.lane, &s.tenant)
		if before.Accepted() && !after.Accepted() {
			t.Fatalf("a later deadline turns an acceptance into %s", after.Code)
		}
		if before.Accepted() && after.Guard.LaneEnteredMaxMS < before.Guard.LaneEnteredMaxMS {
			t.Fatal("a later deadline narrows the guard")
		}
	})
}

// Who obeys the guidance finds room, if lane and tenant each drain through their own slots as predicted and nothing
// else comes in.
func TestObeyingTheGuidanceWorks(t *testing.T) {
	obeyed := map[Binding]int{BindingTenantQueuedWork: 0, BindingLaneMaxWork: 0, BindingLaneMaxWait: 0,
		BindingTenantMaxWait: 0, BindingLaneDeadline: 0, BindingTenantDeadline: 0}
	rapid.Check(t, func(t *rapid.T) {
		s, req := drawState(t), drawRequest(t)
		s.lane.Paused, s.tenant.DayLimitMS = false, 0
		d := Decide(req, &s.lane, &s.tenant)
		if d.Accepted() || d.Code == DeadlineInfeasible || d.RetryAfterMS >= PausedRetryMS {
			return
		}
		s.lane.WorkMS, s.lane.Free = after(s.lane.WorkMS, s.lane.Free, d.RetryAfterMS)
		s.tenant.WorkMS, s.tenant.Free = after(s.tenant.WorkMS, s.tenant.Free, d.RetryAfterMS)
		if again := Decide(req, &s.lane, &s.tenant); !again.Accepted() {
			t.Fatalf("%s %s said %d ms; then %s %s\nlane %+v\ntenant %+v", d.Code, d.Binding, d.RetryAfterMS, again.Code,
				again.Binding, s.lane, s.tenant)
		}
		obeyed[d.Binding]++
	})
	t.Log(obeyed)
	total := 0
	for _, n := range obeyed {
		total += n
	}
	if total == 0 {
		t.Fatal("no rejection was obeyed: nothing was tested")
	}
}

// after lets ms pass: slots come free and take in queued work as a fluid.
func after(work int64, free []int64, ms int64) (int64, []int64) {
	left := max(0, work-max(wait.Room(free, ms), 0))
	free = slices.Clone(free)
	for i := range free {
		free[i] = max(free[i]-ms, 0)
	}
	return left, free
}

// decideAnything checks what must hold for any figures, senseless ones included.
func decideAnything(t *rapid.T) {
	free := func(label string) []int64 {
		return wait.Slots(nil, rapid.SliceOfN(anyMS(), 0, 4).Draw(t, label), rapid.IntRange(0, 4).Draw(t, label+" slots"))
	}
	lane := &LaneView{Workers: rapid.IntRange(-1, 4).Draw(t, "workers"), Free: free("lane"), WorkMS: anyMS().Draw(t, "work"),
		EnteredMS: anyMS().Draw(t, "entered"), MaxWorkMS: anyMS().Draw(t, "max_work")}
	tenant := &TenantView{WorkMS: anyMS().Draw(t, "t.work"), EnteredMS: anyMS().Draw(t, "t.entered"),
		LimitMS: anyMS().Draw(t, "limit"), Free: free("tenant"), DayWorkMS: anyMS().Draw(t, "day"),
		DayLimitMS: anyMS().Draw(t, "daily"), DayResetMS: anyMS().Draw(t, "reset"), RateWaitMS: anyMS().Draw(t, "rate")}
	req := Request{AmountMS: anyMS().Draw(t, "amount"), P95MS: anyMS().Draw(t, "p95"), MarginMS: anyMS().Draw(t, "margin"),
		DeadlineMS: anyMS().Draw(t, "deadline"), MaxWaitMS: anyMS().Draw(t, "max_wait"), Probe: rapid.Bool().Draw(t, "probe")}
	d := Decide(req, lane, tenant)
	if (d.Code == Accept) != (d.Binding == BindingNone) || d.EstimateMS < 1 || d.RetryAfterMS < 0 {
		t.Fatalf("%+v", d)
	}
	s := state{lane: *lane, tenant: *tenant}
	if passes(d.Guard, &s) && !d.Accepted() && min(lane.EnteredMS, tenant.EnteredMS, tenant.WorkMS, tenant.DayWorkMS) >= 0 {
		t.Fatalf("a rejection's guard passes: %+v", d)
	}
	if d.Accepted() && !passes(d.Guard, &s) {
		t.Fatalf("an acceptance's guard fails on its own copy: %+v", d)
	}
	if !d.Accepted() || req.Probe {
		return
	}
	if d.PredictedWaitMS >= d.DeadlineMS-d.ServiceP95MS-d.MarginMS || d.EstimateMS > tenant.LimitMS || d.EstimateMS > lane.MaxWorkMS {
		t.Fatalf("accepted past a limit: %+v", d)
	}
}

func TestDecideAnything(t *testing.T) { rapid.Check(t, decideAnything) }

func FuzzDecide(f *testing.F) { f.Fuzz(rapid.MakeFuzz(decideAnything)) }

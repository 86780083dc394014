package intake

import (
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/admission"
	"github.com/lanekeeper/lanekeeper/pkg/belief"
	"github.com/lanekeeper/lanekeeper/pkg/fair"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/wait"
)

// prepared is a valid submission with all that the configuration and the
// credential add to it.
type prepared struct {
	Submission
	who          Principal
	tier         *policy.Tier
	lane         *policy.Lane
	bucket       string
	priority     *policy.Priority
	priorityName string
	deadlineMS   int64
	class        *policy.Class
	receivedMS   int64
	id           string
}

// residuals are how long the running attempts of a lane are expected to run on,
// of one tenant's if tenant is not "".
func (s *Service) residuals(dst []int64, lane *taskop.Lane, book *belief.Book, tenant string, nowMS int64) []int64 {
	for i := range lane.Tasks {
		o := &lane.Tasks[i]
		if !o.Running || tenant != "" && o.Tenant != tenant {
			continue
		}
		age := max(nowMS-o.SinceMS, 0)
		left := max(s.attemptTimeoutMS(lane.Name)-age, 0)
		if e := book.Get(o.Class, o.Bucket); e != nil {
			dst = append(dst, e.ResidualMS(age, left))
		} else {
			dst = append(dst, min(o.AmountMS, left))
		}
	}
	return dst
}

func (s *Service) attemptTimeoutMS(lane string) int64 {
	l, ok := s.Config.Lane(lane)
	if !ok {
		return 0
	}
	return l.AttemptTimeout.MS()
}

// laneView is what a decision sees of a lane.
func (s *Service) laneView(c *laneCopy, book *belief.Book, now time.Time) admission.LaneView {
	workers := s.Config.Workers(c.Name)
	slots := s.Config.Slots(c.Name)
	if open := int(c.Slots); open < slots { // lowered: a brake
		workers = workers * open / slots
		slots = open
	}
	var maxWork int64
	if l, ok := s.Config.Lane(c.Name); ok {
		maxWork = l.Backlog.MaxWork.MS()
	}
	return admission.LaneView{
		Name: c.Name, Paused: c.Paused, Workers: workers, Slots: slots, Open: int(c.Open), Ready: int(c.Ready),
		WorkMS: c.WorkMS, EnteredMS: c.EnteredMS, MaxWorkMS: maxWork,
		Free:      wait.Slots(nil, s.residuals(nil, &c.Lane, book, "", now.UnixMilli()), workers),
		CopyAgeMS: max(now.Sub(c.at).Milliseconds(), 0),
	}
}

func gcra(t *policy.Tier) admission.GCRA { return admission.NewGCRA(t.Rate, int64(t.Burst)) }

// start is the start tag of the tenant's next task in the lane.
func start(p *prepared, v *view) int64 {
	return fair.Start(v.lane.Virtual, v.ledger.Finish[p.lane.Name])
}

// key is where the task would stand in the lane's order.
func key(p *prepared, v *view) int64 {
	return start(p, v) + fair.Shift(policy.PriorityRank(p.priorityName))
}

// place says how much of the lane's queued work stands behind a key, so that the
// level is poured from the rest. Tasks of tenants at their max_active can only follow one another in the
// slots that their tenants hold: where that gives the shorter wait, their work is
// poured into these slots alone. Both are bounds from above.
func (s *Service) place(key int64, v *view, lane *admission.LaneView, nowMS int64) {
	if v.lane.Ready+v.lane.Parked <= 0 || v.snap.Snapshot == nil {
		return
	}
	var inSlots int64
	for _, o := range v.lane.Tasks {
		if !o.Running {
			inSlots += o.AmountMS
		}
	}
	ahead := v.snap.Ahead(key, fair.Now{WorkMS: lane.WorkMS, InSlotsMS: inSlots, EnteredMS: lane.EnteredMS, Virtual: v.lane.Virtual,
		BehindMS: s.ownBehind(lane.Name, key, v.snap.EnteredMS, lane.EnteredMS)})
	lane.BehindMS = lane.WorkMS - ahead
	var apart int64
	var residuals []int64
	held := map[string]bool{}
	for _, g := range v.snap.Parked {
		work := g.Points.Before(key)
		own := s.residuals(nil, &v.lane.Lane, v.book, g.Tenant, nowMS)
		if work == 0 || len(own) == 0 {
			continue
		}
		slices.Sort(own)
		level := wait.Level(own, work)
		for range own {
			residuals = append(residuals, level)
		}
		held[g.Tenant] = true
		apart += work
	}
	if apart == 0 || apart > ahead {
		return
	}
	for i := range v.lane.Tasks {
		if t := v.lane.Tasks[i].Tenant; !held[t] {
			held[t] = true
			residuals = s.residuals(residuals, &v.lane.Lane, v.book, t, nowMS)
		}
	}
	free := wait.Slots(nil, residuals, lane.Workers)
	if wait.Level(free, ahead-apart) < wait.Level(lane.Free, ahead) {
		lane.Free, lane.BehindMS = free, lane.WorkMS-ahead+apart
	}
}

// decide makes the decision on the copies in v.
func (s *Service) decide(p *prepared, v *view, now time.Time) admission.Decision {
	nowMS := now.UnixMilli()
	est := v.book.Get(p.Class, p.bucket)
	lane := s.laneView(&v.lane, v.book, now)
	s.place(key(p, v), v, &lane, nowMS)
	running := s.residuals(nil, &v.lane.Lane, v.book, p.who.Tenant, nowMS)
	for i := range v.others {
		running = s.residuals(running, &v.others[i].Lane, v.book, p.who.Tenant, nowMS)
	}
	rateWait, _ := gcra(p.tier).Check(v.ledger.TATMicros, now.UnixMicro())
	tenant := admission.TenantView{
		WorkMS: v.ledger.WorkMS, EnteredMS: v.ledger.EnteredMS, LimitMS: p.tier.MaxQueuedWork.MS(),
		Free:      wait.Slots(nil, running, min(p.tier.MaxActive, s.allWorkers)),
		DayWorkMS: v.ledger.DayWork(taskop.Day(nowMS)), DayLimitMS: p.tier.DailyWork.MS(), DayResetMS: taskop.DayEndMS(nowMS),
		RateWaitMS: rateWait,
	}
	req := admission.Request{
		AmountMS: est.AmountMS(), P95MS: est.P95MS, MarginMS: p.lane.SafetyMargin.MS(),
		DeadlineMS: p.deadlineMS, MaxWaitMS: p.priority.MaxWait.MS(), Samples: est.Samples,
	}
	return admission.Decide(req, &lane, &tenant)
}

// figures is a decision as clients see it.
func figures(d *admission.Decision) *events.Decision {
	seconds := func(ms int64) events.Seconds {
		if ms >= wait.Infinite {
			return events.Unbounded
		}
		return events.Seconds(ms)
	}
	return &events.Decision{
		Code: events.Code(d.Code), BindingLimit: events.Null(d.Binding), Lane: d.Lane, Estimate: events.Seconds(d.EstimateMS), Samples: d.Samples,
		PredictedWait: seconds(d.PredictedWaitMS), ServiceP95: events.Seconds(d.ServiceP95MS), Margin: events.Seconds(d.MarginMS),
		Deadline: events.Seconds(d.DeadlineMS), QueuedWork: events.Seconds(d.QueuedWorkMS), Slots: d.Slots,
		TenantQueuedWork: events.Seconds(d.TenantQueuedWorkMS), TenantLimit: events.Seconds(d.TenantLimitMS),
		CopyAge: events.Seconds(d.CopyAgeMS), Probe: d.Probe,
	}
}

package intake

import (
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
	chain        taskop.Chain // of the ordering key, as it was read
	probe        bool         // it has its class's turn for a probe
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

// tenantFree are the free times of the slots that a tenant's max_active gives it.
func (s *Service) tenantFree(tier *policy.Tier, tenant string, v *view, nowMS int64) []int64 {
	running := s.residuals(nil, &v.lane.Lane, v.book, tenant, nowMS)
	for i := range v.others {
		running = s.residuals(running, &v.others[i].Lane, v.book, tenant, nowMS)
	}
	return wait.Slots(nil, running, min(tier.MaxActive, s.allWorkers))
}

// decide makes the decision on the copies in v.
func (s *Service) decide(p *prepared, v *view, now time.Time) admission.Decision {
	nowMS := now.UnixMilli()
	est := v.book.Get(p.Class, p.bucket)
	lane := s.laneView(&v.lane, v.book, now)
	s.place(key(p, v), s.low(p), v, &lane, nowMS)
	rateWait, _ := gcra(p.tier).Check(v.ledger.TATMicros, now.UnixMicro())
	tenant := admission.TenantView{
		WorkMS: v.ledger.WorkMS, EnteredMS: v.ledger.EnteredMS, LimitMS: p.tier.MaxQueuedWork.MS(),
		Free:      s.tenantFree(p.tier, p.who.Tenant, v, nowMS),
		DayWorkMS: v.ledger.DayWork(taskop.Day(nowMS)), DayLimitMS: p.tier.DailyWork.MS(), DayResetMS: taskop.DayEndMS(nowMS),
		RateWaitMS: rateWait, ChainMS: p.chain.WorkMS,
	}
	req := admission.Request{
		AmountMS: est.AmountMS(), P95MS: est.P95MS, MarginMS: v.margin.Of(p.lane),
		DeadlineMS: p.deadlineMS, MaxWaitMS: p.priority.MaxWait.MS(), Samples: est.Samples, Probe: p.probe,
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

package admission

import (
	"math"

	"github.com/lanekeeper/lanekeeper/pkg/wait"
)

// unlimited is a guard that every stored value passes.
const unlimited int64 = math.MaxInt64

// Decide applies the rules in this order; the first that fails names the decision:
//
//	deadline_infeasible    p95 + margin >= deadline: not even an empty lane could
//	reject_lane_paused     the lane is paused
//	reject_rate_limit      the tenant's rate
//	reject_tenant_limit    tenant.work + amount > limit, or the same for its daily work
//	reject_lane_backlog    lane.work + amount > max_work, or predicted wait > max_wait
//	reject_deadline        predicted wait + p95 + margin >= deadline
//
// The predicted wait is the larger of two water levels (package wait): the lane's, and the tenant's over its own
// max_active slots. Where the tenant's is the larger, the binding limit says so, and a broken max_wait is the tenant's
// limit (reject_tenant_limit), not the lane's backlog. For a probe p95 is 0 in these checks.
func Decide(req Request, lane *LaneView, tenant *TenantView) Decision {
	amount := max(req.AmountMS, 1)
	p95, margin, deadline := max(req.P95MS, 0), max(req.MarginMS, 0), max(req.DeadlineMS, 0)
	ahead := lane.ahead()
	laneWait := lane.WaitMS()
	tenantWait := max(wait.Level(tenant.Free, tenant.WorkMS), tenant.ChainMS)
	need := satAdd(p95, margin)
	if req.Probe {
		need = margin
	}
	s := situation{
		amount: amount,
		wait:   max(laneWait, tenantWait),
		// The longest wait that passes: p95 + margin + fit < deadline and fit <= max_wait. Negative: infeasible.
		fit:    min(max(req.MaxWaitMS, 0), deadline-need-1),
		ahead:  ahead,
		lane:   lane,
		tenant: tenant,
	}
	d := Decision{
		Code: Accept, Lane: lane.Name,
		EstimateMS: amount, Samples: req.Samples,
		PredictedWaitMS: s.wait, LaneWaitMS: laneWait, TenantWaitMS: tenantWait,
		RatioWaitMS:  wait.Ratio(lane.WorkMS, lane.Workers),
		ServiceP95MS: p95, MarginMS: margin, DeadlineMS: deadline,
		QueuedWorkMS: lane.WorkMS, Slots: lane.Workers,
		TenantQueuedWorkMS: tenant.WorkMS, TenantLimitMS: tenant.LimitMS,
		CopyAgeMS: lane.CopyAgeMS, Probe: req.Probe,
		Guard: Guard{-1, -1, -1, -1},
	}
	byTenant := tenantWait > laneWait

	switch {
	case need >= deadline:
		d.Code, d.Binding = DeadlineInfeasible, BindingServiceTime
	case lane.Paused:
		d.Code, d.Binding, d.RetryAfterMS = RejectLanePaused, BindingLanePaused, PausedRetryMS
	case tenant.RateWaitMS > 0:
		d.Code, d.Binding, d.RetryAfterMS = RejectRateLimit, BindingTenantRate, tenant.RateWaitMS
	case !fits(tenant.WorkMS, amount, tenant.LimitMS):
		d.Code, d.Binding, d.RetryAfterMS = RejectTenantLimit, BindingTenantQueuedWork, s.retryAfter()
	case tenant.DayLimitMS != 0 && !fits(tenant.DayWorkMS, amount, tenant.DayLimitMS):
		d.Code, d.Binding, d.RetryAfterMS = RejectTenantLimit, BindingTenantDailyWork, s.retryAfter()
	case !fits(lane.WorkMS, amount, lane.MaxWorkMS):
		d.Code, d.Binding, d.RetryAfterMS = RejectLaneBacklog, BindingLaneMaxWork, s.retryAfter()
	case s.wait > max(req.MaxWaitMS, 0):
		d.Code, d.Binding, d.RetryAfterMS = RejectLaneBacklog, BindingLaneMaxWait, s.retryAfter()
		if byTenant {
			d.Code, d.Binding = RejectTenantLimit, BindingTenantMaxWait
		}
	case s.wait > s.fit:
		d.Code, d.Binding, d.RetryAfterMS = RejectDeadline, BindingLaneDeadline, s.retryAfter()
		if byTenant {
			d.Binding = BindingTenantDeadline
		}
	default:
		d.Guard = s.guard()
	}
	return d
}

// situation is what the later steps of a decision need.
type situation struct {
	amount int64
	wait   int64 // predicted
	fit    int64 // longest wait that would pass
	ahead  int64 // the lane's queued work that stands before the task
	lane   *LaneView
	tenant *TenantView
}

// guard returns the conditions of the write. Before the write, all that entered since the copy may still be waiting,
// so the queued work is at most work_copy + (entered − entered_copy); that must not exceed what fits. A condition on
// the work itself would be unsound: a claim lowers it while it makes a slot free later.
func (s *situation) guard() Guard {
	// How much more may enter: by the backlog, of which all work counts, and by time, of which only what stands before
	// the task does. Where what entered stands is not known, so all of it counts for both.
	laneRoom := min(s.lane.MaxWorkMS-s.amount-max(s.lane.WorkMS, 0), unstretched(wait.Room(s.lane.Free, s.fit), s.lane.Stretch)-s.ahead)
	tenantEntered := satAdd(max(s.tenant.EnteredMS, 0), wait.Room(s.tenant.Free, s.fit)-max(s.tenant.WorkMS, 0))
	g := Guard{
		LaneEnteredMaxMS:   satAdd(max(s.lane.EnteredMS, 0), laneRoom),
		TenantEnteredMaxMS: tenantEntered,
		TenantWorkMaxMS:    s.tenant.LimitMS - s.amount,
		DayWorkMaxMS:       unlimited,
	}
	if s.tenant.DayLimitMS != 0 {
		g.DayWorkMaxMS = s.tenant.DayLimitMS - s.amount
	}
	return g
}

// ahead is the lane's queued work that stands before the task.
func (l *LaneView) ahead() int64 { return max(l.WorkMS, 0) - min(max(l.BehindMS, 0), max(l.WorkMS, 0)) }

// WaitMS is the lane's level for a task that the work but BehindMS stands before.
func (l *LaneView) WaitMS() int64 { return wait.Level(l.Free, stretched(l.ahead(), l.Stretch)) }

// stretched is work·stretch/1000, rounded up; unstretched is its inverse, the most work that is no more than room when
// stretched.
func stretched(work, stretch int64) int64 {
	if stretch <= 1000 || work <= 0 {
		return work
	}
	return mulDiv(work, stretch, 1000)
}

func unstretched(room, stretch int64) int64 {
	if stretch <= 1000 || room <= 0 || room == wait.Infinite {
		return room
	}
	return satAdd(room/stretch*1000, room%stretch*1000/stretch)
}

// fits reports whether work + amount <= limit, without overflow; amount is at least 1.
func fits(work, amount, limit int64) bool {
	return amount <= limit && max(work, 0) <= limit-amount
}

func satAdd(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

package intake

import (
	"fmt"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/admission"
)

// explain says in a sentence which limit refused and by which figures.
func explain(d *admission.Decision) string {
	s := func(ms int64) string { return events.Seconds(ms).String() + " s" }
	switch d.Binding {
	case admission.BindingServiceTime:
		return fmt.Sprintf("the deadline of %s leaves no room for a service time of %s (p95) and a margin of %s, even in an empty lane",
			s(d.DeadlineMS), s(d.ServiceP95MS), s(d.MarginMS))
	case admission.BindingLanePaused:
		return "the lane is paused by its operator"
	case admission.BindingTenantRate:
		return "the tenant submits faster than its tier allows"
	case admission.BindingTenantQueuedWork:
		return fmt.Sprintf("the tenant has %s of work queued; with this task's %s it would exceed its limit of %s",
			s(d.TenantQueuedWorkMS), s(d.EstimateMS), s(d.TenantLimitMS))
	case admission.BindingTenantDailyWork:
		return fmt.Sprintf("the tenant's daily work is used up; this task needs %s", s(d.EstimateMS))
	case admission.BindingTenantMaxWait:
		return fmt.Sprintf("the tenant's own queued work predicts a wait of %s, longer than the priority allows", s(d.PredictedWaitMS))
	case admission.BindingLaneMaxWork:
		return fmt.Sprintf("the lane has %s of work queued and takes no more", s(d.QueuedWorkMS))
	case admission.BindingLaneMaxWait:
		return fmt.Sprintf("the lane's predicted wait of %s is longer than the priority allows", s(d.PredictedWaitMS))
	case admission.BindingTenantDeadline, admission.BindingLaneDeadline:
		return fmt.Sprintf("a predicted wait of %s, a service time of %s (p95) and a margin of %s do not fit into the deadline of %s",
			s(d.PredictedWaitMS), s(d.ServiceP95MS), s(d.MarginMS), s(d.DeadlineMS))
	}
	return "the task cannot be taken now"
}

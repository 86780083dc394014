package admission

// Code is the stable name of a decision, as clients see it.
type Code string

// The decisions.
const (
	Accept             Code = "accept"
	RejectTenantLimit  Code = "reject_tenant_limit"
	RejectRateLimit    Code = "reject_rate_limit"
	RejectDeadline     Code = "reject_deadline"
	RejectLaneBacklog  Code = "reject_lane_backlog"
	RejectLanePaused   Code = "reject_lane_paused"
	RejectDependency   Code = "reject_dependency" // reserved: no rule here gives it yet
	DeadlineInfeasible Code = "deadline_infeasible"
)

// Binding names the limit that made a decision a rejection; empty for an acceptance.
type Binding string

// The limits.
const (
	BindingNone             Binding = ""
	BindingTenantRate       Binding = "tenant_rate"
	BindingTenantQueuedWork Binding = "tenant_queued_work"
	BindingTenantDailyWork  Binding = "tenant_daily_work"
	BindingTenantMaxWait    Binding = "tenant_max_wait" // the tenant's own level exceeds the priority's max_wait
	BindingTenantDeadline   Binding = "tenant_deadline" // the tenant's own level leaves no room for the deadline
	BindingLaneMaxWork      Binding = "lane_max_work"
	BindingLaneMaxWait      Binding = "lane_max_wait"
	BindingLaneDeadline     Binding = "lane_deadline"
	BindingLanePaused       Binding = "lane_paused"
	BindingDependency       Binding = "dependency" // reserved, like RejectDependency
	BindingServiceTime      Binding = "service_time"
)

// LaneView is a copy of a lane.
type LaneView struct {
	Name    string
	Paused  bool
	Workers int // attempts that can run at once: the slots of the level
	Slots   int // tasks that may be open at once (workers × batch size); for callers, decides nothing here
	Open    int // queued and running tasks; decides nothing here
	Ready   int // waiting and eligible tasks; decides nothing here

	WorkMS int64 // queued work
	// BehindMS is the part of WorkMS that is known to stand behind the task in the order of release, 0 when none is:
	// the level is poured from the rest. At most WorkMS.
	BehindMS int64
	// Stretch is how much of the lane's capacity, in thousandths, it takes to get through a ms of the work that stands
	// before a task: more than 1000 while others who come later go first, or hand-overs cost. At least 1000.
	Stretch   int64
	EnteredMS int64 // all work that ever came in; only grows
	MaxWorkMS int64 // most queued work the lane takes; 0 takes none

	Free      []int64 // sorted free times of Workers slots, from wait.Slots
	CopyAgeMS int64   // age of this copy; reported, decides nothing here
}

// TenantView is a copy of a tenant's ledger.
type TenantView struct {
	WorkMS    int64 // queued work over all lanes
	EnteredMS int64 // all work that ever came in; only grows
	LimitMS   int64 // most queued work of the tier; 0 allows none

	Free []int64 // sorted free times of max_active slots, from wait.Slots over the residuals of all its attempts

	DayWorkMS  int64 // work admitted since the UTC day began
	DayLimitMS int64 // 0 = no daily limit
	DayResetMS int64 // until the next UTC day

	ChainMS int64 // work of the tenant's tasks that must end before this one begins: it is done one after another

	RateWaitMS int64 // > 0: the rate limit says to come back in so long; see GCRA
}

// Request is what a submission asks for, after classification. Negative figures count as 0.
type Request struct {
	AmountMS   int64 // work to reserve, at least 1
	P95MS      int64 // service time that the deadline must leave room for
	MarginMS   int64 // the lane's safety margin
	DeadlineMS int64 // from receipt
	MaxWaitMS  int64 // the priority's longest predicted wait
	Samples    int64 // behind the estimate; reported only

	// Probe decides as if the task took no time at all: no refusal for its own service time, infeasible ones included,
	// since a bad estimate is what makes them so. The wait before it, max_wait and all budgets still hold. See probe.go.
	Probe bool
}

// Guard holds the conditions that the writes of an accepted decision must carry, each compared with the stored value
// as it is before the write adds to it. A rejection's guard is all −1: nothing passes it.
type Guard struct {
	LaneEnteredMaxMS   int64 // lane.entered <=
	TenantEnteredMaxMS int64 // tenant.entered <=
	TenantWorkMaxMS    int64 // tenant.work <=
	DayWorkMaxMS       int64 // the tenant's work of this UTC day <=
}

// Decision is the outcome with all its figures. Waits are wait.Infinite where there are no slots at all.
type Decision struct {
	Code    Code
	Binding Binding
	Lane    string

	EstimateMS      int64 // the amount to reserve
	Samples         int64
	PredictedWaitMS int64 // the larger of the two levels
	LaneWaitMS      int64 // the lane's level
	TenantWaitMS    int64 // the tenant's level over its max_active slots
	RatioWaitMS     int64 // the plain queued work / slots, for comparison
	ServiceP95MS    int64
	MarginMS        int64
	DeadlineMS      int64
	QueuedWorkMS    int64 // of the lane
	Slots           int   // of the level: the lane's workers

	TenantQueuedWorkMS int64
	TenantLimitMS      int64
	CopyAgeMS          int64
	Probe              bool

	RetryAfterMS int64 // when to come back; 0 for an acceptance and where coming back does not help
	Guard        Guard
}

// Accepted reports whether the task is admitted.
func (d *Decision) Accepted() bool { return d.Code == Accept }

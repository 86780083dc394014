package policy

// Config is one deployment's configuration. See classes.go for classes, tiers and what concerns tenants.
type Config struct {
	// Version of this format. Only 1 exists.
	Version int `json:"version" rule:"required,min=1,max=1"`
	// Tasks holds what is true of every task.
	Tasks Tasks `json:"tasks"`
	// Lanes by name: at least one working lane, and exactly one whose role is retry.
	Lanes map[string]*Lane `json:"lanes" rule:"required,min=1,keys=name"`
	// Classes are the kinds of work, by name.
	Classes map[string]*Class `json:"classes" rule:"required,min=1,keys=class"`
	// Tiers are the contracts a tenant can have, by name.
	Tiers map[string]*Tier `json:"tiers" rule:"required,min=1,keys=name"`
	// Priorities bound waiting and duration by priority. Absent keys have defaults:
	// critical 5m and 30m, high 15m and 2h, normal 1h and 6h, low 6h and 24h.
	Priorities map[string]*Priority `json:"priorities" rule:"keys=critical|high|normal|low"`
	// Dependencies are the downstreams that classes use, by name.
	Dependencies map[string]*Dependency `json:"dependencies,omitempty" rule:"keys=name" later:"dependency budgets and breakers are not kept yet"`
	// Tenants seed an empty table: for demonstrations and local use.
	Tenants map[string]*Tenant `json:"tenants,omitempty" rule:"keys=name"`
	// Operators may make the administrative calls.
	Operators Operators `json:"operators"`

	index *index
}

// Tasks holds what is true of every task.
type Tasks struct {
	// Retention is how long a finished task, and its idempotency key, is remembered at least after its end, 1h to 8760h.
	// Default 168h. It counts from the end, so it need not exceed any deadline. Deletion comes later, by up to some days.
	Retention Duration `json:"retention" rule:"default=168h,min=1h,max=8760h"`
	// MaxDeadline is the longest deadline a submission may ask for, 1s to 336h (14 days, a queue's retention). Default 336h.
	MaxDeadline Duration `json:"max_deadline" rule:"default=336h,min=1s,max=336h"`
	// ResendAfter is when a queued task's message is sent again if nobody has claimed the task, 1s to 15m. Default 30s.
	ResendAfter Duration `json:"resend_after" rule:"default=30s,min=1s,max=15m"`
}

// Lane is a queue with its workers, dead-letter queue and service level.
type Lane struct {
	Name string `json:"-"`
	// Role is retry for the one lane that runs repeated attempts, and absent for all others.
	Role string `json:"role,omitempty" rule:"opt,enum=retry"`
	// Share of all other lanes' concurrency that the retry lane gets, 0.10 to 0.20. Required there, refused elsewhere.
	Share float64 `json:"share,omitempty" rule:"opt,min=0.1,max=0.2"`
	// Owner is the team that is called when the lane misses its SLO.
	Owner string `json:"owner" rule:"required,form=text"`
	// SLO is the service level that alarms are derived from.
	SLO SLO `json:"slo" rule:"required"`
	// Workers caps what runs at once. The retry lane's cap is its share.
	Workers Workers `json:"workers" rule:"required_unless=role"`
	// Batch is how many messages one invocation takes, one after another.
	Batch Batch `json:"batch"`
	// AttemptTimeout is the time one attempt may take, 100ms to 14m. Default 30s. The retry lane's is at least the longest
	// lane's. (The function's own limit is 15m, of which a minute is kept for claiming, saving and handing over.)
	AttemptTimeout Duration `json:"attempt_timeout" rule:"default=30s,min=100ms,max=14m"`
	// Rate is how many attempts may start in a second, 0 to 100000. 0 (the default) is unlimited.
	Rate float64 `json:"rate" rule:"min=0,max=100000" later:"starts per second are not limited yet"`
	// SafetyMargin is where the learned margin of predictions starts, 0s to 10m. Default 500ms. What is learned stays
	// between half of it and eight times as much; 0s stays 0s.
	SafetyMargin Duration `json:"safety_margin" rule:"default=500ms,max=10m"`
	// Backlog bounds the work that may queue in the lane.
	Backlog Backlog `json:"backlog"`
	// Ceiling says what is too slow for the lane. Without it nothing is.
	Ceiling *Ceiling `json:"ceiling,omitempty"`
	// Tiers the lane is kept for: it takes tasks of their tenants only. Default: of all.
	Tiers []string `json:"tiers,omitempty" rule:"max=16" elem:"ref=tiers"`
	// InsteadOf names the lane whose tasks run here when their tenant is of one of those tiers. Classes name that lane,
	// whose ceiling holds for this one too.
	InsteadOf string `json:"instead_of,omitempty" rule:"opt,ref=lanes"`
	// LowShare is the share of slots kept for low priority and lent while idle, 0 to 0.5. Default 0.
	LowShare float64 `json:"low_share" rule:"min=0,max=0.5"`
	// Retry is what happens after an attempt failed.
	Retry Retry `json:"retry" rule:"required"`
	// DLQ is the dead-letter queue, for deliveries that never became an attempt.
	DLQ DLQ `json:"dlq" rule:"required"`
	// Brakes slow or stop the lane while a dependency is in trouble. Must be present, [] for none.
	Brakes []*Brake `json:"brakes" rule:"required,max=32" later:"brakes do not act yet"`
}

// RoleRetry is the role of the lane that runs repeated attempts.
const RoleRetry = "retry"

// SLO is a lane's service level.
type SLO struct {
	// QueueWaitP95 is the 95th percentile of the time from submission to start, 1ms to 336h.
	QueueWaitP95 Duration `json:"queue_wait_p95" rule:"required,min=1ms,max=336h"`
	// OldestAge is the age of the oldest task that has not started, 1ms to 336h.
	OldestAge Duration `json:"oldest_age" rule:"required,min=1ms,max=336h"`
}

// Workers caps a lane's concurrency.
type Workers struct {
	// MaxConcurrency is the number of invocations at once, 2 to 1000 and not above reserved. Required, but refused in the
	// retry lane. (The event source mapping accepts no less than 2.)
	MaxConcurrency int `json:"max_concurrency,omitempty" rule:"opt,min=2,max=1000"`
	// Reserved concurrency of the lane's function, 2 to 1000. Default: max_concurrency.
	Reserved int `json:"reserved" rule:"opt,min=2,max=1000"`
}

// Batch is how an invocation takes messages.
type Batch struct {
	// Size in messages, 1 to 10. Default 1. Above 1 only where the lane's ceiling keeps tasks under 1s.
	Size int `json:"size" rule:"default=1,min=1,max=10"`
	// Window is how long to wait for a batch to fill, 0s to 5m. Default 0s.
	Window Duration `json:"window" rule:"max=5m"`
}

// Backlog bounds the work that may queue.
type Backlog struct {
	// MaxWork is the most estimated work that may wait, 1ms to 8760h. Default 1h.
	MaxWork Duration `json:"max_work" rule:"default=1h,min=1ms,max=8760h"`
}

// Ceiling says what is too slow for a lane.
type Ceiling struct {
	// P95 of the service time, 1ms to 14m; a (class, bucket) that stays above moves to a heavier lane.
	P95 Duration `json:"p95" rule:"required,min=1ms,max=14m"`
}

// Retry is what happens after an attempt failed.
type Retry struct {
	// MaxAttempts counts the first attempt too, 1 to 100.
	MaxAttempts int `json:"max_attempts" rule:"required,min=1,max=100"`
	// Immediate retries without a backoff, 0 or 1. Default 0.
	Immediate int `json:"immediate" rule:"min=0,max=1"`
	// BackoffBase is the upper bound of the first full-jitter backoff, 1ms to 1h. Default 1s.
	BackoffBase Duration `json:"backoff_base" rule:"default=1s,min=1ms,max=1h"`
	// BackoffCap is the upper bound of any backoff, at least backoff_base, at most 24h. Default 1m.
	BackoffCap Duration `json:"backoff_cap" rule:"default=1m,min=1ms,max=24h"`
	// QuarantineAfter so many failures in a row with the same signature, or so many tasks of a tenant that failed with it on
	// the same payload within a UTC day, 1 to 100. Default: never by signature.
	QuarantineAfter int `json:"quarantine_after,omitempty" rule:"opt,min=1,max=100"`
}

// DLQ is a lane's dead-letter queue.
type DLQ struct {
	// MaxReceives before a message goes there, 5 to 1000. Fewer than 5 would let throttled deliveries in unrun.
	MaxReceives int `json:"max_receives" rule:"required,min=5,max=1000"`
	// Retention of what is in it, 1m to 336h. Default 336h.
	Retention Duration `json:"retention" rule:"default=336h,min=1m,max=336h"`
}

// Brake slows or stops a lane's starts while a signal is over a limit.
type Brake struct {
	// When names the signal: dependency.NAME.METRIC, METRIC being error_share, share_429, latency_p95 or signal.
	When string `json:"when" rule:"required,form=signal"`
	// Over this limit: a share from 0 to 1, or a duration for latency_p95. Default 0, which latency_p95 refuses.
	Over Threshold `json:"over"`
	// For so long, 1s to 1h. Default 30s.
	For Duration `json:"for" rule:"default=30s,min=1s,max=1h"`
	// Factor by which the lane's slots shrink, 0 (stop) to 1.
	Factor float64 `json:"factor" rule:"required,min=0,max=1"`
}

package policy

// Class is a kind of work.
type Class struct {
	Name string `json:"-"`
	// Lane the class runs in; not the retry lane.
	Lane string `json:"lane" rule:"required,ref=lanes"`
	// Priority of its tasks.
	Priority ClassPriority `json:"priority"`
	// Prior is what a task is believed to cost until enough of them were seen.
	Prior Prior `json:"prior" rule:"required"`
	// Cap of any estimate of the class, at least prior.p95, at most 336h.
	Cap Duration `json:"cap" rule:"required,min=1ms,max=336h"`
	// Sizes splits the class by a hint of the client.
	Sizes *Sizes `json:"sizes,omitempty"`
	// MaxHints are the largest hints accepted, by hint; larger work has to be split.
	MaxHints map[string]int64 `json:"max_hints,omitempty" rule:"max=16,keys=hint" elem:"min=0,max=9007199254740991"`
	// Late says what becomes of a task that cannot start in time: expire (the default) or run.
	Late string `json:"late" rule:"default=expire,enum=expire|run"`
	// Retry is default (the lane's policy) or none (a failure is final).
	Retry string `json:"retry" rule:"default=default,enum=default|none"`
	// RequireIdempotencyKey refuses submissions without a key. Default false.
	RequireIdempotencyKey bool `json:"require_idempotency_key"`
	// Preemptible tasks give way to higher priorities. Default false.
	Preemptible bool `json:"preemptible" later:"running tasks are not preempted yet"`
	// PinLane keeps the class in its lane whatever is learned. Default false.
	PinLane bool `json:"pin_lane"`
	// DependsOn lists the dependencies a task calls.
	DependsOn map[string]*Use `json:"depends_on,omitempty" rule:"max=16,keysref=dependencies" later:"dependency budgets are not kept yet"`
	// Target runs the tasks. Without it the worker binary must have a handler of the class's name.
	Target *Target `json:"target,omitempty"`
}

// ClassPriority is the priority of a class's tasks.
type ClassPriority struct {
	// Default when a submission names none. Default normal.
	Default string `json:"default" rule:"default=normal,enum=critical|high|normal|low"`
	// Max a submission may ask for. Default: high, or the class's default where that is higher.
	Max string `json:"max" rule:"opt,enum=critical|high|normal|low"`
}

// Prior is a belief about the service time.
type Prior struct {
	// P50 is the median, 1ms to 336h.
	P50 Duration `json:"p50" rule:"required,min=1ms,max=336h"`
	// P95 is the 95th percentile, at least p50, at most 336h.
	P95 Duration `json:"p95" rule:"required,min=1ms,max=336h"`
}

// Sizes splits a class into buckets.
type Sizes struct {
	// By names the hint.
	By string `json:"by" rule:"required,form=hint"`
	// Buckets in ascending order, the first from 0. A hint falls into the last bucket whose from it reaches; without the
	// hint a task falls into the first.
	Buckets []*Bucket `json:"buckets" rule:"required,min=1,max=16"`
}

// Bucket is a size of a class. What it leaves out is as in its class.
type Bucket struct {
	// Name of the bucket, unique in its class.
	Name string `json:"name" rule:"required,form=name"`
	// From is the smallest hint of the bucket.
	From int64 `json:"from" rule:"required,min=0,max=9007199254740991"`
	// Lane of the bucket; not the retry lane. Default: the class's.
	Lane string `json:"lane,omitempty" rule:"opt,ref=lanes"`
	// Prior of the bucket. Default: the class's.
	Prior *Prior `json:"prior,omitempty"`
	// Cap of the bucket's estimates. Default: the class's.
	Cap Duration `json:"cap,omitempty" rule:"opt,min=1ms,max=336h"`
}

// Use is how a class uses a dependency.
type Use struct {
	// Calls a task makes, 1 to 1000000. Default 1.
	Calls int `json:"calls" rule:"default=1,min=1,max=1000000"`
}

// Target says what runs a class's tasks: exactly one of its keys.
type Target struct {
	// Builtin handler of the worker. Known: sleep.
	Builtin string `json:"builtin,omitempty" rule:"opt,enum=sleep"`
	// Lambda is the ARN of a function to call.
	Lambda string `json:"lambda,omitempty" rule:"opt,form=arn" later:"only builtin handlers and those of your own worker run yet"`
	// HTTP is a URL to call.
	HTTP string `json:"http,omitempty" rule:"opt,form=url" later:"only builtin handlers and those of your own worker run yet"`
}

// Tier is the contract of a tenant.
type Tier struct {
	Name string `json:"-"`
	// MaxQueuedWork is the estimated work a tenant may have waiting over all lanes, 1ms to 8760h.
	MaxQueuedWork Duration `json:"max_queued_work" rule:"required,min=1ms,max=8760h"`
	// MaxActive attempts of a tenant at once over all lanes, 1 to 10000.
	MaxActive int `json:"max_active" rule:"required,min=1,max=10000"`
	// DailyWork is the estimated work a tenant may submit in a UTC day, at most 876000h. 0s (the default) is unlimited.
	DailyWork Duration `json:"daily_work" rule:"max=876000h"`
	// Rate of submissions a second, 0 to 100000. 0 (the default) is unlimited.
	Rate float64 `json:"rate" rule:"min=0,max=100000"`
	// Burst of submissions above the rate, 1 to 1000000. Default: the rate rounded up, at least 1.
	Burst int `json:"burst" rule:"opt,min=1,max=1000000"`
	// Weight of a tenant's share of a lane, 0.01 to 1000. Default 1.
	Weight float64 `json:"weight" rule:"default=1,min=0.01,max=1000"`
	// MaxPriority a tenant may ask for. Default normal.
	MaxPriority string `json:"max_priority" rule:"default=normal,enum=critical|high|normal|low"`
	// DependencyShare is the most of a dependency's budget a tenant may hold, 0.01 to 1. Default 1.
	DependencyShare float64 `json:"dependency_share" rule:"default=1,min=0.01,max=1" later:"dependency budgets are not kept yet" off:"1"`
}

// Priority bounds waiting and duration.
type Priority struct {
	// MaxWait is the longest predicted wait that is accepted, 1ms to 336h.
	MaxWait Duration `json:"max_wait" rule:"opt,min=1ms,max=336h"`
	// MaxDuration is the deadline of a submission that names none, at least max_wait, at most tasks.max_deadline.
	MaxDuration Duration `json:"max_duration" rule:"opt,min=1ms,max=336h"`
	// PreemptLower lets its tasks take slots from preemptible tasks of lower priority. Default false.
	PreemptLower bool `json:"preempt_lower" later:"running tasks are not preempted yet"`
}

// Dependency is a downstream that classes use.
type Dependency struct {
	// Concurrency is the number of tasks that may use it at once, 1 to 100000.
	Concurrency int `json:"concurrency" rule:"required,min=1,max=100000"`
	// Rate of calls a second, 0 to 1000000. 0 (the default) is unlimited.
	Rate float64 `json:"rate" rule:"min=0,max=1000000"`
	// Lanes' parts of the concurrency.
	Lanes map[string]*Part `json:"lanes,omitempty" rule:"keysref=lanes"`
	// Breaker stops calls while it is failing. Without it nothing does.
	Breaker *Breaker `json:"breaker,omitempty"`
}

// Part is a lane's part of a dependency.
type Part struct {
	// Reserve is the share kept for the lane, 0 (the default) to 1. The reserves of all lanes add up to 1 at most.
	Reserve float64 `json:"reserve" rule:"min=0,max=1"`
	// Max is the share the lane cannot exceed, at least reserve, at most 1. Default 1.
	Max float64 `json:"max" rule:"default=1,min=0.01,max=1"`
}

// Breaker opens when too many calls fail.
type Breaker struct {
	// ErrorShare of calls that opens it, 0.001 to 1. Default 0.5.
	ErrorShare float64 `json:"error_share" rule:"default=0.5,min=0.001,max=1"`
	// Share429 is the share of refused calls (429) that opens it, 0.001 to 1. Default 0.05.
	Share429 float64 `json:"share_429" rule:"default=0.05,min=0.001,max=1"`
	// MinCalls in the window before it may open, 1 to 100000. Default 20.
	MinCalls int `json:"min_calls" rule:"default=20,min=1,max=100000"`
	// Window over which calls are counted, 1s to 1h. Default 30s.
	Window Duration `json:"window" rule:"default=30s,min=1s,max=1h"`
	// CoolDown before it lets a call through again, 1s to 1h. Default 1m.
	CoolDown Duration `json:"cool_down" rule:"default=1m,min=1s,max=1h"`
}

// Tenant is a tenant that seeds an empty table.
type Tenant struct {
	Name string `json:"-"`
	// Tier of the tenant.
	Tier string `json:"tier" rule:"required,ref=tiers"`
	// Keys of the tenant in plain text, each unique in the file.
	Keys []string `json:"keys,omitempty" rule:"max=16" elem:"form=key"`
}

// Operators may make the administrative calls.
type Operators struct {
	// Keys of the operators in plain text, each unique in the file.
	Keys []string `json:"keys,omitempty" rule:"max=64" elem:"form=key"`
}

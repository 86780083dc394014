package task

// Task is one unit of work as its row holds it. Times are unix milliseconds,
// durations milliseconds, 0 meaning "not yet" or "none".
type Task struct {
	Tenant, ID string

	State    State
	Gen      int64 // raised by every claim: makes older messages harmless
	Class    string
	Bucket   string
	Lane     string // where it was admitted
	AtLane   string // the lane that holds it now
	Priority string
	AmountMS int64 // its reservation, frozen at admission

	SubmittedMS int64
	AdmittedMS  int64 // when it was admitted again out of quarantine; 0 never
	DeadlineMS  int64
	StartByMS   int64 // deadline − service p95, frozen
	RunLate     bool  // run after start_by instead of expiring
	StartedMS   int64 // first start
	FinishedMS  int64
	// ExpiresMS is from when on the store may delete the row of a finished task, in
	// whole seconds; 0: never.
	ExpiresMS int64
	// QuarantinedMS is when it went to quarantine, 0 when it is not there.
	QuarantinedMS int64
	ReplayID      string // of the replay that admitted it last, if any: none takes it twice
	// Dead counts wake-ups for it that ended in the dead-letter queue since its
	// last claim, the last one counted at DeadMS.
	Dead, DeadMS int64

	Prediction Prediction

	Attempt      int64 // attempts begun
	Failures     int64 // attempts that ended in a failure, since the last admission
	Same         int64 // of these, the last ones in a row with the same signature
	LeaseToken   string
	LeaseUntilMS int64
	AttemptMS    int64 // start of the current or last attempt
	NotBeforeMS  int64
	DueMS        int64 // when it must be looked at again (may be early, never late)
	Parked       bool  // waiting, but out of the ready order
	Held         bool  // parked because others of its ordering key come before it
	Low          bool  // of low priority, in a lane that keeps slots for it
	Tag          int64 // its start tag S in the fair order
	ShiftMS      int64 // its priority's shift, added to Tag in the sort key
	TagCost      int64 // amount / weight: what its tenant's finish tag moves by for an attempt

	CancelRequested bool
	Keyed           bool // submitted under an idempotency key
	RequestHash     string
	Nonce           string // names the submission that created the row
	OrderingKey     string
	Seq             int64 // its number in the chain of its ordering key
	Traceparent     string

	Payload       string // inline JSON; "" with PayloadBeside
	PayloadBeside bool
	Result        string
	ResultBeside  bool
	Progress      string // JSON
	Checkpoint    string // JSON, handed to the next attempt

	Error    *Error
	Attempts []Attempt
}

// Prediction is what the admission believed, frozen.
type Prediction struct {
	WaitMS  int64
	RatioMS int64 // Q / slots, the plain form, kept for comparison
	P50MS   int64
	P95MS   int64
	MargMS  int64
	Probe   bool
	Figures Figures
}

// Figures are what else the admission rested on.
type Figures struct {
	Samples                       int64 // behind the estimate
	QueuedMS, Slots               int64 // of the lane
	TenantQueuedMS, TenantLimitMS int64
	CopyAgeMS                     int64 // of the copy of the lane
}

// Error is why the last attempt did not succeed. Message is the handler's own
// text and goes to the task's owner only.
type Error struct {
	Code      string `json:"c"`
	Signature string `json:"s"`
	Message   string `json:"m"`
	Retryable bool   `json:"r"`
}

// Attempt is one entry of a task's history.
type Attempt struct {
	N         int64  `json:"n"`
	Lane      string `json:"l"`
	StartMS   int64  `json:"b"`
	EndMS     int64  `json:"e,omitempty"`
	Outcome   string `json:"o"`
	Signature string `json:"s,omitempty"`
	Code      string `json:"c,omitempty"`
	Message   string `json:"m,omitempty"` // the beginning of the error's text
	// Calls are what its handler says it called, by the name of the downstream.
	Calls map[string]int64 `json:"d,omitempty"`
}

// Outcomes of an attempt.
const (
	OutcomeRunning   = "running"
	OutcomeSucceeded = "succeeded"
	OutcomeFailed    = "failed"
	OutcomeTimedOut  = "timed_out"
	OutcomeLost      = "lost_worker"
	OutcomeCancelled = "cancelled"
	OutcomeHandBack  = "handed_back"
)

// HistoryMax bounds the attempts kept on the row; older ones are dropped, the
// first one stays.
const HistoryMax = 12

// Record appends an attempt to the history.
func (t *Task) Record(a Attempt) {
	if len(t.Attempts) >= HistoryMax {
		t.Attempts = append(t.Attempts[:1:1], t.Attempts[2:]...)
	}
	t.Attempts = append(t.Attempts, a)
}

// Since is when the task was admitted last: what waiting and deadlines count from.
func (t *Task) Since() int64 { return max(t.SubmittedMS, t.AdmittedMS) }

// Charged says whether the task's next or running attempt is paid for in the fair order:
// its tenant's finish tag in the lane that admitted it was moved on by TagCost
// for it. Attempts in other lanes are not.
func (t *Task) Charged() bool {
	return t.AtLane == t.Lane && (t.State == Waiting || t.State == Queued || t.State == Running)
}

// HandedBack says whether the last attempt went on without an outcome: the task
// has started in time, and start_by no longer applies to it.
func (t *Task) HandedBack() bool {
	n := len(t.Attempts)
	return n > 0 && t.Attempts[n-1].Outcome == OutcomeHandBack
}

// TooLate says whether a task that is not running can no longer start in time.
func (t *Task) TooLate(nowMS int64) bool {
	return !t.RunLate && !t.HandedBack() && nowMS > t.StartByMS
}

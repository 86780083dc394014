package events

import "encoding/json"

// State says where a task is in its life.
type State string

// The states. Live: waiting, queued, running, retry_wait. Terminal: succeeded, failed, cancelled, expired.
// Quarantined is neither.
const (
	StateWaiting     State = "waiting"
	StateQueued      State = "queued"
	StateRunning     State = "running"
	StateRetryWait   State = "retry_wait"
	StateSucceeded   State = "succeeded"
	StateFailed      State = "failed"
	StateCancelled   State = "cancelled"
	StateExpired     State = "expired"
	StateQuarantined State = "quarantined"
)

// States lists all states, live ones first.
func States() []State {
	return []State{StateWaiting, StateQueued, StateRunning, StateRetryWait, StateSucceeded, StateFailed,
		StateCancelled, StateExpired, StateQuarantined}
}

// Live reports whether the system still means to do something about the task by itself.
func (s State) Live() bool {
	switch s {
	case StateWaiting, StateQueued, StateRunning, StateRetryWait:
		return true
	}
	return false
}

// Terminal reports whether the task is over for good.
func (s State) Terminal() bool {
	switch s {
	case StateSucceeded, StateFailed, StateCancelled, StateExpired:
		return true
	}
	return false
}

// Task is a task as its tenant sees it. The payload is not part of it.
type Task struct {
	ID              string          `json:"id"`
	Class           string          `json:"class"`
	Bucket          string          `json:"bucket"`
	Tenant          string          `json:"tenant"`
	Lane            string          `json:"lane"` // where it was admitted
	Priority        string          `json:"priority"`
	AtLane          string          `json:"at_lane"` // where it is now
	State           State           `json:"state"`
	Attempt         int             `json:"attempt"` // attempts begun
	SubmittedAt     Time            `json:"submitted_at"`
	DeadlineAt      Time            `json:"deadline_at"`
	StartedAt       Time            `json:"started_at,omitzero"`  // first attempt's start
	FinishedAt      Time            `json:"finished_at,omitzero"` // set when terminal, and only then
	Prediction      Prediction      `json:"prediction"`
	Delayed         bool            `json:"delayed"`
	Position        *Seconds        `json:"position_seconds,omitempty"` // work before it; where it was asked for by id and waits
	ExpectedStart   Time            `json:"expected_start_at,omitzero"` // a fresh prediction, where it waits and is delayed
	Progress        json.RawMessage `json:"progress,omitempty"`
	Result          json.RawMessage `json:"result,omitempty"` // of a succeeded task only
	Error           *TaskError      `json:"error,omitempty"`
	Attempts        Items[Attempt]  `json:"attempts"`
	CancelRequested bool            `json:"cancel_requested"`
	Links           Links           `json:"links"`
}

// Prediction is what admission predicted, frozen.
type Prediction struct {
	Wait       Seconds `json:"wait_seconds"`
	ServiceP50 Seconds `json:"service_p50_seconds"`
	ServiceP95 Seconds `json:"service_p95_seconds"`
	Margin     Seconds `json:"margin_seconds"`
	StartBy    Time    `json:"start_by"` // deadline − service p95: not started by then, it expires
	FinishBy   Time    `json:"finish_by"`
}

// WaitsFor is what a task waits for.
type WaitsFor string

// What tasks wait for.
const (
	WaitsNothing      WaitsFor = "nothing"
	WaitsSlot         WaitsFor = "slot"
	WaitsTenantActive WaitsFor = "tenant_active"
	WaitsOrderingKey  WaitsFor = "ordering_key"
	WaitsNotBefore    WaitsFor = "not_before"
	WaitsBrake        WaitsFor = "brake"
	WaitsLanePaused   WaitsFor = "lane_paused"
	WaitsOperator     WaitsFor = "operator"
)

// Explanation is why a task waits, and what it was admitted on.
type Explanation struct {
	ID            string   `json:"id"`
	State         State    `json:"state"`
	AtLane        string   `json:"at_lane"`
	WaitsFor      WaitsFor `json:"waits_for"`
	Name          string   `json:"name,omitempty"` // of the brake, or the id of the task ahead in its ordering key
	Until         Time     `json:"until,omitzero"` // where it is known
	Detail        string   `json:"detail"`
	WorkAhead     Seconds  `json:"work_ahead_seconds"`
	PredictedWait Seconds  `json:"predicted_wait_seconds"` // fresh; Unbounded (null) without slots
	Decision      Decision `json:"decision"`
}

// TaskError says why a task's last attempt did not succeed.
type TaskError struct {
	Code      string `json:"code"`      // 1 to 64 characters
	Signature string `json:"signature"` // fingerprint of the error's shape, without ids
	Message   string `json:"message"`   // at most 2048 characters
	Retryable bool   `json:"retryable"`
}

// AttemptOutcome says how one attempt ended.
type AttemptOutcome string

// The outcomes of an attempt. HandedBack is an attempt that gave its task back to go on later.
const (
	AttemptRunning    AttemptOutcome = "running"
	AttemptSucceeded  AttemptOutcome = "succeeded"
	AttemptFailed     AttemptOutcome = "failed"
	AttemptTimedOut   AttemptOutcome = "timed_out"
	AttemptLostWorker AttemptOutcome = "lost_worker"
	AttemptCancelled  AttemptOutcome = "cancelled"
	AttemptExpired    AttemptOutcome = "expired"
	AttemptHandedBack AttemptOutcome = "handed_back"
)

// Attempt is one entry of a task's history.
type Attempt struct {
	Attempt   int            `json:"attempt"` // from 1
	StartedAt Time           `json:"started_at"`
	EndedAt   Time           `json:"ended_at,omitzero"` // absent exactly while running
	Outcome   AttemptOutcome `json:"outcome"`
	Lane      string         `json:"lane"`
	Signature string         `json:"signature,omitempty"`
	Error     string         `json:"error,omitempty"` // at most 2048 characters
	// DownstreamCalls are the calls that the handler counted, by name.
	DownstreamCalls map[string]int64 `json:"downstream_calls,omitempty"`
}

// Links are the paths of what can be asked about a task next.
type Links struct {
	Self   string `json:"self"`
	Cancel string `json:"cancel"`
}

// TaskPath is the path of a task, as in Location.
func TaskPath(id string) string { return "/v1/tasks/" + id }

// LinksOf gives the links of the task with this id.
func LinksOf(id string) Links { return Links{Self: TaskPath(id), Cancel: TaskPath(id) + "/cancel"} }

// TaskPage is one page of tasks by id. An empty NextCursor (JSON null), and nothing else, ends the list.
type TaskPage struct {
	Items      Items[Task] `json:"items"`
	NextCursor Null        `json:"next_cursor"`
}

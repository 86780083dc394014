package task

// State is where a task is in its life.
type State string

// The states. Terminal ones are never left.
const (
	None        State = "" // before acceptance: no row
	Waiting     State = "waiting"
	Queued      State = "queued"
	Running     State = "running"
	RetryWait   State = "retry_wait"
	Succeeded   State = "succeeded"
	Failed      State = "failed"
	Cancelled   State = "cancelled"
	Expired     State = "expired"
	Quarantined State = "quarantined"
)

// States lists all states of a row.
func States() []State {
	return []State{Waiting, Queued, Running, RetryWait, Succeeded, Failed, Cancelled, Expired, Quarantined}
}

// Terminal says whether the state is final.
func (s State) Terminal() bool {
	switch s {
	case Succeeded, Failed, Cancelled, Expired:
		return true
	}
	return false
}

// Live says whether the task holds a reservation: its amount in the tenant's
// queued work, or an active attempt. Quarantined is neither live nor terminal.
func (s State) Live() bool {
	switch s {
	case Waiting, Queued, Running, RetryWait:
		return true
	}
	return false
}

// Valid says whether s is a state a row can have.
func (s State) Valid() bool {
	for _, known := range States() {
		if s == known {
			return true
		}
	}
	return false
}

// Event is what happens to a task.
type Event string

// The events.
const (
	AcceptQueued  Event = "accept_queued"
	AcceptWaiting Event = "accept_waiting"
	Release       Event = "release"
	Claim         Event = "claim"
	HandOver      Event = "hand_over"
	Park          Event = "park"
	Succeed       Event = "succeed"
	Fail          Event = "fail"
	Retry         Event = "retry"
	Continue      Event = "continue"
	Poison        Event = "poison"
	AbortCancel   Event = "abort_cancelled"
	DueQueued     Event = "due_queued"
	DueWaiting    Event = "due_waiting"
	Cancel        Event = "cancel"
	Expire        Event = "expire"
	ReplayQueued  Event = "replay_queued"
	ReplayWaiting Event = "replay_waiting"
	Undeliverable Event = "undeliverable"
)

// Transition is one line of the table. Work and Active say how many amounts
// and active attempts the tenant's ledger gains (+1) or loses (−1).
type Transition struct {
	From   State
	Event  Event
	To     State
	Work   int
	Active int
	When   string
}

// Transitions is the life of a task.
var Transitions = []Transition{
	{None, AcceptQueued, Queued, +1, 0, "admitted, a slot is free and nothing is ready; the message is sent afterwards"},
	{None, AcceptWaiting, Waiting, +1, 0, "admitted otherwise, in the lane's ready order"},
	{Waiting, Release, Queued, 0, 0, "the aggregator found a free slot; the message is sent afterwards"},
	{Queued, Park, Waiting, 0, 0, "its tenant is at max_active: it leaves the lane's slot and the ready order"},
	{Queued, Claim, Running, -1, +1, "a message of this generation arrived: attempt + 1, lease"},
	{Waiting, HandOver, Running, -1, +1, "a worker that ended an attempt took it next: attempt + 1, lease"},
	{Running, Succeed, Succeeded, 0, -1, "the handler returned without error, also when a cancel was requested"},
	{Running, Fail, Failed, 0, -1, "the error is not retryable"},
	{Running, Retry, RetryWait, +1, -1, "retryable, timed out or lost worker, with attempts left: until not_before"},
	{Running, Continue, Waiting, +1, -1, "handed back before the time limit, continued or preempted: failures unchanged"},
	{Running, Poison, Quarantined, 0, -1, "attempts used up, or the same signature repeated"},
	{Running, AbortCancel, Cancelled, 0, -1, "a cancel was requested and the attempt ended in any way but success"},
	{RetryWait, DueQueued, Queued, 0, 0, "not_before passed and the retry lane has a slot"},
	{RetryWait, DueWaiting, Waiting, 0, 0, "not_before passed, in the retry lane's ready order"},
	{Waiting, Cancel, Cancelled, -1, 0, "cancelled by its tenant"},
	{Queued, Cancel, Cancelled, -1, 0, "cancelled by its tenant"},
	{RetryWait, Cancel, Cancelled, -1, 0, "cancelled by its tenant"},
	{Waiting, Expire, Expired, -1, 0, "start_by passed and the class does not run late"},
	{Queued, Expire, Expired, -1, 0, "start_by passed and the class does not run late"},
	{RetryWait, Expire, Expired, -1, 0, "start_by passed and the class does not run late"},
	{Quarantined, ReplayQueued, Queued, +1, 0, "a replay was admitted with a slot free: attempts afresh"},
	{Quarantined, ReplayWaiting, Waiting, +1, 0, "a replay was admitted: attempts afresh"},
	{Queued, Undeliverable, Quarantined, -1, 0, "its wake-ups keep ending in the dead-letter queue without a claim"},
	{Quarantined, Cancel, Cancelled, 0, 0, "cancelled by its tenant or an operator"},
}

type edge struct {
	from  State
	event Event
}

var table = func() map[edge]Transition {
	m := make(map[edge]Transition, len(Transitions))
	for _, t := range Transitions {
		m[edge{t.From, t.Event}] = t
	}
	return m
}()

// Next returns the transition for an event in a state; ok is false when the
// event cannot happen there.
func Next(from State, event Event) (Transition, bool) {
	t, ok := table[edge{from, event}]
	return t, ok
}

// Must returns the transition for an event in a state that the caller has
// already checked; it panics on one the table does not know, which is a bug.
func Must(from State, event Event) Transition {
	t, ok := Next(from, event)
	if !ok {
		panic("task: no transition for " + string(event) + " in " + string(from))
	}
	return t
}

package aggregate

import "context"

// Metrics is told once a minute what happened and how things stand.
type Metrics interface {
	Emit(ctx context.Context, m Minute) error
}

// DeadLetters counts the messages in a lane's dead-letter queue.
type DeadLetters interface {
	DeadLetters(ctx context.Context, lane string) (int64, error)
}

// Minute is the time since the last report.
type Minute struct {
	AtMS int64
	// LatenessMS is by how much the last report is older than a minute; 0 for the first one.
	LatenessMS int64
	// Counts are what the functions' counters rose by, by group, name and counter, as package tally names them. Classes
	// are metric labels: see policy.Config.ClassLabel.
	Counts map[string]map[string]map[string]int64
	Lanes  []LaneNow // in order of their names
}

// LaneNow is how a lane stands. Ages are of tasks that have not started since their last submission, release or retry
// made them wait; times are in milliseconds.
type LaneNow struct {
	Name           string
	WorkMS         int64
	Slots, Running int64
	OldestMS       int64 // age of the oldest task that has not started, 0 if there is none
	QueuedMS       int64 // since the oldest queued task got its slot, 0 if there is none
	BacklogP95MS   int64 // 95th percentile of the ages of waiting tasks
	TargetMS       int64 // the start delay's 95th percentile that the lane's SLO promises
	UsualMS        int64 // slow average of the same, 0 while unknown; this minute does not count yet
	DeadLetters    int64 // -1: not counted
}

package events

import "encoding/json"

// Tenant is a tenant's contract as an operator sees it. The keys' text is never part of it.
type Tenant struct {
	ID   string         `json:"id"`
	Tier string         `json:"tier"`
	Keys Items[KeyInfo] `json:"keys"`
}

// KeyInfo names a key.
type KeyInfo struct {
	ID        string `json:"id"`
	CreatedAt Time   `json:"created_at"`
}

// NewKey is a key just made. Key is shown this once; only its SHA-256 is kept.
type NewKey struct {
	ID        string `json:"id"`
	Key       string `json:"key"`
	CreatedAt Time   `json:"created_at"`
}

// Placement is where tasks of a (class, bucket) run that may move by what is learned of it.
type Placement struct {
	Class          string  `json:"class"`
	Bucket         string  `json:"bucket"`
	ConfiguredLane string  `json:"configured_lane"`
	Lane           string  `json:"lane"` // what stands in for it for a tier is not shown
	ServiceP95     Seconds `json:"service_p95_seconds"`
	Samples        int64   `json:"samples"`
	MovedAt        Time    `json:"moved_at,omitzero"`
	Leans          string  `json:"leans,omitempty"` // up, down
	LeansSince     Time    `json:"leans_since,omitzero"`
	Blocked        bool    `json:"blocked"` // it ought to move up and has no lane to
}

// PlacementList is all of them, by class and bucket.
type PlacementList struct {
	Items Items[Placement] `json:"items"`
}

// QuarantinedTask is a task that only a replay, its tenant's retry or a cancel leads out of quarantine.
type QuarantinedTask struct {
	ID            string    `json:"id"`
	Tenant        string    `json:"tenant"`
	Class         string    `json:"class"`
	Bucket        string    `json:"bucket"`
	Lane          string    `json:"lane"`
	Attempt       int       `json:"attempt"`
	QuarantinedAt Time      `json:"quarantined_at"`
	Error         TaskError `json:"error"`
}

// QuarantinePage is one page of the quarantine, oldest first.
type QuarantinePage struct {
	Items      Items[QuarantinedTask] `json:"items"`
	NextCursor Null                   `json:"next_cursor"`
}

// ReplayFilter says which quarantined tasks are meant; "" and 0 are any. One that means all of them is written
// with a min_age_seconds of 0, since an empty filter is no order.
type ReplayFilter struct {
	Lane      string  `json:"lane,omitempty"`
	Class     string  `json:"class,omitempty"`
	Tenant    string  `json:"tenant,omitempty"`
	Signature string  `json:"signature,omitempty"`
	MinAge    Seconds `json:"min_age_seconds,omitzero"`
}

// MarshalJSON writes at least one field.
func (f ReplayFilter) MarshalJSON() ([]byte, error) {
	if f == (ReplayFilter{}) {
		return []byte(`{"min_age_seconds":0}`), nil
	}
	type fields ReplayFilter
	return json.Marshal(fields(f))
}

// ReplayState says how far a replay is.
type ReplayState string

// The states of a replay.
const (
	ReplayDryRun   ReplayState = "dry_run"
	ReplayRunning  ReplayState = "running"
	ReplayFinished ReplayState = "finished"
	ReplayStopped  ReplayState = "stopped"
)

// Replay is an operator's order to admit quarantined tasks again.
type Replay struct {
	ID         string       `json:"id"`
	State      ReplayState  `json:"state"`
	Filter     ReplayFilter `json:"filter"`
	Rate       float64      `json:"rate"`  // tasks a second, at most
	Limit      int64        `json:"limit"` // tasks in all
	DryRun     bool         `json:"dry_run"`
	Matched    int64        `json:"matched"` // when it began, at most Limit
	Admitted   int64        `json:"admitted"`
	Refused    int64        `json:"refused"` // for good; what admission refuses for now is tried again
	CreatedAt  Time         `json:"created_at"`
	FinishedAt Time         `json:"finished_at,omitzero"`
}

// ReplayPath is the path of a replay, as in Location.
func ReplayPath(id string) string { return "/v1/admin/replays/" + id }

// ReplayPage is one page of replays, newest first.
type ReplayPage struct {
	Items      Items[Replay] `json:"items"`
	NextCursor Null          `json:"next_cursor"`
}

package events

// Accept is the outcome of a decision that refuses nothing. The other outcomes are problem codes.
const Accept Code = "accept"

// Decision is a decision of admission with all its figures.
type Decision struct {
	Code             Code    `json:"code"`          // Accept, or a code for which Code.Decided holds
	BindingLimit     Null    `json:"binding_limit"` // what refused it; empty (null) exactly when accepted
	Lane             string  `json:"lane"`
	Estimate         Seconds `json:"estimate_seconds"` // the work it reserves
	Samples          int64   `json:"samples"`          // observations behind the estimate; 0 is the prior
	PredictedWait    Seconds `json:"predicted_wait_seconds"`
	ServiceP95       Seconds `json:"service_p95_seconds"`
	Margin           Seconds `json:"margin_seconds"`
	Deadline         Seconds `json:"deadline_seconds"`
	QueuedWork       Seconds `json:"queued_work_seconds"`
	Slots            int     `json:"slots"`
	TenantQueuedWork Seconds `json:"tenant_queued_work_seconds"`
	TenantLimit      Seconds `json:"tenant_limit_seconds"`
	CopyAge          Seconds `json:"copy_age_seconds"` // of the copy of the lane it was decided on
	Probe            bool    `json:"probe"`
}

// Quote is what a submission would be told now. RetryAfterSeconds is absent (0) for Accept and deadline_infeasible,
// where waiting changes nothing, and present otherwise.
type Quote struct {
	Outcome           Code     `json:"outcome"`
	Decision          Decision `json:"decision"`
	RetryAfterSeconds int64    `json:"retry_after_seconds,omitzero"`
}

// Lane is a lane as it stands.
type Lane struct {
	Lane          string  `json:"lane"`
	QueuedWork    Seconds `json:"queued_work_seconds"`
	Waiting       int64   `json:"waiting"`
	Queued        int64   `json:"queued"`
	Running       int64   `json:"running"`
	Slots         int     `json:"slots"`
	OldestAge     Seconds `json:"oldest_age_seconds"`     // of what waits or is queued; 0 when nothing does
	PredictedWait Seconds `json:"predicted_wait_seconds"` // Unbounded (null) without slots
	Paused        bool    `json:"paused"`
}

// LaneList is all lanes by name.
type LaneList struct {
	Items Items[Lane] `json:"items"`
}

// Health is the answer of a process that is up.
type Health struct {
	Status     string `json:"status"`      // "ok"
	ConfigHash string `json:"config_hash"` // SHA-256 of the compiled configuration, 64 hex digits
	Version    string `json:"version"`
}

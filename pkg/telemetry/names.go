package telemetry

// Metrics, as CloudWatch shows them. What each means and its unit stand in Metrics.
const (
	AdmissionTotal     = "agent_admission_total"
	EstimatedWork      = "agent_queue_estimated_work_seconds"
	OldestAge          = "agent_queue_oldest_age_seconds"
	TaskStartDelay     = "agent_task_start_delay_seconds"
	ServiceTime        = "agent_service_seconds"
	DeadlineMissTotal  = "agent_deadline_miss_total"
	PredictionError    = "agent_prediction_error_seconds"
	QueueWaitP50       = "queue_wait_ms_p50"
	QueueWaitP95       = "queue_wait_ms_p95"
	QueueWaitP99       = "queue_wait_ms_p99"
	HeadOfLine         = "head_of_line"
	ProcessP50         = "process_ms_p50"
	ProcessP95         = "process_ms_p95"
	ProcessP99         = "process_ms_p99"
	InflightCount      = "inflight_count"
	RetryCount         = "retry_count"
	OldestMessageAge   = "oldest_message_age"
	BacklogAgeP95      = "backlog_age_p95"
	DLQCount           = "dlq_count"
	DLQInflow          = "dlq_inflow"
	QuarantineInflow   = "quarantine_inflow"
	WorkerBusyRatio    = "worker_busy_ratio"
	LaneRepairs        = "lane_repairs"
	LedgerDrift        = "ledger_drift"
	LaneMoves          = "lane_moves"
	LaneMovesBlocked   = "lane_moves_blocked"
	AggregatorLateness = "aggregator_lateness_seconds"
)

// Dimensions.
const (
	DimLane     = "lane"
	DimClass    = "task_class"
	DimTier     = "tenant_tier"
	DimDecision = "decision"
	DimStage    = "stage"
	DimMethod   = "method"
	// DimComponent is for what belongs to no lane: a line needs a dimension.
	DimComponent = "component"
)

// Metric describes one metric.
type Metric struct {
	Name       string
	Unit       string   // CloudWatch's name of it
	Dimensions []string // of every series
	Meaning    string
}

// Metrics are all metrics, grouped by what they tell.
var Metrics = []Metric{
	{AdmissionTotal, "Count", []string{DimDecision, DimClass, DimTier}, "decisions of the admission"},
	{EstimatedWork, "Seconds", []string{DimLane}, "estimated work that waits or is queued"},
	{OldestAge, "Seconds", []string{DimLane}, "age of the oldest task that has not started"},
	{TaskStartDelay, "Seconds", []string{DimLane, DimClass}, "from submission to first start; at most 100 values a minute that have its distribution"},
	{ServiceTime, "Seconds", []string{DimClass}, "service time of successes; at most 100 values a minute that have its distribution"},
	{DeadlineMissTotal, "Count", []string{DimStage}, "accepted tasks that could not start (start) or did not finish (finish) in time"},
	{PredictionError, "Seconds", []string{DimMethod}, "mean absolute error of the predicted wait, over the minute's first starts"},
	{QueueWaitP50, "Milliseconds", []string{DimLane}, "median from submission to first start"},
	{QueueWaitP95, "Milliseconds", []string{DimLane}, "95th percentile of it"},
	{QueueWaitP99, "Milliseconds", []string{DimLane}, "99th percentile of it"},
	{HeadOfLine, "None", []string{DimLane}, "1 if the 95th percentile of start delays is over the SLO, or three times what is usual in the lane and over a tenth of the SLO; else 0"},
	{ProcessP50, "Milliseconds", []string{DimLane}, "median duration of attempts"},
	{ProcessP95, "Milliseconds", []string{DimLane}, "95th percentile of it"},
	{ProcessP99, "Milliseconds", []string{DimLane}, "99th percentile of it"},
	{InflightCount, "Count", []string{DimLane}, "attempts that run"},
	{RetryCount, "Count", []string{DimLane}, "attempts that ended in a retry"},
	{OldestMessageAge, "Seconds", []string{DimLane}, "time since the oldest queued task got its slot without being claimed"},
	{BacklogAgeP95, "Seconds", []string{DimLane}, "95th percentile of the age of waiting tasks"},
	{DLQCount, "Count", []string{DimLane}, "messages in the dead-letter queue"},
	{DLQInflow, "Count", []string{DimLane}, "wake-ups of live tasks, and unreadable messages, that ended in the dead-letter queue"},
	{QuarantineInflow, "Count", []string{DimLane}, "tasks that went to quarantine"},
	{WorkerBusyRatio, "None", []string{DimLane}, "running attempts by slots"},
	{LaneRepairs, "Count", []string{DimLane}, "corrections of the lane's counts"},
	{LedgerDrift, "Count", []string{DimComponent}, "corrections of tenants' ledgers"},
	{LaneMoves, "Count", []string{DimComponent}, "classes and buckets that moved to another lane by what was learned of them"},
	{LaneMovesBlocked, "Count", []string{DimComponent}, "classes and buckets found too slow for their lane that have none to move to"},
	{AggregatorLateness, "Seconds", []string{DimComponent}, "by how much the aggregator's last report is older than a minute"},
}

// Find returns the description of a metric.
func Find(name string) (Metric, bool) {
	for _, m := range Metrics {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}

// ComponentAggregator is the only component.
const ComponentAggregator = "aggregator"

// Methods of predicting a wait.
const (
	MethodLevel = "water_level"
	MethodRatio = "queue_by_slots"
)

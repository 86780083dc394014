package policy

import "fmt"

// MaxClassLabels is the most classes that are metric labels of their own; all further ones share the label OtherClasses.
const MaxClassLabels = 50

// OtherClasses is the label of the classes beyond MaxClassLabels.
const OtherClasses = "other"

// DollarsPerSeries is what CloudWatch takes for one custom metric and month (us-east-1, the first 10,000).
const DollarsPerSeries = 0.30

// Decisions are the outcomes of admission that are labels of agent_admission_total. An unknown class has no lane or
// label and is not counted there.
var Decisions = []string{"accept", "reject_tenant_limit", "reject_rate_limit", "reject_deadline", "reject_lane_backlog",
	"reject_lane_paused", "reject_dependency", "deadline_infeasible"}

// MissStages are the labels of agent_deadline_miss_total: a task expired before it started, or finished too late.
var MissStages = []string{"start", "finish"}

// LaneMetrics are the metrics each lane has, percentiles counted one by one.
var LaneMetrics = []string{
	"queue_wait_ms p50", "queue_wait_ms p95", "queue_wait_ms p99", "process_ms p50", "process_ms p95", "process_ms p99",
	"inflight_count", "retry_count", "oldest_message_age", "backlog_age_p95", "dlq_count", "dlq_inflow",
	"quarantine_inflow", "worker_busy_ratio", "dependency_wait_ms",
}

// Series is how many time series one metric makes in a configuration.
type Series struct {
	Metric string // with its labels
	Count  int
	How    string // the product that gives Count
}

// ClassLabel is the metric label of a class: its name for the first MaxClassLabels by name, else OtherClasses.
func (c *Config) ClassLabel(class string) string {
	if c.index.labels[class] {
		return class
	}
	return OtherClasses
}

// Series counts the time series of every metric, at most: each label combination the configuration allows counts, seen or
// not, lanes that a class moves to by learning included.
func (c *Config) Series() []Series {
	classes := min(len(c.Classes), MaxClassLabels)
	if len(c.Classes) > MaxClassLabels {
		classes++ // other
	}
	pairs := map[[2]string]bool{}
	for _, class := range c.ClassNames() {
		for _, lane := range c.LanesOf(class) {
			pairs[[2]string{lane, c.ClassLabel(class)}] = true
		}
	}
	lanes, tiers, deps := len(c.Lanes), len(c.Tiers), len(c.Dependencies)
	perLane := fmt.Sprintf("%d lanes", lanes)
	return []Series{
		{"agent_admission_total{decision,task_class,tenant_tier}", len(Decisions) * classes * tiers,
			fmt.Sprintf("%d decisions × %d classes × %d tiers", len(Decisions), classes, tiers)},
		{"agent_queue_estimated_work_seconds{lane}", lanes, perLane},
		{"agent_queue_oldest_age_seconds{lane}", lanes, perLane},
		{"agent_task_start_delay_seconds{lane,task_class}", len(pairs), fmt.Sprintf("%d pairs of lane and class", len(pairs))},
		{"agent_service_seconds{task_class}", classes, fmt.Sprintf("%d classes", classes)},
		{"agent_deadline_miss_total{stage}", len(MissStages), fmt.Sprintf("%d stages", len(MissStages))},
		{"per lane: queue_wait_ms and process_ms (p50, p95, p99) and 9 more", len(LaneMetrics) * lanes,
			fmt.Sprintf("%d × %d lanes", len(LaneMetrics), lanes)},
		{"downstream_budget_usage{dependency}", deps, fmt.Sprintf("%d dependencies", deps)},
	}
}

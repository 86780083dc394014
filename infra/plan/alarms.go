package plan

import (
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/telemetry"
)

// Alarm is a CloudWatch alarm on one metric, or on an expression over several.
type Alarm struct {
	Key         string // stable, unique in the deployment
	Description string // what to do first, and the runbook's section
	Section     string // of docs/runbook.md, as an anchor
	Queries     []Query
	Comparison  string
	Threshold   float64
	Periods     int    // looked at
	Datapoints  int    // of them that must breach
	Missing     string // notBreaching or breaching
}

// Query is a metric or an expression. The last of an alarm's queries is what is compared.
type Query struct {
	ID         string
	Expression string
	Label      string
	Metric     Metric
}

// Metric is a CloudWatch metric.
type Metric struct {
	Namespace  string
	Name       string
	Dimensions []Dimension
	Stat       string
	PeriodS    int
}

// Dimension is a name and a value.
type Dimension struct{ Name, Value string }

// Comparisons.
const (
	above   = "GreaterThanThreshold"
	atLeast = "GreaterThanOrEqualToThreshold"
)

const (
	notBreaching = "notBreaching"
	breaching    = "breaching"
	minute       = 60
)

func (p *Plan) own(name, stat string, dims ...Dimension) Metric {
	return Metric{Namespace: p.Env.Namespace(), Name: name, Dimensions: dims, Stat: stat, PeriodS: minute}
}

func sqsMetric(queue, name, stat string) Metric {
	return Metric{Namespace: "AWS/SQS", Name: name, Dimensions: []Dimension{{"QueueName", queue}}, Stat: stat, PeriodS: minute}
}

func lambdaMetric(function, name, stat string) Metric {
	return Metric{Namespace: "AWS/Lambda", Name: name, Dimensions: []Dimension{{"FunctionName", function}}, Stat: stat, PeriodS: minute}
}

func one(m Metric) []Query { return []Query{{ID: "m", Metric: m}} }

// alarm makes an alarm whose description ends with where to read on.
func alarm(key, section, first string, queries []Query, comparison string, threshold float64, periods, datapoints int, missing string) Alarm {
	return Alarm{
		Key: key, Section: section, Description: first + " Read docs/runbook.md#" + section + ".",
		Queries: queries, Comparison: comparison, Threshold: threshold, Periods: periods, Datapoints: datapoints, Missing: missing,
	}
}

func alarms(p *Plan) []Alarm {
	var all []Alarm
	for _, l := range p.Lanes {
		all = append(all, p.laneAlarms(l)...)
	}
	return append(all, p.systemAlarms()...)
}

// laneAlarms are those that follow from a lane's SLO.
func (p *Plan) laneAlarms(l Lane) []Alarm {
	spec := p.Config.Lanes[l.Name]
	lane := Dimension{telemetry.DimLane, l.Name}
	oldest := spec.SLO.OldestAge.Std().Seconds()
	wait := float64(spec.SLO.QueueWaitP95.Std().Milliseconds())
	name := func(what string) string { return l.Name + "-" + what }
	to := fmt.Sprintf("Lane %s, owner %s: ", l.Name, spec.Owner)
	own := func(metric, stat string) []Query { return one(p.own(metric, stat, lane)) }

	list := []Alarm{
		alarm(name("oldest-age"), "waiting-too-long", to+fmt.Sprintf("a task waits for more than twice the SLO of %g s. Look at the dashboard's first row: are all slots busy (more work than planned) or idle (release or workers stand still)?", oldest),
			own(telemetry.OldestAge, "Maximum"), above, 2*oldest, 3, 3, notBreaching),
		alarm(name("sla-window"), "sla-window", to+"the oldest task has used 80 % of its SLO. Look at what runs now and whether it will end in time; lower the intake if not.",
			own(telemetry.OldestAge, "Maximum"), above, 0.8*oldest, 5, 5, notBreaching),
		alarm(name("message-age"), "waiting-too-long", to+"SQS shows a message older than twice the SLO: the mapping does not fetch. Check that the event source mapping is enabled and the function starts.",
			one(sqsMetric(l.Queue, "ApproximateAgeOfOldestMessage", "Maximum")), above, 2*oldest, 3, 3, notBreaching),
		alarm(name("start-delay"), "head-of-line", to+fmt.Sprintf("tasks start later than the target of %g ms, or three times as late as usual. Look for one class or tenant with long tasks at the head of the lane.", wait),
			own(telemetry.HeadOfLine, "Maximum"), atLeast, 1, 5, 3, notBreaching),
		alarm(name("dlq-inflow"), "dead-letters", to+"deliveries failed before any attempt began. Read the worker's newest errors: it fails while starting, is throttled, or met a body it cannot read.",
			own(telemetry.DLQInflow, "Sum"), above, 0, 1, 1, notBreaching),
		alarm(name("dlq-visible"), "dead-letters", to+"messages have lain in the dead-letter queue for 15 minutes: redrive does not heal them. Read the redrive function's log for the reason it gives per message.",
			one(sqsMetric(l.DeadLetters, "ApproximateNumberOfMessagesVisible", "Maximum")), above, 0, 15, 15, notBreaching),
		alarm(name("quarantine-inflow"), "quarantine", to+"tasks were given up after repeated failures. List them by signature, mend the cause, then replay with a rate.",
			own(telemetry.QuarantineInflow, "Sum"), above, 0, 1, 1, notBreaching),
		alarm(name("throttles"), "throttles", to+"workers are throttled, which burns receives and sends tasks to the dead-letter queue unrun. Compare MaximumConcurrency with the reserve and the account's quota.",
			one(lambdaMetric(l.Worker.Name, "Throttles", "Sum")), above, 0, 3, 2, notBreaching),
	}
	if p.Env.MetricMath {
		list = append(list, alarm(name("no-invocations"), "workers-stand-still", to+"messages are visible and nothing is invoked. Check the mapping's state and the account's concurrency.",
			[]Query{
				{ID: "visible", Metric: sqsMetric(l.Queue, "ApproximateNumberOfMessagesVisible", "Minimum")},
				{ID: "invoked", Metric: lambdaMetric(l.Worker.Name, "Invocations", "Sum")},
				{ID: "stalled", Label: "visible without invocations", Expression: "IF(visible > 0 AND FILL(invoked, 0) == 0, 1, 0)"},
			}, atLeast, 1, 5, 5, notBreaching))
	}
	return list
}

// systemAlarms are those of no lane.
func (p *Plan) systemAlarms() []Alarm {
	all := make([]Alarm, 0, 8)
	aggregator := Dimension{telemetry.DimComponent, telemetry.ComponentAggregator}
	for _, stage := range policy.MissStages {
		what := map[string]string{"start": "could not start in time", "finish": "finished after their deadline"}[stage]
		all = append(all, alarm("deadline-miss-"+stage, "deadline-misses", "Accepted tasks "+what+": a promise was broken. Compare predicted with actual wait on the dashboard; if predictions are right, look for lost workers.",
			one(p.own(telemetry.DeadlineMissTotal, "Sum", Dimension{telemetry.DimStage, stage})), above, 0, 3, 2, notBreaching))
	}
	all = append(all,
		alarm("aggregator-late", "aggregator-late", "The aggregator has reported nothing for three minutes or is late by more than one: releases, repairs and retries wait for it. Read its log, then check the schedule.",
			one(p.own(telemetry.AggregatorLateness, "Maximum", aggregator)), above, 60, 3, 3, breaching),
		alarm("ledger-drift", "ledger-drift", "A tenant's ledger did not agree with its tasks and was corrected. Nothing to save now; find out which crash or manual change caused it.",
			one(p.own(telemetry.LedgerDrift, "Sum", aggregator)), above, 0, 1, 1, notBreaching),
	)
	for _, f := range []Function{p.Admission, p.Aggregator} {
		all = append(all,
			alarm(f.Key+"-errors", "function-errors", "Function "+f.Key+" fails. Read its newest errors: a fault of the configuration or environment names every missing part.",
				one(lambdaMetric(f.Name, "Errors", "Sum")), above, 0, 5, 3, notBreaching),
			alarm(f.Key+"-throttles", "throttles", "Function "+f.Key+" is throttled: the account's unreserved concurrency is used up. Lower reserves or ask for a higher quota.",
				one(lambdaMetric(f.Name, "Throttles", "Sum")), above, 0, 5, 3, notBreaching))
	}
	return all
}

// Runbook is a section's heading as an anchor.
func Runbook(heading string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(heading)), " ", "-")
}

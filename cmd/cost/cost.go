package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/telemetry"
)

const million = 1e6

// cost is dollars per million tasks, by service.
type cost struct{ API, Lambda, SQS, DynamoDB, Logs float64 }

func (c cost) total() float64 { return c.API + c.Lambda + c.SQS + c.DynamoDB + c.Logs }

// of is what a million tasks of a road cost, without the handlers' own time.
func of(r road) cost {
	gbSeconds := r.Admissions*admissionMS/1000*admissionGB + r.Invocations*overheadMS/1000*workerGB
	return cost{
		API:      r.Admissions * perMillionHTTP,
		Lambda:   (r.Admissions+r.Invocations)*perMillionInvokes + gbSeconds*million*perGBSecondARM,
		SQS:      r.SQS * perMillionSQS,
		DynamoDB: r.WRU*perMillionWRU + r.RRU*perMillionRRU,
		Logs:     logBytes * million / 1e9 * perGBLogs,
	}
}

// idle is dollars a month while nothing happens.
type idle struct{ Polling, Metrics, Alarms float64 }

func (i idle) total() float64 { return i.Polling + i.Metrics + i.Alarms }

// laneMetrics are the metrics of telemetry that every lane has on its own.
func laneMetrics() (names []telemetry.Metric) {
	for _, m := range telemetry.Metrics {
		if len(m.Dimensions) == 1 && m.Dimensions[0] == telemetry.DimLane {
			names = append(names, m)
		}
	}
	return names
}

// laneAlarmMetrics are what a lane's nine alarms look at: eight at one metric, one at two.
const laneAlarmMetrics = 8 + 2

// perLane is the idle cost of one lane: two mappings that poll (its queue and
// its dead-letter queue), metrics and alarms.
func perLane() idle {
	return idle{
		Polling: 2 * idlePollsMonth / million * perMillionSQS,
		Metrics: float64(len(laneMetrics())) * perMetricMonth,
		Alarms:  laneAlarmMetrics * perAlarmMetric,
	}
}

// aggregator is the idle cost of its runs: time, lease and reads.
func aggregator() (lambda, dynamo float64) {
	seconds := month * idleRunShare
	lambda = seconds*aggregatorGB*perGBSecondARM + month/60/million*perMillionInvokes
	dynamo = (seconds*tickWRU+month/60*reportWRU)/million*perMillionWRU + (seconds*tickRRU+month/60*reportRRU)/million*perMillionRRU
	return lambda, dynamo
}

// write writes docs/cost.md.
func write(out io.Writer, cfg *policy.Config) error {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# What it costs\n")
	p("Written by `make cost`; do not edit. On-demand list prices of us-east-1 as of %s, in US dollars, without free tiers.", pricesAsOf)
	p("Units per task are those of `make bench` on %s; durations are assumptions, stated below. Handlers' own time is yours", measuredAt)
	p("and comes on top: one GB-second is $%.7f.\n", perGBSecondARM)
	p("## A million tasks\n")
	p("| task | write units | read units | API | Lambda | SQS | DynamoDB | logs | **total** |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, r := range roads {
		c := of(r)
		p("| %s | %.1f | %.1f | $%.2f | $%.2f | $%.2f | $%.2f | $%.2f | **$%.2f** |", r.Name, r.WRU, r.RRU, c.API, c.Lambda, c.SQS, c.DynamoDB, c.Logs, c.total())
	}
	p("")
	for _, r := range roads {
		p("- *%s*: %s. Units: %s.", r.Name, r.About, r.Source)
	}
	p("- Assumed: admission %.0f ms at %.2f GB, a worker's overhead %.0f ms at %.2f GB, %.0f bytes of logs a task.\n", admissionMS, admissionGB, overheadMS, workerGB, logBytes)
	p("DynamoDB is most of it; ADR 2 says where the units go and how they can become four.\n")
	p("## Doing nothing, a month\n")
	l := perLane()
	lambda, dynamo := aggregator()
	p("| | polling | metrics | alarms | **total** |\n| --- | --- | --- | --- | --- |")
	p("| one lane | $%.2f | $%.2f | $%.2f | **$%.2f** |\n", l.Polling, l.Metrics, l.Alarms, l.total())
	p("The aggregator, for all lanes together: Lambda $%.2f, DynamoDB $%.2f. With work under way all the time, twice that.\n", lambda, dynamo)
	p("## Metrics\n")
	p("Each series costs $%.2f a month while it is emitted. A lane has these %d of its own, that is $%.2f:\n", perMetricMonth, len(laneMetrics()), l.Metrics)
	p("| metric | what it tells | $ a month and lane |\n| --- | --- | --- |")
	for _, m := range laneMetrics() {
		p("| `%s` | %s | %.2f |", m.Name, m.Meaning, perMetricMonth)
	}
	p("\nThe percentiles are emitted only in minutes in which tasks started or ended, so a lane at rest does not pay for those six.\n")
	p("Metrics with further labels, at most, for the demonstration's configuration; `lanekeeper config check` counts them for yours:\n")
	p("| metric | series | $ a month |\n| --- | --- | --- |")
	for _, s := range cfg.Series() {
		if strings.HasPrefix(s.Metric, "per lane") {
			continue
		}
		p("| `%s` | %d | %.2f |", s.Metric, s.Count, float64(s.Count)*perMetricMonth)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

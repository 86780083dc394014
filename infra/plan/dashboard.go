package plan

import (
	"encoding/json"
	"fmt"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/telemetry"
)

// The dashboard answers, from top to bottom: is anyone waiting too long, who is
// refused and why, are the predictions right, which dependency is the cause.

const (
	columns    = 24
	chartWidth = 8
	chartHigh  = 6
)

type widget struct {
	Type       string         `json:"type"`
	X          int            `json:"x"`
	Y          int            `json:"y"`
	Width      int            `json:"width"`
	Height     int            `json:"height"`
	Properties map[string]any `json:"properties"`
}

type board struct {
	widgets []widget
	x, y    int
}

func (b *board) heading(text string) {
	b.newRow()
	b.widgets = append(b.widgets, widget{"text", 0, b.y, columns, 1, map[string]any{"markdown": "## " + text}})
	b.y++
}

func (b *board) newRow() {
	if b.x > 0 {
		b.x, b.y = 0, b.y+chartHigh
	}
}

func (b *board) chart(title string, metrics ...any) {
	if len(metrics) == 0 {
		return
	}
	if b.x+chartWidth > columns {
		b.newRow()
	}
	b.widgets = append(b.widgets, widget{"metric", b.x, b.y, chartWidth, chartHigh, map[string]any{
		"title": title, "region": "${AWS::Region}", "view": "timeSeries", "period": minute, "metrics": metrics,
	}})
	b.x += chartWidth
}

// line is one metric in CloudWatch's array form.
func line(m Metric, label string) any {
	parts := []any{m.Namespace, m.Name}
	for _, d := range m.Dimensions {
		parts = append(parts, d.Name, d.Value)
	}
	return append(parts, map[string]any{"stat": m.Stat, "label": label})
}

// search is an expression that finds series whose dimensions are not all known now.
func search(namespace string, dims string, metric, stat, label string) any {
	return []any{map[string]any{"expression": fmt.Sprintf(`SEARCH('{%q,%s} MetricName=%q', '%s', %d)`, namespace, dims, metric, stat, minute), "label": label}}
}

func dashboard(p *Plan) string {
	b := &board{}
	perLane := func(metric, stat string) []any {
		var lines []any
		for _, l := range p.Lanes {
			lines = append(lines, line(p.own(metric, stat, Dimension{telemetry.DimLane, l.Name}), l.Name))
		}
		return lines
	}
	ns := p.Env.Namespace()

	b.heading("Is anyone waiting too long?")
	b.chart("oldest task that has not started (s)", perLane(telemetry.OldestAge, "Maximum")...)
	b.chart("start delay p95 (ms)", perLane(telemetry.QueueWaitP95, "Maximum")...)
	b.chart("work that waits (s)", perLane(telemetry.EstimatedWork, "Maximum")...)
	b.chart("busy workers by slots", perLane(telemetry.WorkerBusyRatio, "Average")...)
	b.chart("running attempts", perLane(telemetry.InflightCount, "Maximum")...)
	b.chart("attempts' duration p95 (ms)", perLane(telemetry.ProcessP95, "Maximum")...)

	b.heading("Who is refused, and why?")
	byDecision := telemetry.DimDecision + "," + telemetry.DimClass + "," + telemetry.DimTier
	b.chart("decisions", search(ns, byDecision, telemetry.AdmissionTotal, "Sum", "${!PROP('Dim."+telemetry.DimDecision+"')} ${!PROP('Dim."+telemetry.DimClass+"')} ${!PROP('Dim."+telemetry.DimTier+"')}"))
	b.chart("quarantined", perLane(telemetry.QuarantineInflow, "Sum")...)
	b.chart("dead letters", perLane(telemetry.DLQCount, "Maximum")...)

	b.heading("Are the predictions right?")
	b.chart("mean error of the predicted wait (s)",
		line(p.own(telemetry.PredictionError, "Average", Dimension{telemetry.DimMethod, telemetry.MethodLevel}), "water level"),
		line(p.own(telemetry.PredictionError, "Average", Dimension{telemetry.DimMethod, telemetry.MethodRatio}), "queue by slots"))
	var misses []any
	for _, stage := range policy.MissStages {
		misses = append(misses, line(p.own(telemetry.DeadlineMissTotal, "Sum", Dimension{telemetry.DimStage, stage}), stage))
	}
	b.chart("deadlines missed", misses...)
	b.chart("service time p95 (s)", search(ns, telemetry.DimClass, telemetry.ServiceTime, "p95", "${!PROP('Dim."+telemetry.DimClass+"')}"))

	b.heading("Which dependency is the cause?")
	b.chart("retries", perLane(telemetry.RetryCount, "Sum")...)
	var errors, throttles []any
	for _, f := range p.Functions() {
		errors = append(errors, line(lambdaMetric(f.Name, "Errors", "Sum"), f.Key))
		throttles = append(throttles, line(lambdaMetric(f.Name, "Throttles", "Sum"), f.Key))
	}
	b.chart("failed invocations", errors...)
	b.chart("throttled invocations", throttles...)
	b.chart("the table's own limits", line(Metric{Namespace: "AWS/DynamoDB", Name: "WriteThrottleEvents", Dimensions: []Dimension{{"TableName", p.Env.Table()}}, Stat: "Sum"}, "write throttles"),
		line(Metric{Namespace: "AWS/DynamoDB", Name: "ReadThrottleEvents", Dimensions: []Dimension{{"TableName", p.Env.Table()}}, Stat: "Sum"}, "read throttles"))

	text, err := json.Marshal(map[string]any{"widgets": b.widgets})
	if err != nil {
		panic(err) // maps of strings and numbers marshal
	}
	return string(text)
}

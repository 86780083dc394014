package main

import (
	"bytes"
	"math"
	"os"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

func near(a, b float64) bool { return math.Abs(a-b) < 0.005 }

// TestCostOfATask computes one by hand.
func TestCostOfATask(t *testing.T) {
	c := of(road{WRU: 2, RRU: 4, Admissions: 1, SQS: 3, Invocations: 1})
	// 20 ms and 40 ms at half a GB are 0.03 GB-seconds: $0.40 a million; two invocations are $0.40.
	want := cost{API: 1, Lambda: 0.40 + 0.40, SQS: 1.2, DynamoDB: 1.25 + 0.5, Logs: 0.30}
	if !near(c.API, want.API) || !near(c.Lambda, want.Lambda) || !near(c.SQS, want.SQS) || !near(c.DynamoDB, want.DynamoDB) || !near(c.Logs, want.Logs) {
		t.Errorf("%+v, want %+v", c, want)
	}
	if !near(c.total(), 5.05) {
		t.Errorf("in all %g", c.total())
	}
}

func TestCostsAreInOrder(t *testing.T) {
	single, congested, retried := of(roads[0]), of(roads[1]), of(roads[2])
	if retried.total() <= single.total() || congested.SQS >= single.SQS || congested.Lambda >= single.Lambda {
		t.Errorf("single %+v, congested %+v, retried %+v", single, congested, retried)
	}
}

func TestIdleCosts(t *testing.T) {
	l := perLane()
	if !near(l.Polling, 0.52) || !near(l.Metrics, 0.3*float64(len(laneMetrics()))) || !near(l.Alarms, 1.0) {
		t.Errorf("%+v", l)
	}
	lambda, dynamo := aggregator()
	if !near(lambda, 4.39) || dynamo < 2 || dynamo > 4 {
		t.Errorf("lambda %g, dynamo %g", lambda, dynamo)
	}
}

// TestDocument: what stands in docs/cost.md is what the program computes.
func TestDocument(t *testing.T) {
	cfg, err := policyfile.Load("../../localstack/lanekeeper.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := write(&buf, cfg); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../docs/cost.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, buf.Bytes()) {
		t.Error("docs/cost.md is not what make cost prints: make cost ARGS='-o docs/cost.md'")
	}
}

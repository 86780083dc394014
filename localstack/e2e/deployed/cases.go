package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/e2e"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/environment"
)

const (
	environmentAggregator = environment.Aggregator
	tenant                = "demo-gamma" // of the configuration
)

// cases are those that only a deployment can show.
func (t *tester) cases() []e2e.Case {
	return []e2e.Case{
		{Name: "every alarm on a metric of ours watches one that a function emitted", Run: t.alarmsMatch},
		{Name: "a worker that fails to start puts messages into the DLQ, and redrive heals them once it is mended", Run: t.breakAndMend},
		{Name: "a changed configuration is deployed on top without losing tasks under way", Run: t.redeploy},
	}
}

func (t *tester) alarmsMatch(c *e2e.C) {
	watched, err := t.watched(c.Context)
	c.Must(err)
	if len(watched) < 20 {
		c.Failf("only %d alarms on metrics of ours", len(watched))
	}
	c.Eventually("lines of all watched metrics", func() (bool, string) {
		emitted, err := t.emitted(c.Context)
		c.Must(err)
		var missing []string
		for metric, name := range maps.All(watched) {
			if !emitted[metric] {
				missing = append(missing, name+" watches "+metric)
			}
		}
		slices.Sort(missing)
		return len(missing) == 0, fmt.Sprintf("%d metrics emitted; %s", len(emitted), strings.Join(missing, "; "))
	})
}

// changed is the configuration with one more lane, another time limit, and
// without the lane that the burst used, which has drained.
func changed() []byte {
	text := string(e2e.Configuration())
	text = strings.Replace(text, "  burst:                # two workers", `  agents:
    owner: e2e
    slo: {queue_wait_p95: 5m, oldest_age: 15m}
    workers: {max_concurrency: 2, reserved: 2}
    attempt_timeout: 2m
    retry: {max_attempts: 2}
    dlq: {max_receives: 5}
    brakes: []

  burst:                # two workers`, 1)
	text = strings.Replace(text, "attempt_timeout: 1m\n", "attempt_timeout: 90s\n", 1)
	text = cut(text, "  burst:                # two workers", "  fragile:")
	text = cut(text, "  burst.long:", "  e2e.fragile:")
	return []byte(strings.Replace(text, "  e2e.fail:", `  e2e.agent:
    lane: agents
    priority: {default: normal, max: high}
    prior: {p50: 1s, p95: 2s}
    cap: 1m
    target: {builtin: sleep}

  e2e.fail:`, 1))
}

// cut takes out what stands from one text up to another.
func cut(text, from, to string) string {
	before, rest, _ := strings.Cut(text, from)
	_, after, _ := strings.Cut(rest, to)
	return before + to + after
}

// redeploy changes the configuration while tasks run and wait, and a lane is new.
func (t *tester) redeploy(c *e2e.C) {
	var ids []string
	for range 2 {
		ids = append(ids, c.Submit(tenant, "agent.migration", `{"sleep_ms": 12000}`).ID)
	}
	for range 6 {
		ids = append(ids, c.Submit(tenant, "agent.lint", `{"sleep_ms": 3000}`).ID)
	}
	began := clock.System()
	c.Must(t.deploy(c.Context, changed()))
	c.Sayf("deployed in %v", clock.System().Sub(began).Round(time.Second))
	for _, id := range ids {
		c.Until(tenant, id, events.StateSucceeded)
	}
	if names, err := t.queues(c.Context); err != nil || slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, t.env.Queue("burst")) }) {
		c.Failf("the drained lane is still there: %v, %v", names, err)
	}
	c.Eventually("the new lane", func() (bool, string) {
		task, err := c.TrySubmit(tenant, "e2e.agent", `{"sleep_ms": 10}`)
		if err != nil {
			return false, err.Error()
		}
		c.Until(tenant, task.ID, events.StateSucceeded)
		return true, ""
	})
}

// concurrency looks whether two slow messages on two queues run at once, which
// some emulators cannot, and gives the cases that must be left out if not.
func (t *tester) concurrency(ctx context.Context) *regexp.Regexp {
	var overlap time.Duration
	probe := e2e.Case{Name: "a probe: two slow tasks in two lanes", Run: func(c *e2e.C) {
		a, b := c.Submit(tenant, "agent.migration", `{"sleep_ms": 3000}`), c.Submit(tenant, "agent.lint", `{"sleep_ms": 3000}`)
		x, y := c.Until(tenant, a.ID, events.StateSucceeded), c.Until(tenant, b.ID, events.StateSucceeded)
		overlap = time.Duration(min(x.FinishedAt, y.FinishedAt)-max(x.StartedAt, y.StartedAt)) * time.Millisecond
	}}
	passed, failed := e2e.Run(ctx, e2e.Config{Base: t.base, Out: t.out, Cases: []e2e.Case{probe}})
	t.passed, t.failed = t.passed+passed, t.failed+failed
	if failed > 0 || overlap > 0 {
		_, _ = fmt.Fprintf(t.out, "      two slow messages on two queues overlapped by %v\n", overlap)
		return nil
	}
	left := regexp.MustCompile(`^burst|^a changed configuration`)
	_, _ = fmt.Fprintf(t.out, "      this endpoint runs the queues' mappings one after another; left out: cases that match %s\n", left)
	return left
}

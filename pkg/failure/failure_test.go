package failure_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/failure"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
	"github.com/lanekeeper/lanekeeper/pkg/task"
)

func load(t testing.TB) *policy.Config {
	t.Helper()
	cfg, err := policyfile.Parse("test.yaml", []byte(`version: 1
lanes:
  main: {owner: t, slo: {queue_wait_p95: 1m, oldest_age: 1m}, workers: {max_concurrency: 4}, retry: {max_attempts: 5, immediate: 1, backoff_base: 10s, backoff_cap: 1m, quarantine_after: 3}, dlq: {max_receives: 5}, brakes: []}
  plain: {owner: t, slo: {queue_wait_p95: 1m, oldest_age: 1m}, workers: {max_concurrency: 4}, retry: {max_attempts: 3, backoff_base: 10s}, dlq: {max_receives: 5}, brakes: []}
  long: {owner: t, slo: {queue_wait_p95: 1m, oldest_age: 1m}, workers: {max_concurrency: 4}, retry: {max_attempts: 31, backoff_base: 1s}, dlq: {max_receives: 5}, brakes: []}
  retry: {role: retry, share: 0.2, owner: t, slo: {queue_wait_p95: 1m, oldest_age: 1m}, retry: {max_attempts: 3, backoff_base: 7s}, dlq: {max_receives: 5}, brakes: []}
classes:
  job: {lane: main, prior: {p50: 1s, p95: 2s}, cap: 1m}
  once: {lane: main, retry: none, prior: {p50: 1s, p95: 2s}, cap: 1m}
tiers: {basic: {max_queued_work: 1m, max_active: 2}}
`))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

const now = 1_000_000

func TestNext(t *testing.T) {
	t.Parallel()
	cfg := load(t)
	again := failure.Failure{Retryable: true}
	for name, c := range map[string]struct {
		task   task.Task
		f      failure.Failure
		want   task.Event
		notBef int64 // with u just below 1
	}{
		"the first retry is immediate":             {task.Task{Class: "job", Lane: "main", Failures: 1, Same: 1}, again, task.Retry, now},
		"the second waits the first backoff":       {task.Task{Class: "job", Lane: "main", Failures: 2, Same: 1}, again, task.Retry, now + 10_000},
		"the third the second":                     {task.Task{Class: "job", Lane: "main", Failures: 3, Same: 1}, again, task.Retry, now + 20_000},
		"a downstream's wish is not overruled":     {task.Task{Class: "job", Lane: "main", Failures: 1, Same: 1}, failure.Failure{Retryable: true, AfterMS: 90_000}, task.Retry, now + 90_000},
		"without immediate a backoff at once":      {task.Task{Class: "job", Lane: "plain", Failures: 1, Same: 1}, again, task.Retry, now + 10_000},
		"attempts used up":                         {task.Task{Class: "job", Lane: "main", Failures: 5, Same: 1}, again, task.Poison, 0},
		"three equal failures in a row":            {task.Task{Class: "job", Lane: "main", Failures: 3, Same: 3}, again, task.Poison, 0},
		"equal failures, not counted here":         {task.Task{Class: "job", Lane: "plain", Failures: 2, Same: 2}, again, task.Retry, now + 20_000},
		"the third task of a payload":              {task.Task{Class: "job", Lane: "main", Failures: 1, Same: 1}, failure.Failure{Retryable: true, SamePayload: 3}, task.Poison, 0},
		"the second task of a payload":             {task.Task{Class: "job", Lane: "main", Failures: 1, Same: 1}, failure.Failure{Retryable: true, SamePayload: 2}, task.Retry, now},
		"not retryable":                            {task.Task{Class: "job", Lane: "main", Failures: 1, Same: 1}, failure.Failure{}, task.Fail, 0},
		"not retryable, though it failed so often": {task.Task{Class: "job", Lane: "main", Failures: 3, Same: 3}, failure.Failure{}, task.Fail, 0},
		"a class that is not retried":              {task.Task{Class: "once", Lane: "main", Failures: 1, Same: 1}, again, task.Fail, 0},
		"its worker was lost: somebody must look":  {task.Task{Class: "once", Lane: "main", Failures: 1, Same: 1}, failure.Failure{Retryable: true, Lost: true}, task.Poison, 0},
		"its handler never began":                  {task.Task{Class: "once", Lane: "main", Failures: 1, Same: 1}, failure.Failure{Retryable: true, NotBegun: true}, task.Retry, now},
		"a lost worker is retried otherwise":       {task.Task{Class: "job", Lane: "main", Failures: 1, Same: 1}, failure.Failure{Retryable: true, Lost: true}, task.Retry, now},
		"a lane that is gone has the retry lane's": {task.Task{Class: "job", Lane: "gone", Failures: 1, Same: 1}, again, task.Retry, now + 7_000},
		"and its number of attempts":               {task.Task{Class: "job", Lane: "gone", Failures: 3, Same: 1}, again, task.Poison, 0},
		"a class that is not retried, of no lane":  {task.Task{Class: "once", Lane: "gone", Failures: 1, Same: 1}, again, task.Fail, 0},
	} {
		if event, at := failure.Next(cfg, &c.task, c.f, now, 1-1e-12); event != c.want || at != c.notBef {
			t.Errorf("%s: %s at %d, want %s at %d", name, event, at-now, c.want, c.notBef-now)
		}
	}
}

func TestCountKeepsTheRunOfEqualSignatures(t *testing.T) {
	t.Parallel()
	x, y := &task.Error{Signature: "x"}, &task.Error{Signature: "y"}
	var got task.Task
	for i, step := range []struct {
		last, now *task.Error
		same      int64
	}{{nil, x, 1}, {x, x, 2}, {x, y, 1}, {y, y, 2}, {nil, y, 1}, {y, y, 2}} {
		if step.last == nil {
			got.Same = 0 // an attempt that went on, or a replay, ended the run
		}
		failure.Count(&got, step.last, step.now)
		if got.Same != step.same || got.Failures != int64(i+1) || got.Error != step.now {
			t.Errorf("after %d: %+v", i+1, got)
		}
	}
}

// TestEveryTaskEnds: whatever fails in whatever way, a task is repeated at most
// max_attempts − 1 times.
func TestEveryTaskEnds(t *testing.T) {
	cfg := load(t)
	rapid.Check(t, func(t *rapid.T) {
		x := task.Task{Class: rapid.SampledFrom([]string{"job", "once", "gone"}).Draw(t, "class"), Lane: rapid.SampledFrom([]string{"main", "plain", "gone"}).Draw(t, "lane")}
		var last *task.Error
		for i := 1; ; i++ {
			e := &task.Error{Signature: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "signature")}
			failure.Count(&x, last, e)
			last = e
			f := failure.Failure{Retryable: rapid.Bool().Draw(t, "retryable"), Lost: rapid.Bool().Draw(t, "lost"), NotBegun: rapid.Bool().Draw(t, "not begun"),
				AfterMS: rapid.Int64Range(0, 1e6).Draw(t, "after"), SamePayload: rapid.Int64Range(0, 4).Draw(t, "same payload")}
			event, at := failure.Next(cfg, &x, f, now, rapid.Float64Range(0, 1).Draw(t, "u"))
			if event != task.Retry {
				return
			}
			if i >= 5 || at < now+f.AfterMS {
				t.Fatalf("retry %d at %+d after a wish of %d", i, at-now, f.AfterMS)
			}
		}
	})
}

func TestThirtyRetriesEndInQuarantine(t *testing.T) {
	t.Parallel()
	cfg := load(t)
	x := task.Task{Class: "job", Lane: "long"}
	e := &task.Error{Signature: "s"}
	for i := 1; i <= 31; i++ {
		failure.Count(&x, x.Error, e)
		event, at := failure.Next(cfg, &x, failure.Failure{Retryable: true}, now, 0.999)
		if want := map[bool]task.Event{true: task.Retry, false: task.Poison}[i <= 30]; event != want || at > now+60_000 {
			t.Fatalf("failure %d: %s, %d ms later", i, event, at-now)
		}
	}
}

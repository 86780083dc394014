package rig

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/aggregate"
	"github.com/lanekeeper/lanekeeper/pkg/chance"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/execute"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// The configuration that tests begin with: two slots in each lane, contracts
// that do not bind, and estimates that are round numbers (class "short": an
// amount of 1 s, for a p50 equal to its p95).
const base = `
version: 1
tasks: {retention: 168h, max_deadline: 336h, resend_after: 30s}
lanes:
  standard:
    owner: oncall
    slo: {queue_wait_p95: 5s, oldest_age: 10s}
    workers: {max_concurrency: 2, reserved: 2}
    attempt_timeout: 30s
    safety_margin: 0s
    backlog: {max_work: 8000h}
    retry: {max_attempts: 3, backoff_base: 1s, backoff_cap: 10s}
    dlq: {max_receives: 5, retention: 336h}
    brakes: []
  retry:
    role: retry
    share: 0.2
    owner: oncall
    slo: {queue_wait_p95: 5s, oldest_age: 10s}
    attempt_timeout: 30s
    safety_margin: 0s
    backlog: {max_work: 8000h}
    retry: {max_attempts: 3, backoff_base: 1s, backoff_cap: 10s}
    dlq: {max_receives: 5, retention: 336h}
    brakes: []
classes:
  short:
    lane: standard
    priority: {default: normal, max: critical}
    prior: {p50: 1s, p95: 1s}
    cap: 1m
  late:
    lane: standard
    prior: {p50: 1s, p95: 1s}
    cap: 1m
    late: run
  sized:
    lane: standard
    prior: {p50: 2s, p95: 2s}
    cap: 1m
    max_hints: {rows: 100}
    require_idempotency_key: true
tiers:
  basic: {max_queued_work: 1000h, max_active: 100, max_priority: high}
  other: {max_queued_work: 1000h, max_active: 100, max_priority: high}
priorities:
  high: {max_wait: 336h, max_duration: 336h}
  normal: {max_wait: 336h, max_duration: 336h}
tenants:
  alpha: {tier: basic, keys: [key-alpha]}
  beta: {tier: other, keys: [key-beta]}
operators: {keys: [key-admin]}
`

// Config is that configuration with some of its text replaced: old, new, old,
// new … Each old text must be in it.
func Config(t testing.TB, replacements ...string) *policy.Config {
	t.Helper()
	text := base
	for i := 0; i+1 < len(replacements); i += 2 {
		if !strings.Contains(text, replacements[i]) {
			t.Fatalf("the configuration has no %q", replacements[i])
		}
		text = strings.Replace(text, replacements[i], replacements[i+1], 1)
	}
	cfg, err := policyfile.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Parse is that configuration as it is.
func Parse() *policy.Config {
	cfg, err := policyfile.Parse("test.yaml", []byte(base))
	if err != nil {
		panic(err)
	}
	return cfg
}

// Rig is a table, a queue and a clock that services share.
type Rig struct {
	Config *policy.Config
	Raw    op.Table // without faults
	Table  *Tap     // what the services see
	Queue  *Queue
	Clock  clock.Clock
	Float  func() float64
}

// New makes a rig over a table. now is its clock; nil is the system's.
func New(cfg *policy.Config, table op.Table, now clock.Clock) *Rig {
	if now == nil {
		now = clock.System
	}
	return &Rig{Config: cfg, Raw: table, Table: &Tap{Table: table}, Queue: NewQueue(), Clock: now, Float: func() float64 { return 0.5 }}
}

// Intake makes an admission of its own: with its own copies of lanes and ledgers.
func (r *Rig) Intake() *intake.Service {
	return intake.New(intake.Deps{Config: r.Config, Table: r.Table, Queue: r.Queue, Clock: r.Clock, Tally: tally.New(), Float: r.Float, NewID: chance.NewID})
}

// Execute makes a worker's service.
func (r *Rig) Execute(mux *worker.Mux) *execute.Service {
	return execute.New(execute.Deps{Config: r.Config, Table: r.Table, Mux: mux, Clock: r.Clock, Tally: tally.New(), Float: r.Float, NewID: chance.NewToken})
}

// Aggregate makes an aggregator.
func (r *Rig) Aggregate() *aggregate.Service {
	return aggregate.New(aggregate.Deps{Config: r.Config, Table: r.Table, Queue: r.Queue, Clock: r.Clock, Tally: tally.New(), Float: r.Float, NewID: chance.NewToken})
}

// Deliver gives all messages that are in a lane's queue to a worker, one
// invocation after another, each with the given time limit (0: none), until
// none is left. What the worker did not take comes back to the queue.
func (r *Rig) Deliver(ctx context.Context, svc *execute.Service, lane string, limit time.Duration) {
	var back []execute.Delivery
	for {
		d, ok := r.Queue.Take(lane)
		if !ok {
			break
		}
		if failed := Invoke(ctx, svc, lane, limit, d); len(failed) > 0 {
			back = append(back, d)
		}
	}
	for _, d := range back {
		r.Queue.Return(lane, d)
	}
}

// Invoke is one invocation of a worker.
func Invoke(ctx context.Context, svc *execute.Service, lane string, limit time.Duration, batch ...execute.Delivery) (failed []string) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	return svc.Batch(ctx, lane, batch)
}

// Who is the principal of a tenant of the configuration.
func (r *Rig) Who(tenant string) intake.Principal {
	t, ok := r.Config.Tenant(tenant)
	if !ok {
		panic("rig: no tenant " + tenant)
	}
	return intake.Principal{Tenant: tenant, Tier: t.Tier}
}

// Ledger reads a tenant's ledger.
func (r *Rig) Ledger(t testing.TB, tenant string) taskop.Ledger {
	t.Helper()
	item, err := r.Raw.Get(context.WithoutCancel(t.Context()), taskop.LedgerKey(tenant), true)
	if err != nil {
		t.Fatal(err)
	}
	return taskop.DecodeLedger(item)
}

// Lane reads a lane's item.
func (r *Rig) Lane(t testing.TB, name string) taskop.Lane {
	t.Helper()
	item, err := r.Raw.Get(context.WithoutCancel(t.Context()), taskop.LaneKey(name), true)
	if err != nil {
		t.Fatal(err)
	}
	l, err := taskop.DecodeLane(name, item)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Task reads a task's row; nil when there is none.
func (r *Rig) Task(t testing.TB, tenant, id string) *task.Task {
	t.Helper()
	key := taskop.RowKey(tenant, id)
	item, err := r.Raw.Get(context.WithoutCancel(t.Context()), key, true)
	if err != nil {
		t.Fatal(err)
	}
	if item == nil {
		return nil
	}
	x, err := taskop.DecodeRow(key, item)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// Tasks reads all rows of the configuration's tenants.
func (r *Rig) Tasks(t testing.TB) []*task.Task {
	t.Helper()
	var out []*task.Task
	for _, tenant := range r.Config.TenantNames() {
		for shard := range taskop.TaskShards {
			q := op.Query{PK: taskop.RowPartition(tenant, shard), Consistent: true}
			err := q.All(context.WithoutCancel(t.Context()), r.Raw, func(row op.Row) bool {
				x, err := taskop.DecodeRow(row.Key, row.Item)
				if err != nil {
					t.Error(err)
					return false
				}
				out = append(out, x)
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

// Claim begins an attempt of a queued task as a worker does, and leaves it
// running.
func (r *Rig) Claim(t testing.TB, x *task.Task) *task.Task {
	t.Helper()
	now := r.Clock().UnixMilli()
	l := taskop.Lease{Token: chance.NewToken(), NowMS: now, UntilMS: now + 35_000}
	if err := r.Raw.Transact(t.Context(), taskop.Claim(x, l)); err != nil {
		t.Fatal(err)
	}
	claimed := taskop.Claimed(x, l)
	o := taskop.Open{ID: x.ID, Class: x.Class, Bucket: x.Bucket, Tenant: x.Tenant, SinceMS: now, AmountMS: x.AmountMS, Running: true}
	if _, err := r.Raw.Write(t.Context(), taskop.BeginRun(x.AtLane, o)); err != nil {
		t.Fatal(err)
	}
	return claimed
}

// Succeed ends a running attempt, and gives its slot back.
func (r *Rig) Succeed(t testing.TB, x *task.Task) {
	t.Helper()
	after := *x
	after.FinishedMS = r.Clock().UnixMilli()
	if err := r.Raw.Transact(t.Context(), taskop.Finish(x, taskop.End{Event: task.Succeed, After: &after})); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Raw.Write(t.Context(), taskop.EndRun(x.AtLane, x.ID, false)); err != nil {
		t.Fatal(err)
	}
}

package aggregate

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// bedConfig has two lanes of ten slots, so that the retry lane has four.
const bedConfig = `version: 1
lanes:
  a: {owner: t, slo: {queue_wait_p95: 1m, oldest_age: 1m}, workers: {max_concurrency: 10}, retry: {max_attempts: 3, quarantine_after: 2}, dlq: {max_receives: 5}, brakes: []}
  b: {owner: t, slo: {queue_wait_p95: 1m, oldest_age: 1m}, workers: {max_concurrency: 10}, retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []}
  retry: {role: retry, share: 0.2, owner: t, slo: {queue_wait_p95: 1m, oldest_age: 1m}, retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []}
classes:
  job: {lane: a, priority: {max: critical}, prior: {p50: 1s, p95: 2s}, cap: 1m}
  once: {lane: a, retry: none, prior: {p50: 1s, p95: 2s}, cap: 1m}
  other: {lane: b, priority: {max: critical}, prior: {p50: 1s, p95: 2s}, cap: 1m}
tiers: {basic: {max_queued_work: 24h, max_active: 100, max_priority: critical}}
tenants: {alpha: {tier: basic}, beta: {tier: basic}}
`

// bed is one run of the aggregator over an embedded table, on a clock that the
// test moves.
type bed struct {
	*testing.T
	db   *embed.DB
	cfg  *policy.Config
	now  int64
	r    *run
	sent map[string]int // messages by task
	ids  int
}

func newBed(t *testing.T) *bed {
	t.Helper()
	cfg, err := policyfile.Parse("bed.yaml", []byte(bedConfig))
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{T: t, cfg: cfg, now: 1_700_000_000_000, sent: map[string]int{}}
	if b.db, err = embed.Open(filepath.Join(t.TempDir(), "t.db"), embed.Options{Now: b.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.db.Close() })
	for _, tenant := range cfg.TenantNames() {
		b.write(taskop.PutTenant(tenant, "basic"))
	}
	s := New(Deps{Config: cfg, Table: b.db.Table(), Queue: b, Clock: b.clock, Tally: tally.New(), Float: func() float64 { return 0.5 },
		NewID: func() string { b.ids++; return fmt.Sprintf("%08d-0000-7000-8000-000000000000", b.ids) }})
	b.r = s.newRun(taskop.Run{Owner: "test", Epoch: 1})
	return b
}

func (b *bed) clock() time.Time { return time.UnixMilli(b.now) }

// Send counts messages; nobody receives them.
func (b *bed) Send(_ context.Context, lane string, m queue.Outgoing) error {
	b.sent[lane]++
	return nil
}

func (b *bed) write(w op.Write) {
	b.Helper()
	if _, err := b.db.Table().Write(context.Background(), w); err != nil {
		b.Fatal(w.Name, err)
	}
}

func (b *bed) tick() {
	b.Helper()
	b.now += 1000
	if _, err := b.r.Tick(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// put puts a row with its reservation, as an admission and what followed it would
// have left them. The lane's item is for the test.
func (b *bed) put(t task.Task) *task.Task {
	b.Helper()
	if t.Tenant == "" {
		t.Tenant = "alpha"
	}
	if t.ID == "" {
		b.ids++
		t.ID = fmt.Sprintf("%08d-0000-4000-8000-000000000000", b.ids)
	}
	if c, ok := b.cfg.Class(t.Class); ok && t.Lane == "" {
		t.Lane = c.Lane
	}
	if t.AtLane == "" {
		t.AtLane = t.Lane
	}
	if t.Bucket == "" {
		t.Bucket = policy.DefaultBucket
	}
	t.AmountMS, t.Nonce = 1000, "n"
	if t.Priority == "" {
		t.Priority = "normal"
	}
	if t.SubmittedMS == 0 {
		t.SubmittedMS = b.now - 1000
	}
	t.DeadlineMS, t.StartByMS = b.now+3_600_000, b.now+3_600_000
	ctx := context.Background()
	if err := b.db.Table().Transact(ctx, taskop.Accept(&t, taskop.LedgerUse{AmountMS: 1000, MaxActive: 100, WorkMaxMS: 1e12, EnteredMaxMS: 1e12}, 0)); err != nil {
		b.Fatal(err)
	}
	return &t
}

func (b *bed) read(t *task.Task) *task.Task {
	b.Helper()
	key := taskop.RowKey(t.Tenant, t.ID)
	item, err := b.db.Table().Get(context.Background(), key, true)
	if err != nil {
		b.Fatal(err)
	}
	got, err := taskop.DecodeRow(key, item)
	if err != nil {
		b.Fatal(err)
	}
	return got
}

func (b *bed) lane(name string) taskop.Lane {
	b.Helper()
	item, err := b.db.Table().Get(context.Background(), taskop.LaneKey(name), true)
	if err != nil {
		b.Fatal(err)
	}
	l, err := taskop.DecodeLane(name, item)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func (b *bed) ledger(tenant string) taskop.Ledger {
	b.Helper()
	item, err := b.db.Table().Get(context.Background(), taskop.LedgerKey(tenant), true)
	if err != nil {
		b.Fatal(err)
	}
	return taskop.DecodeLedger(item)
}

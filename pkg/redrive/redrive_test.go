package redrive_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
	"github.com/lanekeeper/lanekeeper/pkg/redrive"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

type bed struct {
	*testing.T
	db  *embed.DB
	svc *redrive.Service
	now int64
}

func setup(t *testing.T, wrap func(op.Table) op.Table) *bed {
	t.Helper()
	cfg, err := policyfile.Load("../../localstack/lanekeeper.yaml")
	if err != nil {
		t.Fatal(err)
	}
	db, err := embed.Open(filepath.Join(t.TempDir(), "t.db"), embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	b := &bed{T: t, db: db, now: 1_000_000}
	var table op.Table = db.Table()
	if wrap != nil {
		table = wrap(table)
	}
	b.svc = redrive.New(redrive.Deps{Config: cfg, Table: table, Tally: tally.New(), Clock: func() time.Time { return time.UnixMilli(b.now) }})
	return b
}

// queued puts a queued task, its reservation and its slot.
func (b *bed) queued(id string) *task.Task {
	b.Helper()
	x := &task.Task{Tenant: "alpha", ID: id, State: task.Queued, Gen: 3, Class: "mail.send", Bucket: "default", Lane: "critical", AtLane: "critical",
		Priority: "normal", AmountMS: 100, SubmittedMS: 1, DeadlineMS: 1e9, StartByMS: 1e9, DueMS: 5_000_000, Nonce: "n"}
	ctx := context.Background()
	if _, err := b.db.Table().Write(ctx, taskop.CreateLane("critical", 4)); err != nil && op.FailedCond(err) == nil {
		b.Fatal(err)
	}
	if _, err := b.db.Table().Write(ctx, taskop.EnterSlot("critical", taskop.OpenOf(x, 1), nil)); err != nil {
		b.Fatal(err)
	}
	if err := b.db.Table().Transact(ctx, taskop.Accept(x, taskop.LedgerUse{AmountMS: 100, MaxActive: 2, WorkMaxMS: 1e6, EnteredMaxMS: 1e6}, 0)); err != nil {
		b.Fatal(err)
	}
	return x
}

func (b *bed) read(x *task.Task) *task.Task {
	b.Helper()
	key := taskop.RowKey(x.Tenant, x.ID)
	item, err := b.db.Table().Get(context.Background(), key, true)
	if err != nil {
		b.Fatal(err)
	}
	t, err := taskop.DecodeRow(key, item)
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func letter(x *task.Task, sentMS int64) redrive.Delivery {
	return redrive.Delivery{MessageID: "m", Queue: "arn:aws:sqs:eu-west-1:0:prod-critical-dlq", SentMS: sentMS,
		Body: string(events.NewMessage(x.Tenant, x.ID, x.Gen).Encode())}
}

func (b *bed) handle(d redrive.Delivery) {
	b.Helper()
	if failed := b.svc.Batch(context.Background(), []redrive.Delivery{d}); len(failed) > 0 {
		b.Fatal("a message was kept although the store works")
	}
}

func TestDeadWakeUpIsSentAgainAndQuarantinedTheThirdTime(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	x := b.queued("task-0001")
	for n := int64(1); n <= 2; n++ {
		b.handle(letter(x, b.now-1))
		if got := b.read(x); got.State != task.Queued || got.Dead != n || got.DueMS != b.now {
			t.Fatalf("after %d: %s, dead %d, due %d", n, got.State, got.Dead, got.DueMS)
		}
		// The same letter again, or a copy that was sent before the one just counted, says nothing new.
		b.now += 100
		b.handle(letter(x, b.now-200))
		if got := b.read(x); got.Dead != n {
			t.Fatalf("a copy was counted: %d", got.Dead)
		}
		b.now += 1000
	}
	b.handle(letter(x, b.now-1))
	got := b.read(x)
	if got.State != task.Quarantined || got.Error == nil || got.Error.Code != "undeliverable" || got.QuarantinedMS != b.now {
		t.Fatalf("the third time: %s, %+v", got.State, got.Error)
	}
	ctx := context.Background()
	item, err := b.db.Table().Get(ctx, taskop.LedgerKey("alpha"), true)
	if l := taskop.DecodeLedger(item); err != nil || l.WorkMS != 0 {
		t.Errorf("ledger %+v, %v", l, err)
	}
	item, err = b.db.Table().Get(ctx, taskop.LaneKey("critical"), true)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := taskop.DecodeLane("critical", item); err != nil || !l.Empty() || len(l.Tasks) != 0 {
		t.Errorf("lane %+v, %v", l, err)
	}
	page, err := b.db.Table().Query(ctx, op.Query{Index: op.IndexReady, PK: taskop.QuarantinePartition("critical")})
	if err != nil || len(page.Rows) != 1 {
		t.Errorf("the quarantine lists %d, %v", len(page.Rows), err)
	}
	b.now += 1000
	b.handle(letter(x, b.now-1)) // and nothing more
	if again := b.read(x); again.State != task.Quarantined || again.Dead != 3 {
		t.Errorf("a fourth changed it: %+v", again)
	}
}

func TestAClaimForgivesDeadWakeUps(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	x := b.queued("task-0001")
	b.handle(letter(x, b.now-1))
	if err := b.db.Table().Transact(context.Background(), taskop.Claim(b.read(x), taskop.Lease{Token: "t", NowMS: b.now, UntilMS: b.now + 1000})); err != nil {
		t.Fatal(err)
	}
	b.now += 1000
	b.handle(letter(x, b.now-1)) // native redrive of the old message: stale by now
	if got := b.read(x); got.State != task.Running || got.Dead != 0 {
		t.Errorf("%s, dead %d", got.State, got.Dead)
	}
}

func TestStaleLettersAreThrownAway(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	x := b.queued("task-0001")
	stale := *x
	stale.Gen = 2
	b.handle(letter(&stale, b.now-1))
	b.handle(letter(&task.Task{Tenant: "alpha", ID: "unknown-1", Gen: 1}, b.now-1))
	if got := b.read(x); got.Dead != 0 || got.DueMS != x.DueMS {
		t.Errorf("a stale letter changed the task: %+v", got)
	}
}

// Messages that nobody can act on are kept once, and others flow.
func TestUnknownVersionsAndGarbageAreParkedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	x := b.queued("task-0001")
	newer := `{"v":99,"what":"ever"}`
	long := strings.Repeat("ä", 100_000)
	batch := []redrive.Delivery{
		{MessageID: "1", Queue: "critical-dlq", Body: newer}, {MessageID: "2", Queue: "critical-dlq", Body: "not json"},
		{MessageID: "3", Queue: "heavy-dlq", Body: long}, letter(x, b.now-1), {MessageID: "4", Queue: "critical-dlq", Body: newer},
	}
	if failed := b.svc.Batch(context.Background(), batch); len(failed) > 0 {
		t.Fatalf("kept %v", failed)
	}
	b.now += 24 * 3600 * 1000
	b.handle(batch[0]) // the next day it is still once
	if got := b.read(x); got.Dead != 1 {
		t.Error("the readable one behind them was not seen to")
	}
	acts, bodies := map[string]int{}, 0
	if err := b.db.Table().Scan(context.Background(), "A#", func(row op.Row) bool {
		acts[taskop.DecodeAudit(row.Key, row.Item).Act]++
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if err := b.db.Table().Scan(context.Background(), "U#", func(row op.Row) bool {
		bodies++
		if n := len(taskop.Body(row.Item)); n > 5000 {
			t.Errorf("%d bytes were kept", n)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if acts["message.version"] != 1 || acts["message.unreadable"] != 2 || bodies != 3 {
		t.Errorf("audit %v, %d bodies", acts, bodies)
	}
}

// broken fails every call.
type broken struct{ op.Table }

func (broken) Get(context.Context, op.Key, bool) (op.Item, error) {
	return nil, &op.Unavailable{Reason: op.Timeout, Err: errors.New("broken")}
}

func (broken) Transact(context.Context, op.Tx) error {
	return &op.Unavailable{Reason: op.Timeout, Err: errors.New("broken")}
}

func TestAStoreThatFailsKeepsTheLetters(t *testing.T) {
	t.Parallel()
	b := setup(t, func(t op.Table) op.Table { return broken{t} })
	failed := b.svc.Batch(context.Background(), []redrive.Delivery{letter(&task.Task{Tenant: "alpha", ID: "task-0001"}, 1), {MessageID: "x", Body: "garbage"}})
	if len(failed) != 2 {
		t.Errorf("kept %v, want both", failed)
	}
}

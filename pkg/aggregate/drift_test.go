package aggregate

import (
	"context"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// bend changes a ledger behind everybody's back.
func (b *bed) bend(tenant, attr string, by int64) {
	b.Helper()
	b.write(op.Write{Name: "bend", Key: taskop.LedgerKey(tenant), Action: op.Update, Changes: []op.Change{op.Add(attr, by)}})
}

func (b *bed) repairs() map[string]int64 {
	b.Helper()
	b.r.Tally.Flush(context.Background(), b.db.Table())
	item, err := b.db.Table().Get(context.Background(), tally.Group(tally.GroupSystem, tally.Ledgers), true)
	if err != nil {
		b.Fatal(err)
	}
	return taskop.Counts(item)
}

func (b *bed) ticks(n int) {
	b.Helper()
	for range n {
		b.tick()
	}
}

func TestDriftedLedgerIsRepairedAndCounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attr string
		by   int64
	}{"too much work": {"work", 700}, "too little work": {"work", -300}, "an attempt that never was": {"active", 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.put(task.Task{Class: "job", State: task.RetryWait, NotBeforeMS: b.now + 1e6, DueMS: b.now + 1e6})
			b.put(task.Task{Class: "job", State: task.RetryWait, NotBeforeMS: b.now + 1e6, DueMS: b.now + 1e6, Tenant: "beta"})
			b.ticks(30)
			if got := b.repairs(); len(got) != 0 {
				t.Fatalf("repaired what was right: %v", got)
			}
			before := b.ledger("alpha")
			b.bend("alpha", c.attr, c.by)
			b.ticks(5) // one look at most
			if got := b.ledger("alpha"); got.WorkMS == 1000 && got.Active == 0 {
				t.Error("repaired after one look; the index may lag")
			}
			b.ticks(20)
			got := b.ledger("alpha")
			if got.WorkMS != 1000 || got.Active != 0 {
				t.Errorf("ledger %+v", got)
			}
			if c.by < 0 && c.attr == "work" && got.EnteredMS <= before.EnteredMS {
				t.Error("work came back that copies do not know of: entered must say so")
			}
			if n := b.repairs(); n["repaired"] != 1 || n["drift_ms"]+n["drift_active"]*1000 < 300 {
				t.Errorf("counted %v", n)
			}
			if beta := b.ledger("beta"); beta.WorkMS != 1000 {
				t.Errorf("the other ledger is %+v", beta)
			}
		})
	}
}

func TestDriftOfATenantWithNothingLiveIsFound(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	x := b.put(task.Task{Class: "job", State: task.RetryWait, NotBeforeMS: b.now + 1e6, DueMS: b.now + 1e6})
	if err := b.db.Table().Transact(context.Background(), taskop.Close(x, task.Cancel, b.now, 0)); err != nil {
		t.Fatal(err)
	}
	b.bend("alpha", "work", 5)
	b.bend("alpha", "active", 2)
	b.ticks(30)
	if l := b.ledger("alpha"); l.WorkMS != 0 || l.Active != 0 {
		t.Errorf("ledger %+v", l)
	}
}

// lagging hides rows from the due index, as a lagging index would.
type lagging struct {
	op.Table
	hide op.Key
}

func (l lagging) Query(ctx context.Context, q op.Query) (op.Page, error) {
	page, err := l.Table.Query(ctx, q)
	if q.Index == op.IndexDue {
		kept := page.Rows[:0:0]
		for _, r := range page.Rows {
			if r.Key != l.hide {
				kept = append(kept, r)
			}
		}
		page.Rows = kept
	}
	return page, err
}

func TestALaggingIndexIsNoDrift(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	x := b.put(task.Task{Class: "job", State: task.RetryWait, NotBeforeMS: b.now + 1e6, DueMS: b.now + 1e6})
	b.r.Table = lagging{b.db.Table(), taskop.RowKey(x.Tenant, x.ID)}
	b.ticks(60)
	if l := b.ledger("alpha"); l.WorkMS != 1000 {
		t.Errorf("ledger %+v", l)
	}
	if n := b.repairs(); len(n) != 0 {
		t.Errorf("counted %v", n)
	}
}

// The conditions of the repair: a ledger that changed since it was counted stays.
func TestRepairLosesAgainstAnyChange(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.put(task.Task{Class: "job", State: task.Queued})
	for _, attr := range []string{"work", "active", "entered"} {
		l := b.ledger("alpha")
		b.bend("alpha", attr, 1)
		if _, err := b.db.Table().Write(context.Background(), taskop.RepairLedger("alpha", l, 0, 0)); op.FailedCond(err) == nil {
			t.Errorf("repaired a ledger whose %s had changed: %v", attr, err)
		}
	}
	b.write(taskop.RepairLedger("alpha", b.ledger("alpha"), 0, 0))
}

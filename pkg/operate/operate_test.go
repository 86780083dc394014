package operate_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/operate"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// TestMain keeps expected warnings out of the output.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

var admin = intake.Principal{Operator: true, KeyID: "key_of_admin"}

type bench struct {
	*rig.Rig
	t   *testing.T
	now *rig.Manual
	svc *operate.Service
}

func setup(t *testing.T) *bench {
	t.Helper()
	now := rig.NewManual()
	b := &bench{t: t, now: now, Rig: rig.New(rig.Config(t), memtable.New(memtable.Options{}), now.Now)}
	b.svc = operate.New(b.Intake())
	for _, w := range []op.Write{taskop.PutTenant("alpha", "basic"), taskop.CreateLane("standard", 2)} {
		if _, err := b.Raw.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// acts counts the audit's entries.
func (b *bench) acts() map[string]int {
	b.t.Helper()
	acts := map[string]int{}
	err := op.Query{PK: taskop.AuditPartition(b.now.Now().UnixMilli()), Consistent: true}.All(b.t.Context(), b.Raw, func(row op.Row) bool {
		e := taskop.DecodeAudit(row.Key, row.Item)
		if e.Who != admin.KeyID {
			b.t.Errorf("%s was done by %q", e.Act, e.Who)
		}
		acts[e.Act]++
		return true
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return acts
}

// TestNoActWithoutItsEntryInTheAudit: whatever call fails and however, what an
// operator changed is in the audit, and the call can be made again.
func TestNoActWithoutItsEntryInTheAudit(t *testing.T) {
	t.Parallel()
	type act struct {
		name string
		do   func(*bench) error
		done func(*bench) bool
	}
	entry := func(b *bench, key op.Key) op.Item {
		item, err := b.Raw.Get(b.t.Context(), key, true)
		if err != nil {
			b.t.Fatal(err)
		}
		return item
	}
	keys := func(b *bench) (list []taskop.KeyEntry) {
		_ = taskop.KeyEntries("alpha").All(b.t.Context(), b.Raw, func(row op.Row) bool {
			list = append(list, taskop.DecodeKeyEntry(row.Key, row.Item))
			return true
		})
		return list
	}
	for _, a := range []act{
		{"lane.pause", func(b *bench) error { _, err := b.svc.PauseLane(b.t.Context(), admin, "standard", true); return err },
			func(b *bench) bool { return b.Lane(b.t, "standard").Paused }},
		{"tenant.create", func(b *bench) error { _, _, err := b.svc.PutTenant(b.t.Context(), admin, "fresh", "basic"); return err },
			func(b *bench) bool { return entry(b, taskop.TenantKey("fresh")) != nil }},
		{"tenant.tier", func(b *bench) error { _, _, err := b.svc.PutTenant(b.t.Context(), admin, "alpha", "other"); return err },
			func(b *bench) bool { return taskop.DecodeTenant(entry(b, taskop.TenantKey("alpha"))) == "other" }},
		{"key.create", func(b *bench) error { _, err := b.svc.CreateKey(b.t.Context(), admin, "alpha"); return err },
			func(b *bench) bool { return len(keys(b)) > 0 }},
		{"replay.start", func(b *bench) error {
			_, err := b.svc.StartReplay(b.t.Context(), admin, intake.ReplayRequest{Filter: events.ReplayFilter{Tenant: "alpha"}, Rate: 1, Limit: 1})
			return err
		}, func(b *bench) bool {
			page, err := b.svc.Replays(b.t.Context(), 10, "")
			return err == nil && len(page.Items) > 0
		}},
	} {
		for _, f := range rig.Faults() {
			for n := 1; n <= 4; n++ {
				t.Run(fmt.Sprintf("%s call %d %s", a.name, n, f), func(t *testing.T) {
					t.Parallel()
					b := setup(t)
					b.Table.Fail(func(c rig.Call) rig.Fault {
						if c.N == n {
							return f
						}
						return rig.None
					})
					err := a.do(b)
					var no *intake.Refusal
					if err != nil && (!errors.As(err, &no) || no.Code != events.Unavailable) {
						t.Fatalf("%v", err)
					}
					b.Table.Fail(nil)
					if a.done(b) && b.acts()[a.name] == 0 {
						t.Error("it was done, and the audit does not say so")
					}
					if err == nil && !a.done(b) {
						t.Error("it was answered, and not done")
					}
					if err := a.do(b); err != nil || !a.done(b) || b.acts()[a.name] == 0 {
						t.Errorf("once more: %v", err)
					}
				})
			}
		}
	}
}

func TestKeysAreStoredHashed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, err := b.svc.CreateKey(t.Context(), admin, "alpha")
	if err != nil {
		t.Fatal(err)
	}
	if len(key.Key) < 40 || !strings.HasPrefix(key.Key, "lk_") || strings.Contains(key.Key, strings.TrimPrefix(key.ID, "key_")) {
		t.Errorf("key %+v", key)
	}
	for _, pk := range []string{taskop.CredentialKey(key.Key).PK, taskop.TenantKey("alpha").PK, taskop.AuditPartition(b.now.Now().UnixMilli())} {
		page, err := b.Raw.Query(t.Context(), op.Query{PK: pk, Consistent: true})
		if err != nil || len(page.Rows) == 0 {
			t.Fatalf("%s: %d rows, %v", pk, len(page.Rows), err)
		}
		for _, row := range page.Rows {
			if strings.Contains(fmt.Sprint(row), key.Key) {
				t.Errorf("%s holds the key's text", pk)
			}
		}
	}
	who, err := b.Intake().Authenticate(t.Context(), key.Key)
	if err != nil || who.Tenant != "alpha" || who.KeyID != key.ID {
		t.Errorf("%+v, %v", who, err)
	}
	if err := b.svc.DeleteKey(t.Context(), admin, "alpha", key.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Intake().Authenticate(t.Context(), key.Key); err == nil {
		t.Error("a withdrawn key works")
	}
	// No seed brings it back.
	if err := b.Raw.Transact(t.Context(), taskop.AddKey("alpha", key.Key, 1, nil)); op.FailedCond(err) == nil {
		t.Errorf("a withdrawn key was added again: %v", err)
	}
}

// TestEmptyPagesAreNotTheEnd: a scan goes on behind pages that are empty and have
// a cursor, and merges lanes by age.
func TestEmptyPagesAreNotTheEnd(t *testing.T) {
	t.Parallel()
	now := rig.NewManual()
	r := rig.New(rig.Config(t), memtable.New(memtable.Options{}), now.Now)
	var want []string
	for i := range 25 {
		lane := []string{"standard", "retry"}[i%2]
		x := task.Task{Tenant: "alpha", ID: fmt.Sprintf("task-%04d", i), State: task.Quarantined, Class: "short", Bucket: "default", Lane: lane, AtLane: lane,
			QuarantinedMS: int64(1000 + i), Error: &task.Error{Code: "c", Signature: fmt.Sprintf("%016d", i%5)}, Nonce: "n"}
		if i%5 == 3 {
			want = append(want, x.ID)
		}
		if err := r.Raw.Transact(t.Context(), taskop.Accept(&x, taskop.LedgerUse{MaxActive: 1, WorkMaxMS: 1e9, EnteredMaxMS: 1e9}, 0)); err != nil {
			t.Fatal(err)
		}
	}
	svc := operate.New(intake.New(intake.Deps{Config: r.Config, Table: meagre{r.Raw}, Clock: r.Clock}))
	var got []string
	cursor, pages := "", 0
	for {
		page, err := svc.Quarantine(t.Context(), events.ReplayFilter{Signature: "0000000000000003"}, 2, cursor)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, q := range page.Items {
			got = append(got, q.ID)
		}
		if cursor = string(page.NextCursor); cursor == "" {
			break
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || pages < 3 {
		t.Errorf("%d pages with %v, want %v", pages, got, want)
	}
}

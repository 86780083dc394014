package aggregate

import (
	"context"
	"fmt"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// quarantine puts tasks into quarantine.
func (b *bed) quarantine(n int, class string) (list []*task.Task) {
	b.Helper()
	for range n {
		x := b.put(task.Task{Class: class, State: task.Queued})
		b.poison(x)
		list = append(list, x)
	}
	return list
}

func (b *bed) poison(x *task.Task) {
	b.Helper()
	ctx := context.Background()
	l := taskop.Lease{Token: "t", NowMS: b.now, UntilMS: b.now + 30_000}
	x = b.read(x)
	if err := b.db.Table().Transact(ctx, taskop.Claim(x, l)); err != nil {
		b.Fatal(err)
	}
	after := *taskop.Claimed(x, l)
	after.Error, after.QuarantinedMS = &task.Error{Code: "c", Signature: "0123456789abcdef", Retryable: true}, b.now
	if err := b.db.Table().Transact(ctx, taskop.Finish(taskop.Claimed(x, l), taskop.End{Event: task.Poison, After: &after})); err != nil {
		b.Fatal(err)
	}
}

// replay starts one over everything of a class.
func (b *bed) replay(class string, rate float64, limit int) string {
	b.Helper()
	return b.replayBy("class", class, rate, limit)
}

// replayBy starts one over everything that one term of a filter names.
func (b *bed) replayBy(term, value string, rate float64, limit int) string {
	b.Helper()
	b.ids++
	id := fmt.Sprintf("%08d-0000-7000-8000-000000000000", b.ids)
	body := fmt.Sprintf(`{"id":%q,"filter":{%q:%q},"rate":%v,"limit":%d,"created_at":%q}`, id, term, value, rate, limit, b.clock().UTC().Format("2006-01-02T15:04:05.000Z"))
	err := b.db.Table().Transact(context.Background(), taskop.StartReplay(taskop.Replay{ID: id, Body: body, CreatedMS: b.now},
		taskop.Audit(taskop.AuditEntry{AtMS: b.now, Who: "test", Act: "replay.start", On: id}, id)))
	if err != nil {
		b.Fatal(err)
	}
	return id
}

func (b *bed) progress(id string) taskop.Replay {
	b.Helper()
	item, err := b.db.Table().Get(context.Background(), taskop.ReplayKey(id), true)
	if err != nil {
		b.Fatal(err)
	}
	return taskop.DecodeReplay(taskop.ReplayKey(id), item)
}

func TestReplayTakesHalfOfTheSpareSlotsAndNoneWhileFreshWorkWaits(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	list := b.quarantine(30, "job")
	b.tick()
	id := b.replay("job", 500, 1000)
	b.tick()
	if n := len(b.queuedOf(list)); n != 5 {
		t.Fatalf("%d of 10 free slots were taken in the first tick, want half", n)
	}
	b.ticks(10)
	if l := b.lane("a"); l.Open != 9 {
		t.Errorf("%d slots are taken; one stays free for fresh work", l.Open)
	}
	b.write(taskop.EnterDue("a", 1000)) // somebody waits
	for _, x := range b.queuedOf(list)[:4] {
		b.cancel(x.ID)
	}
	before := b.progress(id).Admitted
	if b.tick(); b.progress(id).Admitted != before {
		t.Error("replayed while fresh work waits")
	}
}

func TestReplayKeepsItsRateAndItsLimit(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	list := b.quarantine(8, "job")
	b.tick()
	id := b.replay("job", 0.5, 3)
	for second := 1; second <= 12; second++ {
		b.tick()
		if n, most := b.progress(id).Admitted, int64(second/2); n > most {
			t.Fatalf("%d after %d s at one in two seconds", n, second)
		}
	}
	if got := b.progress(id); got.Admitted != 3 || got.State != "finished" {
		t.Errorf("%+v", got)
	}
	if n := len(b.queuedOf(list)); n != 3 {
		t.Errorf("%d were replayed", n)
	}
}

func TestATaskThatFailsAgainIsNotReplayedAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	x := b.quarantine(1, "job")[0]
	y := b.quarantine(1, "other")[0]
	full := b.put(task.Task{Class: "job", State: task.Queued, Tenant: "beta"}) // keeps the replay running
	b.poison(full)
	b.bend("beta", "work", 24*3600*1000)
	b.tick()
	id := b.replay("job", 500, 1000)
	b.tick()
	got := b.read(x)
	if got.State != task.Queued || got.Failures != 0 || got.DeadlineMS <= x.DeadlineMS-10_000 || got.AdmittedMS == 0 {
		t.Fatalf("%+v", got)
	}
	b.poison(x)
	b.ticks(3)
	if got := b.read(x); got.State != task.Quarantined {
		t.Errorf("it is %s", got.State)
	}
	if rep := b.progress(id); rep.Admitted != 1 || rep.State != "running" {
		t.Errorf("replay %+v", rep)
	}
	b.bend("beta", "work", -24*3600*1000)
	b.ticks(3)
	if rep := b.progress(id); rep.Admitted != 2 || rep.State != "finished" {
		t.Errorf("replay %+v", rep)
	}
	if got := b.read(y); got.State != task.Quarantined {
		t.Errorf("a task the filter did not mean is %s", got.State)
	}
}

// A contract that has no room is no reason to give a task up, nor to let others
// behind it wait; one that is gone is.
func TestReplayGoesRoundTenantsWithoutRoom(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := b.quarantine(1, "job")[0]
	gone := b.put(task.Task{Class: "job", State: task.Queued, Tenant: "nobody"})
	b.poison(gone)
	beta := b.put(task.Task{Class: "job", State: task.Queued, Tenant: "beta"})
	b.poison(beta)
	b.bend("alpha", "work", 24*3600*1000) // all its budget
	b.now++
	id := b.replay("job", 500, 1000)
	b.ticks(3)
	if got := b.read(beta); got.State != task.Queued {
		t.Errorf("beta's task is %s", got.State)
	}
	rep := b.progress(id)
	if got := b.read(first); got.State != task.Quarantined || rep.State != "running" || rep.Admitted != 1 || rep.Refused != 1 {
		t.Errorf("alpha's task is %s, replay %+v", got.State, rep)
	}
	b.bend("alpha", "work", -24*3600*1000)
	b.ticks(3)
	if got := b.read(first); got.State != task.Queued {
		t.Errorf("with room again alpha's task is %s", got.State)
	}
	if rep := b.progress(id); rep.State != "finished" || rep.Admitted != 2 {
		t.Errorf("replay %+v", rep)
	}
}

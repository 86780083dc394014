package aggregate

import (
	"context"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// claimed puts a task that runs under a lease which ends a minute ago.
func (b *bed) claimed() *task.Task {
	b.Helper()
	x := b.put(task.Task{Class: "job", State: task.Queued})
	l := taskop.Lease{Token: "first", NowMS: b.now - 90_000, UntilMS: b.now - 60_000}
	if err := b.db.Table().Transact(context.Background(), taskop.Claim(x, l)); err != nil {
		b.Fatal(err)
	}
	return taskop.Claimed(x, l)
}

func TestSweeperThatReadBeforeACompletionLosesTheRace(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	x := b.claimed()
	seen := b.read(x) // the sweeper's copy
	after := *x
	after.FinishedMS, after.Result = b.now, `"done"`
	if err := b.db.Table().Transact(context.Background(), taskop.Finish(x, taskop.End{Event: task.Succeed, After: &after})); err != nil {
		t.Fatal(err)
	}
	if err := b.r.lost(context.Background(), seen, map[string]*taskop.Lane{}); op.FailedCond(err) == nil {
		t.Errorf("the sweeper was not refused: %v", err)
	}
	if got := b.read(x); got.State != task.Succeeded {
		t.Errorf("it is %s", got.State)
	}
	if l := b.ledger("alpha"); l.WorkMS != 0 || l.Active != 0 {
		t.Errorf("ledger %+v", l)
	}
}

func TestSweeperLosesAgainstARenewal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	x := b.claimed()
	seen := b.read(x)
	b.write(taskop.Renew(x, b.now+30_000, ""))
	if err := b.r.lost(context.Background(), seen, map[string]*taskop.Lane{}); op.FailedCond(err) == nil {
		t.Errorf("a renewed attempt was taken for lost: %v", err)
	}
}

func TestLateCompletionOfAnEarlierAttemptIsRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	x := b.claimed()
	b.tick() // the lease ran out: retry_wait
	y := b.read(x)
	if y.State != task.RetryWait {
		t.Fatalf("it is %s", y.State)
	}
	b.now = y.NotBeforeMS
	b.tick()
	y = b.read(x)
	if err := b.db.Table().Transact(context.Background(), taskop.Claim(y, taskop.Lease{Token: "second", NowMS: b.now, UntilMS: b.now + 30_000})); err != nil {
		t.Fatal(err)
	}
	after := *x
	after.FinishedMS = b.now
	if err := b.db.Table().Transact(context.Background(), taskop.Finish(x, taskop.End{Event: task.Succeed, After: &after})); op.FailedCond(err) == nil {
		t.Errorf("attempt 1 ended a task that attempt 2 holds: %v", err)
	}
	if got := b.read(x); got.State != task.Running || got.Attempt != 2 {
		t.Errorf("it is %s, attempt %d", got.State, got.Attempt)
	}
}

func TestPurgedQueueIsHealed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for range 3 {
		b.put(task.Task{Class: "job", State: task.Queued, DueMS: b.now + 30_000})
	}
	b.ticks(20)
	if n := b.sent["a"]; n != 0 {
		t.Fatalf("%d messages before they were due", n)
	}
	b.ticks(12) // whatever was in the queue is gone; nobody has claimed
	if n := b.sent["a"]; n != 3 {
		t.Errorf("%d messages were sent again, want 3", n)
	}
	b.ticks(30)
	if n := b.sent["a"]; n != 6 {
		t.Errorf("%d messages after the next half minute, want 6", n)
	}
	if l := b.lane("a"); l.Open != 3 || len(l.Tasks) != 3 {
		t.Errorf("the lane does not know its open tasks: %+v", l)
	}
}

// A restored table, or items deleted by hand: rows are the truth, and the lanes
// follow them.
func TestLostLaneItemsComeBack(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for range 14 {
		b.put(task.Task{Class: "job", State: task.Waiting, DueMS: b.now + 5000})
	}
	b.tick()
	b.write(op.Write{Name: "lose", Key: taskop.LaneKey("a"), Action: op.Delete})
	b.ticks(60)
	l := b.lane("a")
	if l.Open != 10 || l.Ready != 4 || l.WorkMS != 14_000 {
		t.Errorf("lane %+v", l)
	}
}

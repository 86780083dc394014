package aggregate

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// outcomes counts ends of tasks of class job, as workers do.
func (b *bed) outcomes(failed, succeeded int, signature string) {
	b.Helper()
	for range failed {
		b.r.Tally.Ended(b.clock(), tally.End{Class: "job", Bucket: "default", Lane: "a", Outcome: task.OutcomeFailed, Signature: signature})
	}
	for range succeeded {
		b.r.Tally.Ended(b.clock(), tally.End{Class: "job", Bucket: "default", Lane: "a", Outcome: task.OutcomeSucceeded, Success: true})
	}
	b.r.Tally.Flush(context.Background(), b.db.Table())
}

// waiting puts tasks that wait in lane a.
func (b *bed) waiting(n int, class string) (list []*task.Task) {
	b.Helper()
	for range n {
		list = append(list, b.put(task.Task{Class: class, State: task.Waiting, DueMS: b.now + 1e6}))
		b.write(taskop.EnterDue("a", 1000))
	}
	return list
}

// queuedOf lists which of the tasks are queued.
func (b *bed) queuedOf(list []*task.Task) (out []*task.Task) {
	b.Helper()
	for _, x := range list {
		if now := b.read(x); now.State == task.Queued {
			out = append(out, now)
		}
	}
	return out
}

// end ends a queued task's attempt and gives its slot back.
func (b *bed) end(x *task.Task, event task.Event) {
	b.Helper()
	l := taskop.Lease{Token: "t", NowMS: b.now, UntilMS: b.now + 30_000}
	ctx := context.Background()
	if err := b.db.Table().Transact(ctx, taskop.Claim(x, l)); err != nil {
		b.Fatal(err)
	}
	claimed := taskop.Claimed(x, l)
	after := *claimed
	after.FinishedMS, after.NotBeforeMS, after.DueMS = b.now, b.now+1e6, b.now+1e6
	if event == task.Retry {
		after.Error = &task.Error{Code: "c", Signature: "abcdef"}
	}
	if err := b.db.Table().Transact(ctx, taskop.Finish(claimed, taskop.End{Event: event, After: &after})); err != nil {
		b.Fatal(err)
	}
	b.write(taskop.LeaveSlot(x.AtLane, taskop.OpenOf(x, 0)))
}

func (b *bed) acts() (acts []string) {
	b.Helper()
	if err := b.db.Table().Scan(context.Background(), "A#", func(row op.Row) bool {
		e := taskop.DecodeAudit(row.Key, row.Item)
		acts = append(acts, e.Act+" "+e.On)
		return true
	}); err != nil {
		b.Fatal(err)
	}
	return acts
}

func TestOneSignatureAcrossTasksHaltsItsClass(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.outcomes(40, 1, "abcdef")
	b.tick()
	if l := b.lane("a"); l.Halted != nil {
		t.Error("halted before it is known what succeeds")
	}
	b.outcomes(5, 1, "abcdef")
	b.ticks(5)
	if l := b.lane("a"); !l.Halts("job") || l.Halts("once") || l.Cut == 0 {
		t.Fatalf("lane %+v", l)
	}
	if !slices.Equal(b.lane("retry").Halted, []string{"job"}) || b.lane("b").Halted != nil {
		t.Error("the class is halted where it can be, and only there")
	}
	jobs, others := b.waiting(30, "job"), b.waiting(3, "once")
	retried := b.put(task.Task{Class: "job", State: task.RetryWait, NotBeforeMS: b.now})
	b.ticks(2)
	if n := len(b.queuedOf(jobs)); n != 0 {
		t.Errorf("%d tasks of the halted class were released", n)
	}
	if n := len(b.queuedOf(others)); n != 3 {
		t.Errorf("%d of 3 tasks of another class were released", n)
	}
	if got := b.read(retried); got.State != task.RetryWait {
		t.Errorf("its retry is %s", got.State)
	}
	for _, x := range b.queuedOf(others) {
		b.end(x, task.Succeed)
	}
	// One canary, which fails; the next comes later.
	b.ticks(5)
	first := b.queuedOf(jobs)
	if len(first) != 1 {
		t.Fatalf("%d canaries", len(first))
	}
	b.ticks(3)
	if n := len(b.queuedOf(jobs)); n != 1 {
		t.Fatalf("%d canaries while the first is under way", n)
	}
	b.end(first[0], task.Retry)
	b.ticks(9)
	if n := len(b.queuedOf(jobs)); n != 0 {
		t.Fatal("a canary right after one that failed")
	}
	// What succeeds lets twice as many go, until the class is let go.
	b.ticks(3)
	var steps []int
	for range 20 {
		canaries := b.queuedOf(jobs)
		steps = append(steps, len(canaries))
		for _, x := range canaries {
			b.end(x, task.Succeed)
		}
		b.tick()
		if !slices.Contains(b.lane("a").Halted, "job") {
			break
		}
	}
	if len(steps) < 4 || !slices.Equal(steps[:4], []int{1, 2, 4, 8}) {
		t.Errorf("steps %v", steps)
	}
	for range 100 {
		for _, x := range b.queuedOf(jobs) {
			b.end(x, task.Succeed)
		}
		b.tick()
	}
	for _, x := range jobs {
		if got := b.read(x); got.State != task.Succeeded && got.State != task.RetryWait {
			t.Errorf("at the end one is %s", got.State)
		}
	}
	if got := b.acts(); !slices.Equal(got, []string{"class.halt job", "class.resume job"}) {
		t.Errorf("audit %v", got)
	}
	if l := b.lane("a"); l.Parked != 0 || l.Ready != 0 || l.Open != 0 {
		t.Errorf("lane %+v", l)
	}
}

func TestAHaltedClassStaysSoWhenAnotherRunTakesOver(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.outcomes(40, 0, "abcdef")
	b.tick()
	b.outcomes(5, 0, "abcdef")
	b.ticks(5)
	b.r = b.r.newRun(taskop.Run{Owner: "another", Epoch: 2})
	b.now += 10 * tally.SignatureWindowMS // what tripped it is long out of the windows
	jobs := b.waiting(3, "job")
	b.tick()
	if !slices.Contains(b.lane("a").Halted, "job") || len(b.queuedOf(jobs)) > 1 {
		t.Errorf("lane %+v", b.lane("a"))
	}
}

// halted halts class job and lets its first canary go.
func (b *bed) halted(n int) (jobs []*task.Task, canary *task.Task) {
	b.Helper()
	b.outcomes(40, 0, "abcdef")
	b.tick()
	b.outcomes(5, 0, "abcdef")
	b.ticks(5)
	jobs = b.waiting(n, "job")
	for range 10 {
		if out := b.queuedOf(jobs); len(out) > 0 {
			return jobs, out[0]
		}
		b.tick()
	}
	b.Fatal("no canary")
	return nil, nil
}

// TestACanaryThatCannotRunIsNotWaitedFor: a canary whose tenant turns out to be at
// max_active goes back to those that wait. Another one is let go, and in the end all are.
func TestACanaryThatCannotRunIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	jobs, canary := b.halted(5)
	b.write(taskop.ParkRow(canary, b.now+1e6))
	b.write(taskop.ParkSlot("a", canary.ID))
	for range 60 {
		b.tick()
		for _, x := range b.queuedOf(jobs) {
			b.end(x, task.Succeed)
		}
	}
	for _, x := range jobs {
		if got := b.read(x); got.State != task.Succeeded {
			t.Errorf("one is %s a minute later, the lane holds %v back", got.State, b.lane("a").Halted)
		}
	}
}

// TestACanaryThatFailsForGoodIsAFailure: a fault that is not worth a retry halts
// a class like any other, and its canaries say so too.
func TestACanaryThatFailsForGoodIsAFailure(t *testing.T) {
	t.Parallel()
	for signature, want := range map[string]int{"abcdef": 0, "other": 1} { // canaries right after it
		b := newBed(t)
		jobs, canary := b.halted(5)
		l := taskop.Lease{Token: "t", NowMS: b.now, UntilMS: b.now + 30_000}
		ctx := context.Background()
		if err := b.db.Table().Transact(ctx, taskop.Claim(canary, l)); err != nil {
			t.Fatal(err)
		}
		after := *taskop.Claimed(canary, l)
		after.FinishedMS, after.Error = b.now, &task.Error{Code: "c", Signature: signature}
		if err := b.db.Table().Transact(ctx, taskop.Finish(taskop.Claimed(canary, l), taskop.End{Event: task.Fail, After: &after})); err != nil {
			t.Fatal(err)
		}
		b.write(taskop.LeaveSlot("a", taskop.OpenOf(canary, 0)))
		b.ticks(3)
		if n := len(b.queuedOf(jobs)); n != want {
			t.Errorf("%d canaries right after one that failed for good with %q, want %d", n, signature, want)
		}
	}
}

func TestWhatDoesNotHaltAClass(t *testing.T) {
	t.Parallel()
	for name, count := range map[string]func(*bed){
		"few":            func(b *bed) { b.outcomes(19, 0, "abcdef") },
		"few among many": func(b *bed) { b.outcomes(20, 0, "abcdef"); b.tick(); b.outcomes(20, 20, "abcdef") },
		"no more":        func(b *bed) { b.outcomes(40, 40, "abcdef") },
		"many different": func(b *bed) {
			for i := range 40 {
				b.outcomes(1, 0, fmt.Sprintf("%02x0000", i))
			}
		},
		"long ago":               func(b *bed) { b.outcomes(40, 0, "abcdef"); b.now += 2 * tally.SignatureWindowMS },
		"the same task, counted": func(b *bed) { b.outcomes(40, 0, "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			count(b)
			b.ticks(6)
			if l := b.lane("a"); l.Halted != nil {
				t.Errorf("halted %v", l.Halted)
			}
		})
	}
}

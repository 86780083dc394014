package aggregate

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// held counts the slots of the retry lane by the lane their tasks came from.
func (b *bed) heldBy() map[string]int64 {
	out := map[string]int64{}
	for _, o := range b.lane("retry").Tasks {
		out[o.Origin]++
	}
	return out
}

func TestRetryStormOfOneLaneHoldsHalfOfTheRetryLane(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var storm []*task.Task
	for range 60 {
		storm = append(storm, b.put(task.Task{Class: "job", State: task.RetryWait, Failures: 1, Priority: "critical", NotBeforeMS: b.now}))
	}
	b.tick()
	if got := b.heldBy(); got["a"] != 2 || b.lane("retry").Open != 2 {
		t.Fatalf("the storm holds %v of 4 slots", got)
	}
	// Nothing of it is in its own lane: fresh work finds all slots and no backlog there.
	if l := b.lane("a"); !l.Empty() || l.EnteredMS != 0 {
		t.Errorf("lane a has %+v", l)
	}
	// Behind the storm, and below its priority, another lane's retry still gets a slot.
	late := b.put(task.Task{Class: "other", State: task.RetryWait, Failures: 1, Priority: "low", NotBeforeMS: b.now})
	b.tick()
	b.tick()
	if got := b.read(late); got.State != task.Queued || got.AtLane != "retry" {
		t.Fatalf("a retry of the other lane is %s", got.State)
	}
	if got := b.heldBy(); got["a"] != 2 || got["b"] != 1 {
		t.Errorf("slots %v", got)
	}
	// As attempts end, the storm goes on two at a time.
	for done := 0; done < len(storm); {
		for _, o := range b.lane("retry").Tasks {
			if o.Origin == "a" {
				b.cancel(o.ID)
				done++
			}
		}
		b.tick()
		if got := b.heldBy(); got["a"] > 2 {
			t.Fatalf("slots %v", got)
		}
	}
	if l := b.lane("retry"); l.Ready != 0 || l.Open != 1 {
		t.Errorf("at the end %+v", l)
	}
}

// cancel ends a queued task and gives its slot back.
func (b *bed) cancel(id string) {
	b.Helper()
	x := b.read(&task.Task{Tenant: "alpha", ID: id})
	if err := b.db.Table().Transact(context.Background(), taskop.Close(x, task.Cancel, b.now, 0)); err != nil {
		b.Fatal(err)
	}
	b.write(taskop.LeaveSlot(x.AtLane, taskop.OpenOf(x, 0)))
}

func TestRetriesAreTakenByPriorityThenTime(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	// Two of each lane fill the four slots; the others have to wait.
	for range 2 {
		b.put(task.Task{Class: "job", State: task.RetryWait, Priority: "low", NotBeforeMS: b.now - 9000})
		b.put(task.Task{Class: "other", State: task.RetryWait, Priority: "low", NotBeforeMS: b.now - 9000})
	}
	b.tick()
	var want []*task.Task
	want = append(want, b.put(task.Task{Class: "job", State: task.RetryWait, Priority: "high", NotBeforeMS: b.now - 100}),
		b.put(task.Task{Class: "job", State: task.RetryWait, Priority: "normal", NotBeforeMS: b.now - 500}),
		b.put(task.Task{Class: "job", State: task.RetryWait, Priority: "normal", NotBeforeMS: b.now - 200}),
		b.put(task.Task{Class: "job", State: task.RetryWait, Priority: "low", NotBeforeMS: b.now - 900}))
	b.tick()
	for i, x := range want {
		for _, y := range want[i:] {
			if got := b.read(y); got.State != task.Waiting {
				t.Fatalf("task %s is %s before its turn", y.Priority, got.State)
			}
		}
		for _, o := range b.lane("retry").Tasks {
			if o.Origin == "a" {
				b.cancel(o.ID)
				break
			}
		}
		b.tick()
		if got := b.read(x); got.State != task.Queued {
			t.Fatalf("number %d (%s) is %s", i+1, x.Priority, got.State)
		}
	}
}

func TestRetriesDueAtOnceShareTheSlotsByPriority(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var high []*task.Task
	for i := range 24 { // over many shards of the index
		class := []string{"job", "other"}[i%2]
		b.put(task.Task{Class: class, State: task.RetryWait, Priority: "low", NotBeforeMS: b.now - 5000})
		if i < 4 {
			high = append(high, b.put(task.Task{Class: class, State: task.RetryWait, Priority: "high", NotBeforeMS: b.now}))
		}
	}
	b.tick()
	if n := len(b.queuedOf(high)); n != 4 {
		t.Errorf("%d of the 4 slots went to the higher priority", n)
	}
}

func TestLostWorkerOfAClassThatIsNotRetriedIsQuarantined(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for class, want := range map[string]task.State{"once": task.Quarantined, "job": task.RetryWait} {
		x := b.put(task.Task{Class: class, State: task.Queued})
		if err := b.db.Table().Transact(context.Background(), taskop.Claim(x, taskop.Lease{Token: "gone", NowMS: b.now, UntilMS: b.now + 100})); err != nil {
			t.Fatal(err)
		}
		b.tick()
		got := b.read(x)
		if got.State != want || got.Error.Code != task.OutcomeLost {
			t.Errorf("class %s: %s, %+v", class, got.State, got.Error)
		}
		if want == task.Quarantined && got.QuarantinedMS != b.now {
			t.Errorf("quarantined at %d", got.QuarantinedMS)
		}
	}
}

func TestLeaseIsTakenUpAMillisecondAfterItsEndAndNotBefore(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	x := b.put(task.Task{Class: "job", State: task.Queued})
	end := b.now + 1000 // where the first tick stands
	if err := b.db.Table().Transact(context.Background(), taskop.Claim(x, taskop.Lease{Token: "t", NowMS: b.now, UntilMS: end})); err != nil {
		t.Fatal(err)
	}
	b.tick()
	if got := b.read(x); got.State != task.Running {
		t.Fatalf("at its end it is %s", got.State)
	}
	b.now -= 999 // the next tick is one millisecond later
	b.tick()
	if got := b.read(x); got.State != task.RetryWait {
		t.Fatalf("a millisecond after its end it is %s", got.State)
	}
}

// TestOneLaneNeverHoldsMoreThanItsPart: whoever gives slots of the retry lane, in
// whatever order, on whatever copy of it, half is the most for one lane.
func TestOneLaneNeverHoldsMoreThanItsPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.Int64Range(1, 7).Draw(t, "slots")
		b := laneModel{item: taskop.CreateLane("retry", slots).Item}
		var copies []taskop.Lane
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			now := b.decode(t)
			copies = append(copies, now)
			l := copies[rapid.IntRange(max(0, len(copies)-3), len(copies)-1).Draw(t, "copy")]
			o := taskop.Open{ID: string(rune('A' + i)), Class: "c", Bucket: "b", Tenant: "t", AmountMS: 10, Origin: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "origin")}
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				b.do(taskop.EnterDue("retry", 10))
			case 1:
				if !l.OriginFull(o.Origin) {
					b.do(taskop.EnterDueSlot(&l, o))
				}
			case 2:
				if !l.OriginFull(o.Origin) {
					b.do(taskop.ReleaseSlotOf(&l, o, false))
				}
			case 3:
				if len(now.Tasks) > 0 {
					b.do(taskop.LeaveSlot("retry", now.Tasks[0]))
				}
			}
			by := map[string]int64{}
			for _, o := range b.decode(t).Tasks {
				if by[o.Origin]++; by[o.Origin] > (slots+1)/2 {
					t.Fatalf("%s holds %d of %d slots", o.Origin, by[o.Origin], slots)
				}
			}
		}
	})
}

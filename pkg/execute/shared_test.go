package execute_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

func (b *bench) write(w op.Write) {
	b.t.Helper()
	if _, err := b.Table.Write(b.t.Context(), w); err != nil {
		b.t.Fatal(w.Name, err)
	}
}

// TestAWorkerLeavesHaltedClassesAlone: neither does a slot that became free go to
// one, nor does a stale message's worker take one up.
func TestAWorkerLeavesHaltedClassesAlone(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.submit("")
		b.submit("")
		halted, other := b.submit(""), b.submit(`{"class":"late","deadline_seconds":3600}`)
		l := b.Lane(t, "standard")
		b.write(taskop.HaltClasses(&l, []string{"short"}))
		stale := b.take()
		b.invoke(stale)
		b.is(halted, task.Waiting)
		b.is(other, task.Succeeded)
		b.invoke(stale)
		b.is(halted, task.Waiting)
		l = b.Lane(t, "standard")
		b.write(taskop.HaltClasses(&l, nil))
		b.invoke(stale)
		b.is(halted, task.Succeeded)
		b.invoke(b.take())
		b.CheckQuiet(t)
	})
}

// TestASlotOfTheRetryLaneIsTakenAnew: with two slots, no lane holds more than one,
// so the slot of a retry that ended goes to the next of that lane.
func TestASlotOfTheRetryLaneIsTakenAnew(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.does(func(_ context.Context, x *worker.Task) (any, error) {
			if x.Attempt == 1 {
				return nil, errors.New("once")
			}
			if l := b.Lane(t, "retry"); l.Open > 1 {
				t.Errorf("one lane holds %d of 2 slots", l.Open)
			}
			time.Sleep(time.Second)
			return nil, nil
		})
		var ids []string
		for range 5 {
			ids = append(ids, b.submit(""))
		}
		b.invoke(b.take(), b.take())
		for _, id := range ids {
			b.is(id, task.RetryWait)
		}
		b.tick(20 * time.Second)
		d, ok := b.Queue.Take("retry")
		if !ok {
			t.Fatal("no retry was sent")
		}
		if _, second := b.Queue.Take("retry"); second {
			t.Fatal("a second retry of the lane was sent")
		}
		rig.Invoke(t.Context(), b.svc, "retry", 10*time.Minute, d)
		for _, id := range ids {
			b.is(id, task.Succeeded)
		}
		b.CheckQuiet(t)
	})
}

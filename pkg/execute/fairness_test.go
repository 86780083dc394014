package execute_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// TestTasksThatGoOnDoNotKeepTheirSlots: a tenant's tasks that go on again and again
// take their turn behind others that wait, and are charged for each attempt.
func TestTasksThatGoOnDoNotKeepTheirSlots(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		first, second := b.submit(""), b.submit("")
		got, err := b.in.Submit(t.Context(), b.Who("beta"), intake.Submission{Class: "short", RequestHash: "h", DeadlineMS: 3_600_000})
		if err != nil {
			t.Fatal(err)
		}
		other := got.Task.ID
		b.is(first, task.Queued)
		b.does(func(_ context.Context, x *worker.Task) (any, error) {
			time.Sleep(2 * time.Second)
			if x.ID != other && x.Attempt < 4 {
				return nil, worker.Continue(map[string]int{"step": x.Attempt})
			}
			return nil, nil
		})
		if failed := b.invoke(b.take()); len(failed) > 0 {
			t.Error(failed)
		}
		order := b.order()
		if at := slices.Index(order, other); at != 1 {
			t.Errorf("the other tenant's task began as number %d: %v", at, order)
		}
		if failed := b.invoke(b.take()); len(failed) > 0 {
			t.Error(failed)
		}
		for _, id := range []string{first, second} {
			if x := b.is(id, task.Succeeded); x.Attempt != 4 {
				t.Errorf("%d attempts", x.Attempt)
			}
		}
		// Eight attempts of 2 s at weight 1 were charged, to the millisecond.
		if f := b.Ledger(t, "alpha").Finish["standard"]; f < 15_900 || f > 18_100 {
			t.Errorf("finish tag %d, want about 16000", f)
		}
		b.CheckLanes(t, true)
	})
}

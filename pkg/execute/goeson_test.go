package execute_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// TestATaskThatGoesOnElsewhereKeepsItsLaneCounted: a task hands itself back, and
// another worker claims it before the one that ran it has passed its slot on.
// Nobody repairs anything here.
func TestATaskThatGoesOnElsewhereKeepsItsLaneCounted(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		ends, goesOn, waits := b.submit(""), b.submit(""), b.submit("")
		b.does(func(_ context.Context, x *worker.Task) (any, error) {
			if x.ID == goesOn && x.Attempt == 1 {
				return nil, worker.Continue(nil)
			}
			return nil, nil
		})
		first, second := b.take(), b.take()
		done := make(chan []string)
		hooked, slow := false, false
		b.Table.Before(func(c rig.Call) {
			switch {
			case c.Kind == "query" && !hooked: // the first worker, between its looks at the lane and at the order
				hooked = true
				if _, _, err := b.in.Cancel(t.Context(), b.Who("alpha"), waits); err != nil {
					t.Error(err)
				}
				go func() { done <- b.invoke(second) }()
				synctest.Wait()
				b.is(goesOn, task.Waiting)
			case c.Name == taskop.LaneKey("standard").PK && hooked && !slow: // the second, before it passes its slot on
				slow = true
				time.Sleep(10 * time.Millisecond)
			}
		})
		b.invoke(first)
		<-done
		b.is(ends, task.Succeeded)
		if x := b.is(goesOn, task.Succeeded); x.Attempt != 2 {
			t.Errorf("%+v", x)
		}
		b.CheckQuiet(t)
	})
}

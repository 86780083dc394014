package aggregate

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// What is in quarantine of a lane that was removed goes on in the lane of its class now, whatever its
// size was called; what has no class any more is refused. Either way the replay comes to its end.
func TestReplayOfARemovedLaneEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gone              task.Task
		state             task.State
		admitted, refused int64
	}{
		"its class is elsewhere": {task.Task{Class: "job", Bucket: "default"}, task.Queued, 1, 0},
		"its bucket is gone":     {task.Task{Class: "job", Bucket: "large"}, task.Queued, 1, 0},
		"its class is gone":      {task.Task{Class: "gone", Bucket: "default"}, task.Quarantined, 0, 1},
	} {
		b := newBed(t)
		c.gone.Lane, c.gone.State = "gone", task.Queued
		x := b.put(c.gone)
		b.poison(x)
		b.tick()
		id := b.replayBy("lane", "gone", 500, 1000)
		b.ticks(3)
		if got := b.read(x); got.State != c.state || c.state == task.Queued && got.Lane != "a" {
			t.Errorf("%s: it is %s in lane %s", name, got.State, got.Lane)
		}
		if rep := b.progress(id); rep.State != "finished" || rep.Admitted != c.admitted || rep.Refused != c.refused {
			t.Errorf("%s: %+v", name, rep)
		}
	}
}

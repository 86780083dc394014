package aggregate

import (
	"context"
	"log/slog"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// strandedEvery is how often a lane is named that tasks are stranded in.
const strandedEvery = time.Minute

// stranded says whether a task stands in a lane that was removed from the configuration:
// nobody gives it a slot. Attempts that run end by their lease, and retries go to the retry lane.
func (r *run) stranded(t *task.Task, lanes map[string]*taskop.Lane) bool {
	return lanes[t.AtLane] == nil && (t.State == task.Waiting || t.State == task.Queued)
}

// visitStranded leaves such a task as it is: it expires, is cancelled, or goes on when its lane comes
// back. Its lane is named in the log with what it still holds. What waits is visited ever more rarely, like what
// waits elsewhere: there may be thousands, and leases and retries are found by visits too.
func (r *run) visitStranded(ctx context.Context, t *task.Task) error {
	now := r.Clock()
	pause := r.Config.Tasks.ResendAfter.MS()
	if t.State == task.Waiting {
		pause = max(pause, now.UnixMilli()-t.Since())
	}
	if err := r.moveDue(ctx, t, r.notAfterStartBy(t, now.UnixMilli()+pause)); err != nil {
		return err
	}
	if now.Sub(r.strandedAt[t.AtLane]) < strandedEvery {
		return nil
	}
	item, err := r.Table.Get(ctx, taskop.LaneKey(t.AtLane), true)
	if err != nil {
		return err
	}
	l, err := taskop.DecodeLane(t.AtLane, item)
	if err != nil {
		return err
	}
	r.strandedAt[t.AtLane] = now
	slog.WarnContext(ctx, "a lane that is not in the configuration still holds tasks: put it back, let it drain, then remove it",
		"lane", t.AtLane, "tasks", l.Open+l.Ready+l.Parked, "example", t.ID)
	return nil
}

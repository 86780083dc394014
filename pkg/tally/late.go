package tally

import (
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/estimate"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// seriesLate begins the series of a lane's late starts in a (class, bucket)'s window. It stands beside the outcomes, which
// are written anyway, so that it costs no write of its own.
const seriesLate = "w:"

// LateLane is the lane of a series of late starts, by estimate.LateBin.
func LateLane(series string) (lane string, ok bool) { return strings.CutPrefix(series, seriesLate) }

// late notes by how much later than predicted a task began. The caller holds the lock.
func (r *Recorder) late(now time.Time, class, bucket, lane string, ms int64) {
	bins := taskop.BinsKey(class, bucket, now.UnixMilli()/WindowMS)
	r.gone[bins] = now.UnixMilli() + taskop.BinsKeptMS
	r.add(bins, taskop.BinAttr(seriesLate+lane, estimate.LateBin(ms)), 1)
}

// Expired counts a task that could no longer begin in time. One that never began is at least as late as it has waited
// beyond its prediction, which its lane's margin is to know of.
func (r *Recorder) Expired(now time.Time, t *task.Task) {
	r.observe(now, func() {
		r.add(Group(GroupLane, t.Lane), MissOf(t.Prediction.Probe, "start"), 1)
		if t.StartedMS == 0 {
			r.late(now, t.Class, t.Bucket, t.Lane, now.UnixMilli()-t.Since()-t.Prediction.WaitMS)
		}
	})
}

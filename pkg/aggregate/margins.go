package aggregate

import (
	"context"
	"log/slog"

	"github.com/lanekeeper/lanekeeper/pkg/belief"
	"github.com/lanekeeper/lanekeeper/pkg/estimate"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// lateness is by how much later than predicted the tasks of each lane began.
type lateness map[string]map[int]int64

func (l lateness) add(lane string, bin int, n int64) {
	if l[lane] == nil {
		l[lane] = map[int]int64{}
	}
	l[lane][bin] += n
}

func (l lateness) merge(other lateness) {
	for lane, bins := range other {
		for bin, n := range bins {
			l.add(lane, bin, n)
		}
	}
}

// publishMargins learns the lanes' margins and publishes them if one moved.
func (r *run) publishMargins(ctx context.Context, late lateness, nowMS int64) error {
	if r.margins == nil {
		item, err := r.Table.Get(ctx, taskop.MarginsKey(), true)
		if err != nil {
			return err
		}
		body, _ := taskop.Published(item)
		if r.margins, err = belief.DecodeMargins(body); err != nil {
			return err
		}
	}
	next, moved := belief.Margins{}, false
	for _, name := range r.Config.LaneNames() {
		lane, _ := r.Config.Lane(name)
		configured := lane.SafetyMargin.MS()
		if ms := estimate.Margin(late[name], configured); ms != configured {
			next[name] = ms
		}
		moved = moved || estimate.MarginMoved(r.margins.Of(lane), next.Of(lane))
	}
	if !moved {
		return nil
	}
	if _, err := r.Table.Write(ctx, taskop.PublishMargins(next.Encode(), nowMS, r.lease.Epoch)); err != nil {
		r.margins = nil // whether it was written nobody knows
		return err
	}
	r.margins = next
	slog.InfoContext(ctx, "safety margins published", "lanes", len(next))
	return nil
}

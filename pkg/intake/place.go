package intake

import (
	"slices"

	"github.com/lanekeeper/lanekeeper/pkg/admission"
	"github.com/lanekeeper/lanekeeper/pkg/fair"
	"github.com/lanekeeper/lanekeeper/pkg/wait"
)

// place says how much of the lane's queued work stands behind a key, so that the
// level is poured from the rest. Tasks of tenants at their max_active can only follow one another in the
// slots that their tenants hold: where that gives the shorter wait, their work is
// poured into these slots alone. Both are bounds from above.
func (s *Service) place(key int64, low bool, v *view, lane *admission.LaneView, nowMS int64) {
	if v.lane.Ready+v.lane.Parked <= 0 || v.snap.Snapshot == nil {
		return
	}
	var inSlots int64
	for _, o := range v.lane.Tasks {
		if !o.Running {
			inSlots += o.AmountMS
		}
	}
	ahead := v.snap.Ahead(key, fair.Now{WorkMS: lane.WorkMS, InSlotsMS: inSlots, EnteredMS: lane.EnteredMS, Virtual: v.lane.Virtual,
		BehindMS: s.ownBehind(lane.Name, key, v.snap.EnteredMS, lane.EnteredMS)})
	lane.BehindMS, lane.Stretch = lane.WorkMS-ahead, v.snap.Stretch
	defer s.kept(low, v, lane, nowMS)
	var apart int64
	var residuals []int64
	held := map[string]bool{}
	for _, g := range v.snap.Parked {
		work := g.Points.Before(key)
		own := s.residuals(nil, &v.lane.Lane, v.book, g.Tenant, nowMS)
		if work == 0 || len(own) == 0 {
			continue
		}
		slices.Sort(own)
		level := wait.Level(own, work)
		for range own {
			residuals = append(residuals, level)
		}
		held[g.Tenant] = true
		apart += work
	}
	if apart == 0 || apart > ahead {
		return
	}
	for i := range v.lane.Tasks {
		if t := v.lane.Tasks[i].Tenant; !held[t] {
			held[t] = true
			residuals = s.residuals(residuals, &v.lane.Lane, v.book, t, nowMS)
		}
	}
	free := wait.Slots(nil, residuals, lane.Workers)
	if wait.Level(free, ahead-apart) < wait.Level(lane.Free, ahead) {
		lane.Free, lane.BehindMS = free, lane.WorkMS-ahead+apart
	}
}

// kept accounts for the slots that a lane keeps for low priority: while it waits
// they are nobody else's, and they bound its own wait by its own work.
func (s *Service) kept(low bool, v *view, lane *admission.LaneView, nowMS int64) {
	kept := min(s.Config.LowSlots(lane.Name, lane.Slots), len(lane.Free)-1)
	if kept <= 0 {
		return
	}
	if !low {
		if v.snap.LowMS > 0 {
			lane.Free = lane.Free[kept:]
		}
		return
	}
	var own []int64
	for i := range v.lane.Tasks {
		if o := &v.lane.Tasks[i]; o.Low && o.Running {
			one := v.lane.Lane
			one.Tasks = v.lane.Tasks[i : i+1]
			own = s.residuals(own, &one, v.book, "", nowMS)
		} else if o.Low {
			own = append(own, o.AmountMS) // about to run
		}
	}
	slices.Sort(own)
	if len(own) < kept {
		own = append(own, lane.Free[:kept-len(own)]...)
		slices.Sort(own)
	}
	own = own[:kept]
	ahead := min(v.snap.LowMS+v.snap.UnplacedMS+max(lane.EnteredMS-v.snap.EnteredMS, 0), lane.WorkMS)
	if wait.Level(own, ahead) < wait.Level(lane.Free, lane.WorkMS-lane.BehindMS) {
		lane.Free, lane.BehindMS = own, lane.WorkMS-ahead
	}
}

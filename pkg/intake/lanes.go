package intake

import (
	"context"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/belief"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/wait"
)

// Lanes reports every lane as it stands. The error is a *Refusal.
func (s *Service) Lanes(ctx context.Context) ([]events.Lane, error) {
	names := s.Config.LaneNames()
	keys := make([]op.Key, 0, len(names)+1)
	for _, name := range names {
		keys = append(keys, taskop.LaneKey(name))
	}
	now := s.Clock()
	items, err := s.Table.BatchGet(ctx, keys, true)
	if err != nil {
		return nil, Unavailable(ctx, "reading lanes", err)
	}
	book := s.book()
	out := make([]events.Lane, 0, len(names))
	for i, name := range names {
		lane, err := taskop.DecodeLane(name, items[i])
		if err != nil {
			return nil, Unavailable(ctx, "reading lanes", err)
		}
		if !lane.Exists {
			lane.Slots = int64(s.Config.Slots(name))
		}
		oldest, err := s.oldest(ctx, &lane)
		if err != nil {
			return nil, Unavailable(ctx, "reading lanes", err)
		}
		out = append(out, s.laneStatus(&lane, book, oldest, now.UnixMilli()))
	}
	return out, nil
}

// Lane reports one lane as it stands, from its item. The error is a *Refusal.
func (s *Service) Lane(ctx context.Context, lane *taskop.Lane) (events.Lane, error) {
	oldest, err := s.oldest(ctx, lane)
	if err != nil {
		return events.Lane{}, Unavailable(ctx, "reading a lane", err)
	}
	book := s.book()
	return s.laneStatus(lane, book, oldest, s.Clock().UnixMilli()), nil
}

// ForgetLane makes this instance read a lane again before it decides on it.
func (s *Service) ForgetLane(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.copies.lanes, name)
}

func (s *Service) laneStatus(lane *taskop.Lane, book *belief.Book, oldestMS, nowMS int64) events.Lane {
	st := events.Lane{Lane: lane.Name, QueuedWork: events.Seconds(max(lane.WorkMS, 0)), Waiting: max(lane.Ready, 0) + max(lane.Parked, 0),
		Slots: int(lane.Slots), Paused: lane.Paused}
	for _, o := range lane.Tasks {
		if o.Running {
			st.Running++
		} else {
			st.Queued++
		}
	}
	if oldestMS > 0 {
		st.OldestAge = events.Seconds(max(nowMS-oldestMS, 0))
	}
	workers := min(s.Config.Workers(lane.Name), int(lane.Slots))
	free := wait.Slots(nil, s.residuals(nil, lane, book, "", nowMS), workers)
	st.PredictedWait = events.Seconds(wait.Level(free, max(lane.WorkMS, 0)))
	if int64(st.PredictedWait) >= wait.Infinite {
		st.PredictedWait = events.Unbounded
	}
	return st
}

// oldest is the submission time of the oldest task that has not started: the
// head of the ready order, or a queued one. 0 when there is none.
func (s *Service) oldest(ctx context.Context, lane *taskop.Lane) (int64, error) {
	var oldest int64
	earlier := func(ms int64) {
		if oldest == 0 || ms < oldest {
			oldest = ms
		}
	}
	for _, o := range lane.Tasks {
		if !o.Running {
			earlier(o.SinceMS)
		}
	}
	for _, pk := range []string{taskop.ReadyPartition(lane.Name), taskop.LowPartition(lane.Name)} {
		if lane.Ready <= 0 {
			break
		}
		page, err := op.Query{Index: op.IndexReady, PK: pk, Limit: 1}.First(ctx, s.Table)
		if err != nil {
			return 0, err
		}
		for _, r := range page.Rows {
			if e, err := taskop.ParseReadySort(r.Item.Str("rs")); err == nil {
				earlier(e.SubmittedMS)
			}
		}
	}
	return oldest, nil
}

package fair

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/fair"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

const rivals = 20 // tenants with a constant backlog of high priority

// overload is a lane in which rivals never let up, and one tenant of low priority.
func overload(w *world) {
	for i := range rivals {
		tenant := fmt.Sprintf("t%d", i+1)
		w.backlog(300_000, 20, tenant, func() { w.submit(tenant, "unit", "high", w.about(time.Second)) })
	}
	w.backlog(300_000, 20, "t0", func() { w.submit("t0", "unit", "low", w.about(time.Second)) })
	w.sleepUntil(300_000)
}

// low: low priority gets the slots that are kept for it, whatever comes at higher
// priority, and without them still begins within the bound of aging.
func (r *Report) low(t *testing.T) {
	share := func(w *world) float64 { // of the time worked: hand-overs cost all slots alike
		all := w.log(func(*span) bool { return true })
		return ratio(slotMS(w.log(of("t0")), 60_000, 300_000), slotMS(all, 60_000, 300_000))
	}
	kept := config("LOW", "low_share: 0.1,")
	on, off := share(play(t, kept, without{}, overload)), share(play(t, config(), without{}, overload))
	r.line(math.Round(on*1000) >= 100, "low priority against 20 tenants of high: its share of slot time", percent(on), ">= 10.0 % of the time worked (one slot)", percent(off))

	busy := func(w *world) float64 {
		return ratio(slotMS(w.log(func(s *span) bool { return s.t.AtLane == "work" }), 60_000, 300_000), 240_000*10)
	}
	idle := play(t, kept, without{}, func(w *world) {
		w.backlog(300_000, 50, "t1", func() { w.submit("t1", "unit", "high", time.Second) })
		w.sleepUntil(300_000)
	})
	r.line(busy(idle) >= 0.95, "slots kept for low priority are lent while it has nothing", percent(busy(idle)), ">= 95 % of all slots at work", "")
	r.aging(t)
}

// aging: without any slot kept for it, low priority begins within the bound.
func (r *Report) aging(t *testing.T) {
	var worst, wait, bound int64
	loads := []fair.Load{{Weight: 1, LargestMS: 1500}}
	for range rivals {
		loads = append(loads, fair.Load{Weight: 1, LargestMS: 1500})
	}
	// What a second of amount takes of a slot, hand-over included.
	const stretch = 1.1
	shift := fair.Shift(policy.PriorityRank("low"))
	bounds := map[string]int64{}
	load := func(w *world) {
		for i := range rivals {
			tenant := fmt.Sprintf("t%d", i+1)
			w.backlog(300_000, 100, tenant, func() { w.submit(tenant, "unit", "high", w.about(time.Second)) })
		}
		w.nowAndThen(150_000, 5*time.Second, func() {
			lane, err := taskop.DecodeLane("work", w.table.Peek(taskop.LaneKey("work")))
			id := w.submit("t0", "unit", "low", time.Second)
			if err != nil || id == "" {
				return
			}
			row, err := taskop.DecodeRow(taskop.RowKey("t0", id), w.table.Peek(taskop.RowKey("t0", id)))
			if err == nil {
				bounds[id] = int64(stretch * float64(fair.Bound(row.Tag, lane.Virtual, shift, fair.Shift(1), loads, 15_000, 10)))
			}
		})
		w.sleepUntil(300_000)
	}
	w := play(t, config(), without{}, load)
	begun := 0
	for _, s := range w.log(of("t0")) {
		if b := bounds[s.t.ID]; b > 0 {
			begun++
			if share := s.delay() * 1000 / b; share > worst {
				worst, wait, bound = share, s.delay(), b
			}
		}
	}
	late := 0 // still waiting, past their bound
	for id, s := range w.pending {
		if b := bounds[id]; b > 0 && w.sinceEnd-s.came > b {
			late++
		}
	}
	r.line(begun > 0 && worst <= 1000 && late == 0, fmt.Sprintf("aging: low priority's wait nearest to its bound (%d tasks, %d late)", begun, late), seconds(wait), "<= "+seconds(bound), "")
}

package fair

import "math"

// Drain measures how much of the work that a lane begins is of the backlog that it
// has: not all, because who comes later with a smaller key goes first. Slots that
// are still busy with what began before say nothing about that; the level knows of
// them already. The zero value knows nothing.
type Drain struct {
	atMS, waitingMS, begunMS, lastKey int64   // when it was looked at, and what waited and had begun then
	drained, capacity                 float64 // ms, older ones fading
	seen                              bool
}

const (
	drainMemoryMS = 30_000 // over which observations fade
	drainLeastMS  = 5_000  // observed before anything is said
)

// DrainOf is one that begins with what another had found out.
func DrainOf(stretch int64, slots int) Drain {
	if stretch < 1000 {
		return Drain{}
	}
	c := float64(2 * drainLeastMS * slots)
	return Drain{capacity: c, drained: c * 1000 / float64(stretch)}
}

// Observe takes in the waiting tasks at a time. begunMS is all work that ever left the queue
// (entered − queued); full says that all slots are taken. It returns the stretch (see Snapshot), 0 while it is not known.
func (d *Drain) Observe(entries []Entry, begunMS int64, slots int, full bool, nowMS int64) int64 {
	var waiting, left int64
	last := int64(math.MinInt64)
	for _, e := range entries {
		if e.Parked != "" {
			continue
		}
		waiting += e.AmountMS
		last = max(last, e.Key)
		if e.Key <= d.lastKey {
			left += e.AmountMS
		}
	}
	// Only what is drained out of a backlog that lasts says something.
	if dt, begun := nowMS-d.atMS, begunMS-d.begunMS; d.seen && full && left > 0 && dt > 0 && dt <= drainMemoryMS && begun > 0 {
		fade := math.Exp(-float64(dt) / drainMemoryMS)
		c := float64(begun)
		d.capacity = d.capacity*fade + c
		d.drained = d.drained*fade + min(max(float64(d.waitingMS-left), 0), c)
	}
	d.atMS, d.waitingMS, d.begunMS, d.lastKey, d.seen = nowMS, waiting, begunMS, last, full && waiting > 0
	if d.capacity < float64(drainLeastMS*slots) {
		return 0
	}
	return int64(min(max(1000*d.capacity/max(d.drained, 1), 1000), MaxStretch))
}

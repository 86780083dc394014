package fair

import "math"

// Drain measures how fast a lane gets through the backlog that it has: less fast
// than its slots alone would, because who comes later with a smaller key goes first,
// and hand-overs take time. The zero value knows nothing.
type Drain struct {
	atMS, waitingMS, lastKey int64   // when it was looked at, and what waited then
	drained, capacity        float64 // ms, older ones fading
	seen                     bool
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

// Observe takes in the waiting tasks at a time. full says that all slots are taken. It
// returns the stretch (see Snapshot), 0 while it is not known.
func (d *Drain) Observe(entries []Entry, slots int, full bool, nowMS int64) int64 {
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
	if dt := nowMS - d.atMS; d.seen && full && left > 0 && dt > 0 && dt <= drainMemoryMS {
		fade := math.Exp(-float64(dt) / drainMemoryMS)
		c := float64(dt) * float64(slots)
		d.capacity = d.capacity*fade + c
		// Cancelled work was not drained; but ticks vary, and a bound at c would only cut the good ones.
		d.drained = d.drained*fade + min(max(float64(d.waitingMS-left), 0), 2*c)
	}
	d.atMS, d.waitingMS, d.lastKey, d.seen = nowMS, waiting, last, full && waiting > 0
	if d.capacity < float64(drainLeastMS*slots) {
		return 0
	}
	return int64(min(max(1000*d.capacity/max(d.drained, 1), 1000), MaxStretch))
}

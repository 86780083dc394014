package rig

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// CheckLimits holds a tenant's ledger against its contract, at any moment and
// whatever runs beside. Work that comes back after an attempt is never refused
// and may exceed the limit by no more than max_active amounts: again is the
// largest amount that may have come back, 0 where nothing does.
func (r *Rig) CheckLimits(t testing.TB, tenant string, again int64) {
	t.Helper()
	contract, _ := r.Config.Tenant(tenant)
	tier, _ := r.Config.Tier(contract.Tier)
	l := r.Ledger(t, tenant)
	if most := tier.MaxQueuedWork.MS() + again*int64(tier.MaxActive); l.WorkMS < 0 || l.WorkMS > most {
		t.Errorf("tenant %s has %d ms of work reserved, its limit is %d", tenant, l.WorkMS, most)
	}
	if l.Active < 0 || l.Active > int64(tier.MaxActive) {
		t.Errorf("tenant %s has %d active attempts, its limit is %d", tenant, l.Active, tier.MaxActive)
	}
}

// CheckHoldings holds every ledger against the rows, while no call is under way:
// each live task holds its reservation exactly once, others none.
func (r *Rig) CheckHoldings(t testing.TB) {
	t.Helper()
	work, active := map[string]int64{}, map[string]int64{}
	for _, x := range r.Tasks(t) {
		switch x.State {
		case task.Running:
			active[x.Tenant]++
		case task.Waiting, task.Queued, task.RetryWait:
			work[x.Tenant] += x.AmountMS
		}
	}
	for _, tenant := range r.Config.TenantNames() {
		if l := r.Ledger(t, tenant); l.WorkMS != work[tenant] || l.Active != active[tenant] {
			t.Errorf("ledger of %s: work %d, active %d; its rows hold %d and %d", tenant, l.WorkMS, l.Active, work[tenant], active[tenant])
		}
	}
}

// CheckLanes holds every lane item against the rows, while no call is under way:
// never too empty (a release takes the slot before the row changes, so what
// waits may be counted as open); with exact, not too full either.
func (r *Rig) CheckLanes(t testing.TB, exact bool) {
	t.Helper()
	type counts struct{ open, waiting, work int64 }
	want := map[string]counts{}
	for _, x := range r.Tasks(t) {
		c := want[x.AtLane]
		switch x.State {
		case task.Running:
			c.open++
		case task.Queued:
			c.open++
			c.work += x.AmountMS
		case task.Waiting:
			c.waiting++
			c.work += x.AmountMS
		}
		want[x.AtLane] = c
	}
	for _, name := range r.Config.LaneNames() {
		l := r.Lane(t, name)
		have, w := counts{l.Open, l.Ready + l.Parked, l.WorkMS}, want[name]
		if have.open < w.open || have.open+have.waiting < w.open+w.waiting || have.work < w.work {
			t.Errorf("lane %s is too empty: it says %+v, its rows %+v", name, have, w)
		}
		if exact && (have != w || int64(len(l.Tasks)) != have.open) {
			t.Errorf("lane %s says %+v with %d entries, its rows %+v", name, have, len(l.Tasks), w)
		}
	}
}

// CheckQuiet checks that everything has come to its end: no task is live, all
// ledgers read zero, no lane counts anything.
func (r *Rig) CheckQuiet(t testing.TB) {
	t.Helper()
	for _, x := range r.Tasks(t) {
		if x.State.Live() {
			t.Errorf("task %s is still %s", x.ID, x.State)
		}
	}
	r.CheckHoldings(t)
	r.CheckLanes(t, true)
}

package fair_test

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/fair"
)

// TestDrainSeesOvertaking: ten slots, of whose work a fifth goes to tasks that come later
// and stand before the backlog.
func TestDrainSeesOvertaking(t *testing.T) {
	var d fair.Drain
	var got int64
	for s := range int64(120) {
		var entries []fair.Entry
		for i := s * 8; i < 2000; i++ { // 8 of 10 that begin in a second are of the backlog
			entries = append(entries, fair.Entry{Key: i * 100, AmountMS: 1000})
		}
		for i := range s { // what comes after it does not count, nor what is parked
			entries = append(entries, fair.Entry{Key: 1_000_000 + i, AmountMS: 9000}, fair.Entry{Key: 5, AmountMS: 5000, Parked: "x"})
		}
		if got = d.Observe(entries, s*10_000, 10, true, s*1000); s < 4 && got != 0 {
			t.Fatalf("after %d s it says %d", s, got)
		}
	}
	if got < 1230 || got > 1270 {
		t.Errorf("stretch %d, want 1250", got)
	}
	again := fair.DrainOf(got, 10)
	if first := again.Observe(nil, 0, 10, false, 0); first < got-1 || first > got+1 {
		t.Errorf("taken over: %d of %d", first, got)
	}
}

func TestDrainBounds(t *testing.T) {
	backlog := func(n int64) (e []fair.Entry) {
		for i := range n {
			e = append(e, fair.Entry{Key: i, AmountMS: 1000})
		}
		return e
	}
	var all, none, idle, busy fair.Drain
	var a, b, c, e int64
	for s := range int64(60) {
		a = all.Observe(backlog(1000-s*16), s*16_000, 10, true, s*1000) // all that begins is of the backlog
		b = none.Observe(backlog(1000), s*10_000, 10, true, s*1000)     // nothing of it is
		c = idle.Observe(backlog(1000), s*10_000, 10, false, s*1000)    // slots are free: says nothing
		e = busy.Observe(backlog(1000), 0, 10, true, s*1000)            // long tasks hold the slots: says nothing either
	}
	if a != 1000 || b != fair.MaxStretch || c != 0 || e != 0 {
		t.Errorf("%d, %d, %d, %d", a, b, c, e)
	}
	if z := fair.DrainOf(0, 10); z != (fair.Drain{}) {
		t.Error("nothing known is nothing known")
	}
}

package admission

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestGCRABurstThenRate(t *testing.T) {
	g := NewGCRA(20, 3) // every 50 ms
	const start = int64(1_700_000_000_000_000)
	tat := int64(0)
	for i := range 3 {
		wait, next := g.Check(tat, start)
		if wait != 0 {
			t.Fatalf("submission %d of the burst has to wait %d", i, wait)
		}
		tat = next
	}
	wait, next := g.Check(tat, start)
	if wait != 50 || next != tat {
		t.Fatalf("after the burst: wait %d, tat changed: %v", wait, next != tat)
	}
	if wait, _ := g.Check(tat, start+49_999); wait != 1 {
		t.Fatalf("1 µs too early: wait %d", wait)
	}
	if wait, _ := g.Check(tat, start+50_000); wait != 0 {
		t.Fatalf("on time: wait %d", wait)
	}
}

func TestNewGCRA(t *testing.T) {
	for _, c := range []struct {
		rate     float64
		burst    int64
		interval int64
	}{
		{0, 5, 0}, {-1, 5, 0}, {math.NaN(), 5, 0}, {1, 5, 1_000_000}, {0.5, 0, 2_000_000}, {3, 5, 333_334},
		{5_000, 5, 200}, {math.Inf(1), 5, 1}, {1e-300, 5, 1 << 61},
	} {
		g := NewGCRA(c.rate, c.burst)
		if g.IntervalUS != c.interval || g.Unlimited() != (c.interval == 0) {
			t.Errorf("NewGCRA(%v): %+v", c.rate, g)
		}
	}
	if wait, next := (GCRA{}).Check(77, 5); wait != 0 || next != 77 {
		t.Errorf("unlimited: %d, %d", wait, next)
	}
}

// In any window the limit admits at most Burst + window/Interval submissions, and the guidance is exact to 1 ms.
func TestGCRANeverExceedsItsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := GCRA{rapid.Int64Range(1, 5_000).Draw(t, "interval"), rapid.Int64Range(0, 5).Draw(t, "burst")}
		var tat, now int64
		var admitted []int64
		for range rapid.IntRange(1, 60).Draw(t, "n") {
			now += rapid.Int64Range(0, 4_000).Draw(t, "gap")
			wait, next := g.Check(tat, now)
			if (wait == 0) != (tat <= g.MaxTAT(now)) {
				t.Fatal("MaxTAT and Check disagree")
			}
			if wait > 0 {
				if later, _ := g.Check(tat, now+wait*1000); later != 0 {
					t.Fatalf("after the wait it has to wait %d more", later)
				}
				continue
			}
			tat = next
			admitted = append(admitted, now)
		}
		for i := range admitted {
			for j := i; j < len(admitted); j++ {
				if n, limit := int64(j-i+1), max(g.Burst, 1)+(admitted[j]-admitted[i])/g.IntervalUS; n > limit {
					t.Fatalf("%d admitted in %d µs, limit %d", n, admitted[j]-admitted[i], limit)
				}
			}
		}
	})
}

func FuzzGCRA(f *testing.F) {
	f.Add(int64(50_000), int64(3), int64(0), int64(1_700_000_000_000_000))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, interval, burst, tat, now int64) {
		wait, next := (GCRA{interval, burst}).Check(tat, now)
		if wait < 0 || next < max(tat, 0) {
			t.Fatalf("wait %d, tat %d -> %d", wait, tat, next)
		}
	})
}

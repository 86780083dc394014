package wait

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func ExampleLevel() {
	var buf [8]int64
	// Two slots that have just taken tasks of a minute, nothing queued.
	busy := Slots(buf[:0], []int64{60_000, 60_000}, 2)
	fmt.Println(Level(busy, 0), Ratio(0, 2))
	// The same with a third slot free and 10 s of work queued.
	busy = Slots(buf[:0], []int64{60_000, 60_000}, 3)
	fmt.Println(Level(busy, 10_000), Ratio(10_000, 3))
	// Output:
	// 60000 0
	// 10000 3334
}

// value draws small numbers often, and any non-negative int64 sometimes.
func value() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, 1_000_000), rapid.Int64Range(0, math.MaxInt64),
		rapid.Int64Range(math.MaxInt64-3, math.MaxInt64))
}

func drawFree(t *rapid.T) []int64 {
	free := rapid.SliceOfN(value(), 0, 12).Draw(t, "free")
	slices.Sort(free)
	return free
}

// poured is Σ max(0, t − r_i), exactly.
func poured(free []int64, level int64) *big.Int {
	sum := new(big.Int)
	for _, r := range free {
		if level > r {
			sum.Add(sum, big.NewInt(level-r))
		}
	}
	return sum
}

func TestLevelHoldsExactlyTheWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free, q := drawFree(t), value().Draw(t, "q")
		level := Level(free, q)
		switch {
		case len(free) == 0:
			if level != Infinite {
				t.Fatalf("level %d without slots", level)
			}
		case q == 0:
			if level != free[0] {
				t.Fatalf("level %d with nothing queued, want %d", level, free[0])
			}
		case level == Infinite:
			if poured(free, Infinite-1).Cmp(big.NewInt(q)) >= 0 {
				t.Fatal("saturated although a smaller level would do")
			}
		default:
			over := new(big.Int).Sub(poured(free, level), big.NewInt(q))
			if over.Sign() < 0 || over.Cmp(big.NewInt(int64(len(free)))) >= 0 {
				t.Fatalf("level %d takes in %v ms more than %d", level, over, q)
			}
			if poured(free, level-1).Cmp(big.NewInt(q)) >= 0 {
				t.Fatalf("level %d is not the smallest", level)
			}
		}
	})
}

func TestLevelIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free, q := drawFree(t), value().Draw(t, "q")
		before := Level(free, q)
		if more := value().Draw(t, "more"); more > q && Level(free, more) < before {
			t.Fatalf("more work lowers the level from %d to %d", before, Level(free, more))
		}
		if len(free) == 0 {
			return
		}
		i := rapid.IntRange(0, len(free)-1).Draw(t, "slot")
		later := slices.Clone(free)
		later[i] = max(later[i], value().Draw(t, "later"))
		slices.Sort(later)
		if got := Level(later, q); got < before {
			t.Fatalf("a later slot lowers the level from %d to %d", before, got)
		}
		if got := Level(free[1:], q); got < before {
			t.Fatalf("losing a slot lowers the level from %d to %d", before, got)
		}
	})
}

func inverse(t interface{ Fatalf(string, ...any) }, free []int64, q, level int64) {
	fits, allowed := Level(free, q) <= level, q <= Room(free, level)
	if fits != allowed {
		t.Fatalf("free %v: Level(%d) = %d, Room(%d) = %d", free, q, Level(free, q), level, Room(free, level))
	}
}

func TestRoomIsTheInverseOfLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free, q, level := drawFree(t), value().Draw(t, "q"), rapid.OneOf(value(), rapid.Int64Range(-5, -1)).Draw(t, "level")
		inverse(t, free, q, level)
		// The edges, where rounding would show.
		exact := Level(free, q)
		inverse(t, free, q, exact)
		inverse(t, free, q, exact-1)
		if room := Room(free, level); room >= 0 {
			inverse(t, free, room, level)
			if room < Infinite {
				inverse(t, free, room+1, level)
			}
		}
	})
}

func TestRoomSaturatesToTheExactSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free, level := drawFree(t), value().Draw(t, "level")
		if len(free) == 0 || level < free[0] || level == Infinite {
			return
		}
		want := poured(free, level)
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		if got := Room(free, level); got != want.Int64() {
			t.Fatalf("Room = %d, want %v", got, want)
		}
	})
}

func TestSlots(t *testing.T) {
	for _, c := range []struct {
		name      string
		residuals []int64
		slots     int
		want      []int64
	}{
		{"free slots come first", []int64{9, 4}, 4, []int64{0, 0, 4, 9}},
		{"all busy", []int64{9, 4}, 2, []int64{4, 9}},
		{"the earliest ends of a lowered lane free nothing", []int64{9, 4, 7, 1}, 2, []int64{7, 9}},
		{"overdue attempts end now", []int64{-3, 5}, 2, []int64{0, 5}},
		{"no slots", []int64{9, 4}, 0, []int64{}},
		{"negative slots", nil, -1, []int64{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Slots(nil, c.residuals, c.slots); !slices.Equal(got, c.want) {
				t.Fatalf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestOneMoreRunningOrOneSlotLessNeverLowersTheLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		residuals := rapid.SliceOfN(value(), 0, 10).Draw(t, "residuals")
		slots, q := rapid.IntRange(0, 8).Draw(t, "slots"), value().Draw(t, "q")
		before := Level(Slots(nil, residuals, slots), q)
		if got := Level(Slots(nil, append(slices.Clone(residuals), value().Draw(t, "one")), slots), q); got < before {
			t.Fatalf("one more running attempt lowers the level from %d to %d", before, got)
		}
		if got := Level(Slots(nil, residuals, slots-1), q); got < before {
			t.Fatalf("one slot less lowers the level from %d to %d", before, got)
		}
	})
}

func TestRatioAndDrain(t *testing.T) {
	for _, c := range []struct{ got, want int64 }{
		{Ratio(10, 3), 4}, {Ratio(9, 3), 3}, {Ratio(0, 3), 0}, {Ratio(-1, 3), 0}, {Ratio(9, 0), Infinite},
		{Ratio(math.MaxInt64, 1), math.MaxInt64},
		{DrainMS([]int64{50, 60}, 0), 0}, {DrainMS([]int64{50, 60}, 4), 54}, {DrainMS([]int64{50, 60}, 30), 70},
		{DrainMS(nil, 1), Infinite}, {DrainMS(nil, 0), 0},
	} {
		if c.got != c.want {
			t.Errorf("got %d, want %d", c.got, c.want)
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	residuals := []int64{5, 3, 9, 1}
	dst := make([]int64, 0, 16)
	var sink int64
	if n := testing.AllocsPerRun(100, func() {
		free := Slots(dst, residuals, 8)
		sink += Level(free, 1000) + Room(free, 50) + Ratio(5, 2) + DrainMS(free, 7)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func FuzzInverse(f *testing.F) {
	f.Add(int64(0), int64(3), int64(3), int64(7), int64(5))
	f.Add(int64(math.MaxInt64), int64(0), int64(1), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, a, b, c, q, level int64) {
		residuals := []int64{a, b, c}
		for slots := range 6 {
			inverse(t, Slots(nil, residuals, slots), max(q, 0), level)
		}
	})
}

func BenchmarkLevel(b *testing.B) {
	for _, slots := range []int{2, 20, 1000} {
		residuals := make([]int64, slots)
		for i := range residuals {
			residuals[i] = int64(i * 7919 % 60_000)
		}
		free := Slots(nil, residuals, slots)
		b.Run(fmt.Sprint(slots), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Level(free, 120_000)
			}
		})
	}
}

func BenchmarkSlots(b *testing.B) {
	residuals := make([]int64, 20)
	dst := make([]int64, 0, 20)
	b.ReportAllocs()
	for b.Loop() {
		for i := range residuals {
			residuals[i] = int64(i * 7919 % 60_000)
		}
		dst = Slots(dst, residuals, 20)
	}
}

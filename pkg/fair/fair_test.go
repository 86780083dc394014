package fair_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/fair"
)

// backlog draws a lane's waiting tasks, some of them parked.
func backlog(t *rapid.T) []fair.Entry {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) fair.Entry {
		return fair.Entry{
			Key:      rapid.Int64Range(-60_000, 500_000).Draw(t, "key"),
			AmountMS: rapid.OneOf(rapid.Int64Range(1, 10), rapid.Int64Range(1, 600_000)).Draw(t, "amount"),
			Parked:   rapid.SampledFrom([]string{"", "", "", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"}).Draw(t, "parked"),
		}
	}), 0, 300).Draw(t, "backlog")
}

// none is before all keys.
const none = -1 << 60

func upTo(entries []fair.Entry, key int64) (sum int64) { return between(entries, none, key) }

// between is what stands before a key at a virtual time: of those in the order
// only what has not begun.
func between(entries []fair.Entry, virtual, key int64) (sum int64) {
	for _, e := range entries {
		if e.Key <= key && (e.Key >= virtual || e.Parked != "") {
			sum += e.AmountMS
		}
	}
	return sum
}

func TestBeforeIsNeverTooLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := backlog(t)
		unplaced := rapid.Int64Range(-10, 1000).Draw(t, "unplaced")
		total := upTo(entries, 1<<60)
		exact := slices.Clone(entries)
		s := fair.Summarise(entries, total+unplaced, 7, none, 8)
		if s.EnteredMS != 7 || s.AtMS != 8 || len(s.Points) > fair.MaxPoints || len(s.Parked) > fair.MaxGroups {
			t.Fatalf("%+v", s)
		}
		for i := range s.Parked {
			if len(s.Parked[i].Points) > 10 {
				t.Fatalf("group of %d points", len(s.Parked[i].Points))
			}
		}
		last := int64(0)
		for _, key := range append([]int64{-1 << 60, -60_001, 500_001, 1 << 60}, keysOf(exact)...) {
			virtual := rapid.OneOf(rapid.Just(int64(none)), rapid.Int64Range(-70_000, 510_000)).Draw(t, "virtual")
			want, got := between(exact, virtual, key)+max(unplaced, 0), s.Before(key, virtual)
			if got < want {
				t.Fatalf("before %d: %d, really %d", key, got, want)
			}
			if got > total+max(unplaced, 0) {
				t.Fatalf("before %d: %d of %d in all", key, got, total)
			}
		}
		for key := int64(-60_001); key <= 500_001; key += 10_007 { // it never falls
			if b := s.Before(key, none); b < last {
				t.Fatalf("before %d: %d, and %d before a smaller key", key, b, last)
			} else {
				last = b
			}
		}
		if got, err := fair.Decode(s.Encode()); err != nil || got.Before(100, 50) != s.Before(100, 50) || got.EnteredMS != 7 {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}

func keysOf(entries []fair.Entry) (keys []int64) {
	for _, e := range entries {
		keys = append(keys, e.Key, e.Key-1)
	}
	return keys
}

// TestBeforeIsNearlyRight: what is too much is a quarter of what stands there, and a
// few tasks, not a share of the whole backlog.
func TestBeforeIsNearlyRight(t *testing.T) {
	var entries []fair.Entry
	for i := range int64(5000) {
		entries = append(entries, fair.Entry{Key: i * 100, AmountMS: 1000})
	}
	s := fair.Summarise(slices.Clone(entries), 5_000_000, 0, none, 0)
	for key := int64(0); key < 500_000; key += 777 {
		want := upTo(entries, key)
		if got := s.Before(key, none); got > want+want/4+12_000 {
			t.Fatalf("before %d: %d, really %d", key, got, want)
		}
		if got := s.Before(key, key); got > 1000+want/4+24_000 {
			t.Fatalf("before %d at that time: %d", key, got)
		}
	}
}

// TestAheadBounds: never more than is there, never less than the exact sum of
// what stands before the key, wherever what entered since stands.
func TestAheadBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := backlog(t)
		inSlots := rapid.Int64Range(0, 100_000).Draw(t, "in slots")
		entered := rapid.Int64Range(0, 1<<40).Draw(t, "entered")
		total := upTo(entries, 1<<60)
		exact := slices.Clone(entries)
		// The index showed only some of what the lane counted.
		shown := rapid.IntRange(0, len(entries)).Draw(t, "shown")
		then := rapid.Int64Range(-70_000, 510_000).Draw(t, "virtual then")
		s := fair.Summarise(entries[:shown:shown], total, entered, then, 0)
		later := backlog(t)
		work := total + inSlots + upTo(later, 1<<60)
		key := rapid.Int64Range(-70_000, 510_000).Draw(t, "key")
		now := fair.Now{WorkMS: work, InSlotsMS: inSlots, EnteredMS: entered + upTo(later, 1<<60), Virtual: rapid.Int64Range(-70_000, 510_000).Draw(t, "virtual")}
		for _, e := range later { // some of it is known
			if e.Key > key && rapid.Bool().Draw(t, "known") {
				now.BehindMS += e.AmountMS
			}
		}
		got := s.Ahead(key, now)
		begun := now.Virtual
		if begun <= then {
			begun = none
		}
		if want := between(exact, begun, key) + inSlots + upTo(later, key); got < want || got > work {
			t.Fatalf("ahead %d, really %d of %d", got, want, work)
		}
		old := now
		old.EnteredMS = entered - 1
		if s.Ahead(key, old) != work || (*fair.Snapshot)(nil).Ahead(key, now) != work {
			t.Fatal("a snapshot from later, or none, must count everything")
		}
		if s.Ahead(key, fair.Now{WorkMS: -5, InSlotsMS: inSlots, EnteredMS: entered}) != 0 {
			t.Fatal("a lane that counts below zero has nothing ahead")
		}
	})
}

func TestCostAndCorrection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64Range(1, 1<<40).Draw(t, "amount")
		weight := rapid.Float64Range(0.001, 1000).Draw(t, "weight")
		cost := fair.Cost(amount, weight)
		if exact := float64(amount) / weight; float64(cost) < exact*(1-1e-12) || float64(cost) > exact+1+exact*1e-12 {
			t.Fatalf("cost %d of %d at weight %v", cost, amount, weight)
		}
		if fair.Cost(amount+1, weight) < cost || cost < 1 {
			t.Fatal("more work costs less")
		}
		if fair.Correction(cost, amount, amount) != 0 {
			t.Fatal("what took what it was charged for is corrected")
		}
		// Charged and corrected is what it would have cost, but for roundings in proportion.
		actual := rapid.Int64Range(0, 1<<40).Draw(t, "actual")
		got, want := cost+fair.Correction(cost, amount, actual), float64(actual)*float64(cost)/float64(amount)
		if d := float64(got) - want; d > 1+want*1e-9 || d < -1-want*1e-9 {
			t.Fatalf("charged %d for %d, really %d: %d in all, want %v", cost, amount, actual, got, want)
		}
		if got < -1 {
			t.Fatalf("a task pays for itself and gets %d back", -got)
		}
	})
	for _, w := range []float64{0, -1} {
		if fair.Cost(500, w) != 500 {
			t.Errorf("weight %v", w)
		}
	}
	if fair.Cost(1<<62, 1e-9) <= 0 || fair.Correction(1<<61, 1, 1<<62) <= 0 || fair.Correction(0, 5, 9) != 0 || fair.Correction(5, 0, 9) != 0 {
		t.Error("overflow")
	}
}

func TestShiftsAreEvenAndCentred(t *testing.T) {
	for rank := range 3 {
		if fair.Shift(rank)+fair.ShiftMS != fair.Shift(rank+1) {
			t.Errorf("rank %d: %d, next %d", rank, fair.Shift(rank), fair.Shift(rank+1))
		}
	}
	if fair.Shift(2) != 0 {
		t.Error("normal priority is shifted")
	}
	if fair.Start(5, 9) != 9 || fair.Start(9, 5) != 9 {
		t.Error("a start tag is the later of the two")
	}
}

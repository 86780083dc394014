// Package fair is the order of release: start-time fair queueing written into a
// sort key, and what of a backlog stands before a key in it.
//
// A tenant's next task in a lane gets the start tag S = max(V, f): V is the
// lane's virtual time (the start tag of the task that began last), f the
// tenant's last finish tag there. Its finish tag S + amount/weight becomes the
// tenant's f. Tasks begin in order of S + shift(priority): shares follow the
// weights, priority reorders by a bounded amount and never changes shares,
// and age is inherent, because V moves on while a key stays. (P. Goyal, H. Vin,
// H. Cheng, "Start-time Fair Queueing", SIGCOMM 1996.)
//
// Tags are milliseconds of work at weight 1. Everything is pure.
package fair

import (
	"encoding/json"
	"math"
	"sort"
)

// ShiftMS is how far one step of priority moves a key, in ms of work at weight 1:
// a task goes before those of the next lower priority that began to wait while
// up to this much work per weight was begun before it.
const ShiftMS = 30_000

// Shift is the shift of a priority by its rank: 0 critical, 1 high, 2 normal, 3 low.
func Shift(rank int) int64 { return int64(rank-2) * ShiftMS }

// Cost is what a task of an amount moves its tenant's finish tag on by. A weight
// that is not positive counts as 1.
func Cost(amountMS int64, weight float64) int64 {
	if !(weight > 0) {
		weight = 1
	}
	c := math.Ceil(float64(amountMS) / weight)
	if c >= math.MaxInt64/4 {
		return math.MaxInt64 / 4
	}
	return max(int64(c), 1)
}

// Start is the start tag of a tenant's next task.
func Start(virtual, finish int64) int64 { return max(virtual, finish) }

// Correction is what a finish tag moves by when a task that was charged cost for
// an amount really took actual: charged work in proportion, rounded down.
func Correction(cost, amountMS, actualMS int64) int64 {
	if cost <= 0 || amountMS <= 0 {
		return 0
	}
	d := float64(actualMS-amountMS) * float64(cost) / float64(amountMS)
	return int64(math.Max(math.Min(math.Floor(d), math.MaxInt64/4), -math.MaxInt64/4))
}

// Point says that CumMS of the waiting work has keys up to Key.
type Point struct {
	Key   int64 `json:"k"`
	CumMS int64 `json:"c"`
}

// Snapshot is a lane's waiting work by key, as it was when the lane's `entered`
// read EnteredMS: a few points of its cumulative distribution.
type Snapshot struct {
	EnteredMS int64   `json:"e"`
	AtMS      int64   `json:"t"`
	Points    []Point `json:"p"`
}

// MaxPoints bounds a snapshot.
const MaxPoints = 64

// Entry is one waiting task.
type Entry struct{ Key, AmountMS int64 }

// Summarise makes a snapshot of a lane's waiting tasks, in any order.
func Summarise(entries []Entry, enteredMS, atMS int64) Snapshot {
	s := Snapshot{EnteredMS: enteredMS, AtMS: atMS}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Key < entries[j].Key })
	var total, cum int64
	for _, e := range entries {
		total += e.AmountMS
	}
	step := total/MaxPoints + 1
	next := step
	for i, e := range entries {
		cum += e.AmountMS
		last := i == len(entries)-1
		// Keys that are equal belong to one point.
		if last || cum >= next && entries[i+1].Key != e.Key {
			s.Points = append(s.Points, Point{e.Key, cum})
			next = cum + step
		}
	}
	return s
}

// Before is at least the waiting work of the snapshot whose keys are not above
// key: between two points the later one counts whole, so it is never too little.
func (s *Snapshot) Before(key int64) int64 {
	i := sort.Search(len(s.Points), func(i int) bool { return s.Points[i].Key >= key })
	if i == len(s.Points) {
		if i == 0 {
			return 0
		}
		return s.Points[i-1].CumMS
	}
	return s.Points[i].CumMS
}

// Ahead is the work that stands before a key in a lane with work queued in all:
// what the snapshot has before it, what is queued for a slot already, and
// everything that entered since the snapshot.
func (s *Snapshot) Ahead(key, workMS, inSlotsMS, enteredMS int64) int64 {
	if s == nil || enteredMS < s.EnteredMS {
		return workMS
	}
	return min(workMS, s.Before(key)+inSlotsMS+enteredMS-s.EnteredMS)
}

// Encode is the snapshot as it is stored.
func (s *Snapshot) Encode() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic("fair: " + err.Error()) // whole numbers
	}
	return b
}

// Decode reads a stored snapshot.
func Decode(b []byte) (*Snapshot, error) {
	s := new(Snapshot)
	if err := json.Unmarshal(b, s); err != nil {
		return nil, err
	}
	return s, nil
}

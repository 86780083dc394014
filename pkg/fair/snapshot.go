package fair

import (
	"cmp"
	"encoding/json"
	"slices"
	"sort"
)

// Point says that CumMS of the waiting work has keys up to Key.
type Point struct {
	Key   int64 `json:"k"`
	CumMS int64 `json:"c"`
}

// Points is a part of a backlog by key: a few points of its cumulative
// distribution, in order.
type Points []Point

// Group is the parked work of one tenant, which is at its max_active.
type Group struct {
	Tenant string `json:"n"`
	Points Points `json:"p"`
}

// Snapshot is a lane's waiting work by key, as it was when the lane's `entered`
// read EnteredMS.
type Snapshot struct {
	EnteredMS int64 `json:"e"`
	AtMS      int64 `json:"t"`
	Virtual   int64 `json:"v"` // the lane's virtual time then
	// UnplacedMS is waiting work that the lane counts and the index did not show, and
	// that of parked tenants beyond MaxGroups: it counts before every key.
	UnplacedMS int64 `json:"u,omitempty"`
	// Stretch is the work that the lane began lately over what of it was of its backlog, in thousandths, 1000 to
	// MaxStretch: how much later tasks with smaller keys take of it. 0 is unknown.
	Stretch int64   `json:"s,omitempty"`
	Points  Points  `json:"p"`
	Parked  []Group `json:"g,omitempty"` // the tenants with the most parked work
	LowMS   int64   `json:"l,omitempty"` // that slots are kept for, whatever stands before it
}

// Bounds of a snapshot: about 6 KB as it is stored.
const (
	MaxPoints = 64 // of what waits in the order
	MaxGroups = 12
	maxParked = 10 // points of a group

	MaxStretch = 3000
)

// Entry is one waiting task. Parked names its tenant if it is parked.
type Entry struct {
	Key, AmountMS int64
	Parked        string
}

// Summarise makes a snapshot of a lane's waiting tasks, in any order. waitingMS
// is the waiting work that the lane counts, when its `entered` read enteredMS and
// its virtual time virtual.
func Summarise(entries []Entry, waitingMS, enteredMS, virtual, atMS int64) Snapshot {
	s := Snapshot{EnteredMS: enteredMS, Virtual: virtual, AtMS: atMS}
	var total int64
	parked, work := map[string][]Entry{}, map[string]int64{}
	for _, e := range entries {
		total += e.AmountMS
		if e.Parked != "" {
			parked[e.Parked] = append(parked[e.Parked], e)
			work[e.Parked] += e.AmountMS
		}
	}
	s.UnplacedMS = max(waitingMS-total, 0)
	heaviest := make([]string, 0, len(work))
	for tenant := range work {
		heaviest = append(heaviest, tenant)
	}
	slices.SortFunc(heaviest, func(a, b string) int { return cmp.Or(cmp.Compare(work[b], work[a]), cmp.Compare(a, b)) })
	heaviest = heaviest[:min(len(heaviest), MaxGroups)]
	own := map[string]bool{}
	for _, tenant := range heaviest {
		own[tenant] = true
		s.Parked = append(s.Parked, Group{tenant, points(parked[tenant], maxParked)})
	}
	var rest []Entry
	for _, e := range entries {
		switch {
		case e.Parked == "":
			rest = append(rest, e)
		case !own[e.Parked]:
			s.UnplacedMS += e.AmountMS
		}
	}
	s.Points = points(rest, MaxPoints)
	return s
}

// points are at most n points, dense at the head of the order and further and
// further apart behind it: what stands before a key is then wrong by a share of itself, not of
// the whole backlog, and it is the short waits that must be known well.
func points(entries []Entry, n int) Points {
	sort.Slice(entries, func(i, j int) bool { return entries[i].Key < entries[j].Key })
	var total int64
	for _, e := range entries {
		total += e.AmountMS
	}
	// With steps of at least total/512 and of an eighth of what stands before: 8
	// points to total/64, 36 from there on. Others in proportion.
	least, part := total/(8*int64(n))+1, max(8*int64(n)/MaxPoints, 1)
	var out Points
	var cum, next int64
	next = least
	for i, e := range entries {
		cum += e.AmountMS
		last := i == len(entries)-1
		// Keys that are equal belong to one point.
		if last || cum >= next && entries[i+1].Key != e.Key {
			out = append(out, Point{e.Key, cum})
			next = cum + max(least, cum/part)
		}
	}
	return out
}

// Before is at least the work whose keys are not above key: between two points
// the later one counts whole.
func (p Points) Before(key int64) int64 {
	i := sort.Search(len(p), func(i int) bool { return p[i].Key >= key })
	switch {
	case i < len(p):
		return p[i].CumMS
	case i == 0:
		return 0
	}
	return p[i-1].CumMS
}

// until is at most the work whose keys are not above key.
func (p Points) until(key int64) int64 {
	i := sort.Search(len(p), func(i int) bool { return p[i].Key > key })
	if i == 0 {
		return 0
	}
	return p[i-1].CumMS
}

// Before is at least the waiting work of the snapshot whose keys are not above
// key, parked or not, when the lane's virtual time is virtual: if that has moved on, what
// stood in the order before it has begun.
func (s *Snapshot) Before(key, virtual int64) int64 {
	sum := s.UnplacedMS + s.Points.Before(key)
	if virtual > s.Virtual { // something began since, before which all of these did
		sum -= min(s.Points.until(virtual-1), s.Points.Before(key))
	}
	for i := range s.Parked {
		sum += s.Parked[i].Points.Before(key)
	}
	return sum
}

// Now is a lane as an admission's copy has it.
type Now struct {
	WorkMS    int64 // queued in all
	InSlotsMS int64 // of this, of tasks that have a slot
	EnteredMS int64
	Virtual   int64
	BehindMS  int64 // known to have entered since the snapshot with a larger key
}

// Ahead is the work that stands before a key: what the snapshot has before it, what is
// queued for a slot already, and everything that entered since the snapshot and
// is not known to stand behind it.
func (s *Snapshot) Ahead(key int64, l Now) int64 {
	if s == nil || l.EnteredMS < s.EnteredMS {
		return max(l.WorkMS, 0)
	}
	return max(min(l.WorkMS, s.Before(key, l.Virtual)+l.InSlotsMS+max(l.EnteredMS-s.EnteredMS-l.BehindMS, 0)), 0)
}

// Encode is the snapshot as it is stored.
func (s *Snapshot) Encode() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic("fair: " + err.Error()) // whole numbers and names
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

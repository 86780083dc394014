package intake

import "slices"

// ownEntry is work that this instance made wait in a lane.
type ownEntry struct {
	key, amountMS int64
	entered       int64 // of the lane, by then
}

// maxOwn bounds the entries remembered of a lane.
const maxOwn = 4096

// enter remembers where a task of ours stands. What entered a lane since its snapshot
// counts as standing before every key, but for what we know better.
func (s *Service) enter(lane string, e ownEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.copies.own[lane]
	if snap := s.copies.snaps[lane].Snapshot; snap != nil {
		list = slices.DeleteFunc(list, func(o ownEntry) bool { return o.entered-o.amountMS < snap.EnteredMS })
	}
	if len(list) >= maxOwn {
		list = slices.Delete(list, 0, maxOwn/2)
	}
	s.copies.own[lane] = append(list, e)
}

// ownBehind is the work of ours that entered a lane between two readings of its
// `entered` and stands behind a key.
func (s *Service) ownBehind(lane string, key, after, until int64) (sum int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.copies.own[lane] {
		if o.key > key && o.entered-o.amountMS >= after && o.entered <= until {
			sum += o.amountMS
		}
	}
	return sum
}

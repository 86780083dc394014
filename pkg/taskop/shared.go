package taskop

import "github.com/lanekeeper/lanekeeper/pkg/op"

// A lane that takes tasks of other lanes (the retry lane) keeps any one of them
// from holding more than half of its slots. Conditions cannot count entries, so
// whoever gives a slot counts on the item as it was read, and the write holds
// only if no other slot was given since.

// OriginCap is how many slots of the lane the tasks of one other lane may hold:
// half, rounded up.
func (l *Lane) OriginCap() int64 { return (l.Slots + 1) / 2 }

// OriginFull says whether the lane of origin holds its part of the slots. It is
// never full for tasks of the lane's own ("").
func (l *Lane) OriginFull(origin string) bool {
	if origin == "" {
		return false
	}
	var n int64
	for _, o := range l.Tasks {
		if o.Origin == origin {
			n++
		}
	}
	return n >= l.OriginCap()
}

// shared makes a write that gives a slot to a task of another lane hold only
// on the lane as it was read.
func shared(w op.Write, l *Lane, o Open) op.Write {
	if o.Origin == "" {
		return w
	}
	cond, _ := w.Cond.(op.All)
	w.Cond = append(append(op.All{}, cond...), op.Equals(nShared, l.Shared))
	w.Changes = append(w.Changes, op.SetN(nShared, l.Shared+1))
	return w
}

// EnterDueSlot takes a free slot for a retry whose time has come, in the lane
// as it was read.
func EnterDueSlot(l *Lane, o Open) op.Write { return shared(EnterSlot(l.Name, o, nil), l, o) }

// ReleaseSlotOf takes a free slot for a waiting task in the lane as it was read.
func ReleaseSlotOf(l *Lane, o Open, parked bool) op.Write {
	return shared(ReleaseSlot(l.Name, o, parked), l, o)
}

// EnterDue counts a retry whose time has come and that has to wait, also while
// slots are free that others may have only.
func EnterDue(lane string, amountMS int64) op.Write {
	return once(laneUpdate("lane.enter_due", lane, nil, op.Add(nReady, 1), op.Add(nWork, amountMS), op.Add(nEntered, amountMS)))
}

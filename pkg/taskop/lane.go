package taskop

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// Attributes of a lane's item.
const (
	nSlots   = "slots"
	nCut     = "cut" // +1 whenever slots are lowered or the lane is paused
	nOpen    = "open"
	nReady   = "ready"
	nParked  = "parked"
	nWork    = "work"
	nEntered = "entered"
	nVirtual = "v"
	nPaused  = "paused"
	nEpoch   = "ep"
	nShared  = "oq" // +1 whenever a slot is given to a task of another lane

	queuedPrefix  = "q#"
	runningPrefix = "r#"
)

// Open is one open task as the lane item names it.
type Open struct {
	ID, Class, Bucket, Tenant string
	SinceMS                   int64 // running: start of the attempt; queued: when the slot was taken
	AmountMS                  int64
	Running                   bool
	Origin                    string // the lane that admitted it, where that is another
	Low                       bool   // see task.Task
}

const lowMark = "low"

func (o Open) value() op.Value {
	parts := []string{o.Class, o.Bucket, o.Tenant, strconv.FormatInt(o.SinceMS, 10), strconv.FormatInt(o.AmountMS, 10)}
	if o.Origin != "" || o.Low {
		parts = append(parts, o.Origin)
	}
	if o.Low {
		parts = append(parts, lowMark)
	}
	return op.S(strings.Join(parts, "|"))
}

// OpenOf is the entry of a task in the lane that holds it.
func OpenOf(t *task.Task, sinceMS int64) Open {
	return Open{ID: t.ID, Class: t.Class, Bucket: t.Bucket, Tenant: t.Tenant, SinceMS: sinceMS, AmountMS: t.AmountMS, Origin: origin(t.Lane, t.AtLane),
		Low: t.Low && t.AtLane == t.Lane}
}

// LowHeld is how many slots tasks of low priority hold of those kept for them.
func (l *Lane) LowHeld() (n int) {
	for _, o := range l.Tasks {
		if o.Low {
			n++
		}
	}
	return n
}

func origin(lane, atLane string) string {
	if lane == atLane {
		return ""
	}
	return lane
}

// Lane is a lane's item: the snapshot that admission predicts from, and the
// gate that its guard is checked on.
type Lane struct {
	Name                              string
	Exists                            bool
	Slots, Cut, Open, Ready, Parked   int64
	WorkMS, EnteredMS, Virtual, Epoch int64
	Shared                            int64 // how often a slot went to a task of another lane
	Paused                            bool
	Halted                            []string // classes whose releases are stopped
	Tasks                             []Open   // queued and running, by id
}

// Empty says whether nothing is open or waiting.
func (l *Lane) Empty() bool { return l.Open == 0 && l.Ready == 0 && l.Parked == 0 && l.WorkMS == 0 }

// DecodeLane reads a lane item; a missing one (nil) is empty and does not exist.
func DecodeLane(name string, it op.Item) (Lane, error) {
	l := Lane{
		Name: name, Exists: it != nil,
		Slots: it.Int(nSlots), Cut: it.Int(nCut), Open: it.Int(nOpen), Ready: it.Int(nReady), Parked: it.Int(nParked),
		WorkMS: it.Int(nWork), EnteredMS: it.Int(nEntered), Virtual: it.Int(nVirtual), Epoch: it.Int(nEpoch), Shared: it.Int(nShared), Paused: it.Has(nPaused), Halted: decodeHalted(it.Str(nHalted)),
	}
	for attr, v := range it {
		id, running := strings.CutPrefix(attr, runningPrefix)
		if !running {
			var queued bool
			if id, queued = strings.CutPrefix(attr, queuedPrefix); !queued {
				continue
			}
		}
		parts := strings.Split(v.Str(), "|")
		from, low := "", false
		if len(parts) == 7 && parts[6] == lowMark {
			low, parts = true, parts[:6]
		}
		if len(parts) == 6 {
			from, parts = parts[5], parts[:5]
		}
		if len(parts) != 5 {
			return l, fmt.Errorf("taskop: lane %s: bad entry %s = %s", name, attr, v)
		}
		o := Open{ID: id, Class: parts[0], Bucket: parts[1], Tenant: parts[2], Running: running, Origin: from, Low: low}
		var err1, err2 error
		o.SinceMS, err1 = strconv.ParseInt(parts[3], 10, 64)
		o.AmountMS, err2 = strconv.ParseInt(parts[4], 10, 64)
		if err1 != nil || err2 != nil {
			return l, fmt.Errorf("taskop: lane %s: bad entry %s = %s", name, attr, v)
		}
		l.Tasks = append(l.Tasks, o)
	}
	// In one order, so that whoever works through them can be replayed.
	slices.SortFunc(l.Tasks, func(a, b Open) int {
		if c := strings.Compare(a.ID, b.ID); c != 0 || a.Running == b.Running {
			return c
		}
		if a.Running {
			return 1
		}
		return -1
	})
	return l, nil
}

func laneUpdate(name, lane string, cond op.Cond, changes ...op.Change) op.Write {
	return op.Write{Name: name, Key: LaneKey(lane), Action: op.Update, Cond: cond, Changes: changes}
}

func once(w op.Write) op.Write {
	w.Once = true
	return w
}

// CreateLane puts a lane's item if there is none.
func CreateLane(lane string, slots int64) op.Write {
	return op.Write{Name: "lane.create", Key: LaneKey(lane), Action: op.Put, Cond: op.ItemMissing, Item: op.Item{
		nSlots: op.N(slots), nCut: op.N(0), nOpen: op.N(0), nReady: op.N(0), nParked: op.N(0),
		nWork: op.N(0), nEntered: op.N(0), nVirtual: op.N(0),
	}}
}

// SetSlots changes a lane's slots from the number it was read with; lowering
// them raises cut, which voids every decision made on an older copy.
func SetSlots(l *Lane, slots int64) op.Write {
	cond := op.All{op.Is(nSlots, op.N(l.Slots)), op.Is(nCut, op.N(l.Cut))}
	changes := []op.Change{op.SetN(nSlots, slots)}
	if slots < l.Slots {
		changes = append(changes, op.SetN(nCut, l.Cut+1))
	}
	return laneUpdate("lane.slots", l.Name, cond, changes...)
}

// PauseLane stops admission and release; raising cut voids older copies.
func PauseLane(l *Lane, paused bool) op.Write {
	cond := op.Is(nCut, op.N(l.Cut))
	if !paused {
		return laneUpdate("lane.resume", l.Name, cond, op.Remove(nPaused))
	}
	return laneUpdate("lane.pause", l.Name, cond, op.SetN(nPaused, 1), op.SetN(nCut, l.Cut+1))
}

// Guard is the part of an admission's decision that must still hold when the
// lane is taken.
type Guard struct {
	EnteredMaxMS int64
	Cut          int64
}

func (g Guard) cond() op.All {
	return op.All{op.Cmp{Attr: nEntered, Op: op.Le, Value: op.N(g.EnteredMaxMS)}, op.Is(nCut, op.N(g.Cut))}
}

// freeSlot holds when the lane has a slot that nobody waits for.
func freeSlot(id string) op.All {
	return op.All{op.CmpAttr{Attr: nOpen, Op: op.Lt, Other: nSlots}, op.Cmp{Attr: nReady, Op: op.Le, Value: op.N(0)}, op.Missing{Attr: queuedPrefix + id}, op.Missing{Attr: runningPrefix + id}}
}

// mustWait holds when a task has to stand in the ready order.
func mustWait() op.Cond {
	return op.Any{op.CmpAttr{Attr: nOpen, Op: op.Ge, Other: nSlots}, op.Cmp{Attr: nReady, Op: op.Gt, Value: op.N(0)}}
}

// EnterSlot takes a free slot for a task that becomes queued. A nil guard is
// for work that was admitted before (due retries).
func EnterSlot(lane string, o Open, g *Guard) op.Write {
	cond := freeSlot(o.ID)
	if g != nil {
		cond = append(g.cond(), cond...)
	} else {
		cond = append(cond, op.Missing{Attr: nPaused}) // a guard knows of a pause by cut
	}
	return laneUpdate("lane.enter_slot", lane, cond, op.Add(nOpen, 1), op.Add(nWork, o.AmountMS), op.Add(nEntered, o.AmountMS),
		op.Set(queuedPrefix+o.ID, o.value()))
}

// Advance makes a lane write by which a task begins move the virtual time on,
// unless the lane was seen beyond it already. The time never goes back: where the lane is
// beyond it meanwhile the write is refused, and is to be made as it was, see Beyond.
func Advance(w op.Write, seen, virtual int64) op.Write {
	if virtual > seen {
		cond, _ := w.Cond.(op.All)
		w.Cond = append(append(op.All{}, cond...), op.AtMost(nVirtual, virtual))
		w.Changes = append(append([]op.Change{}, w.Changes...), op.SetN(nVirtual, virtual))
	}
	return w
}

// Beyond says whether a lane item, as it was met, is beyond a virtual time, so that a
// write that was to move it on failed, perhaps for no other reason.
func Beyond(met op.Item, virtual int64) bool { return met.Int(nVirtual) > virtual }

// EnterReady counts a task that has to wait.
func EnterReady(lane string, amountMS int64, g *Guard) op.Write {
	cond := op.All{mustWait()}
	if g != nil {
		cond = append(g.cond(), cond...)
	}
	return once(laneUpdate("lane.enter_ready", lane, cond, op.Add(nReady, 1), op.Add(nWork, amountMS), op.Add(nEntered, amountMS)))
}

// LeaveSlot gives back the slot of a queued task that was not accepted after
// all, was cancelled or expired. What entered stays counted: it only grows.
func LeaveSlot(lane string, o Open) op.Write {
	return laneUpdate("lane.leave_slot", lane, op.Exists{Attr: queuedPrefix + o.ID},
		op.Add(nOpen, -1), op.Add(nWork, -o.AmountMS), op.Remove(queuedPrefix+o.ID))
}

// LeaveReady uncounts a waiting task that was not accepted after all.
func LeaveReady(lane string, amountMS int64, parked bool) op.Write {
	attr := waitingAttr(parked)
	cond := op.All{op.Cmp{Attr: attr, Op: op.Ge, Value: op.N(1)}, op.Cmp{Attr: nWork, Op: op.Ge, Value: op.N(amountMS)}}
	return once(laneUpdate("lane.leave_ready", lane, cond, op.Add(attr, -1), op.Add(nWork, -amountMS)))
}

// LeaveWaiting uncounts a waiting task that was cancelled or expired. Where the
// lane names it as queued, a release of it stopped half-way and has uncounted it;
// the entry is the check's to remove then.
func LeaveWaiting(lane, id string, amountMS int64, parked bool) op.Write {
	w := LeaveReady(lane, amountMS, parked)
	w.Name, w.Cond = "lane.leave_waiting", op.All{w.Cond, op.Missing{Attr: queuedPrefix + id}}
	return w
}

func waitingAttr(parked bool) string {
	if parked {
		return nParked
	}
	return nReady
}

// ReleaseSlot takes a free slot for a waiting task.
func ReleaseSlot(lane string, o Open, parked bool) op.Write {
	attr := waitingAttr(parked)
	cond := op.All{op.CmpAttr{Attr: nOpen, Op: op.Lt, Other: nSlots}, op.Cmp{Attr: attr, Op: op.Ge, Value: op.N(1)}, op.Missing{Attr: nPaused},
		op.Missing{Attr: queuedPrefix + o.ID}, op.Missing{Attr: runningPrefix + o.ID}}
	return laneUpdate("lane.release_slot", lane, cond, op.Add(nOpen, 1), op.Add(attr, -1), op.Set(queuedPrefix+o.ID, o.value()))
}

// UnreleaseSlot gives back what ReleaseSlot took, when the row was not
// released after all. When the row still waits (because the store failed), it
// is counted again; when somebody else took it, they uncounted it too.
func UnreleaseSlot(lane string, o Open, parked bool) op.Write {
	return laneUpdate("lane.unrelease_slot", lane, op.Exists{Attr: queuedPrefix + o.ID},
		op.Add(nOpen, -1), op.Add(waitingAttr(parked), 1), op.Remove(queuedPrefix+o.ID))
}

// BeginRun turns a queued task's slot into a running one.
func BeginRun(lane string, o Open) op.Write {
	return laneUpdate("lane.begin_run", lane, op.Exists{Attr: queuedPrefix + o.ID},
		op.Add(nWork, -o.AmountMS), op.Remove(queuedPrefix+o.ID), op.Set(runningPrefix+o.ID, o.value()))
}

// HandOverSlot gives the slot of an ended attempt to the next task.
func HandOverSlot(lane, endedID string, next Open, parked bool) op.Write {
	cond := op.All{op.Exists{Attr: runningPrefix + endedID}, op.Missing{Attr: runningPrefix + next.ID}, op.Missing{Attr: queuedPrefix + next.ID}}
	if endedID == next.ID { // a task that goes on at once in its own slot
		cond = cond[:1]
		return once(laneUpdate("lane.hand_over", lane, cond, op.Add(waitingAttr(parked), -1), op.Add(nWork, -next.AmountMS),
			op.Set(runningPrefix+next.ID, next.value())))
	}
	return laneUpdate("lane.hand_over", lane, cond, op.Add(waitingAttr(parked), -1), op.Add(nWork, -next.AmountMS),
		op.Remove(runningPrefix+endedID), op.Set(runningPrefix+next.ID, next.value()))
}

// EndRun gives back the slot of an ended attempt. With ifNothingReady the slot
// is only given back while nobody waits for it.
func EndRun(lane, id string, ifNothingReady bool) op.Write {
	cond := op.All{op.Exists{Attr: runningPrefix + id}}
	if ifNothingReady {
		cond = append(cond, op.Cmp{Attr: nReady, Op: op.Le, Value: op.N(0)})
	}
	return laneUpdate("lane.end_run", lane, cond, op.Add(nOpen, -1), op.Remove(runningPrefix+id))
}

// GoOn counts an ended attempt's task as waiting again (Continue, hand-back)
// in the lane that holds it. Its slot is not given back by this.
func GoOn(lane string, amountMS int64) op.Write {
	return once(laneUpdate("lane.go_on", lane, nil, op.Add(nReady, 1), op.Add(nWork, amountMS), op.Add(nEntered, amountMS)))
}

// ParkSlot gives back the slot of a queued task whose tenant is at max_active.
func ParkSlot(lane, id string) op.Write {
	return laneUpdate("lane.park_slot", lane, op.Exists{Attr: queuedPrefix + id},
		op.Add(nOpen, -1), op.Add(nParked, 1), op.Remove(queuedPrefix+id))
}

// ParkReady moves a waiting task out of the ready count; Unpark moves it back.
func ParkReady(lane string) op.Write {
	return once(laneUpdate("lane.park_ready", lane, op.Cmp{Attr: nReady, Op: op.Ge, Value: op.N(1)}, op.Add(nReady, -1), op.Add(nParked, 1)))
}

// Unpark moves a parked task back into the ready count.
func Unpark(lane string) op.Write {
	return once(laneUpdate("lane.unpark", lane, op.Cmp{Attr: nParked, Op: op.Ge, Value: op.N(1)}, op.Add(nParked, -1), op.Add(nReady, 1)))
}

// Count is what an aggregator's count of a lane found.
type Count struct{ Open, Ready, Parked, WorkMS int64 }

// Counts are what the item says.
func (l *Lane) Counts() Count { return Count{l.Open, l.Ready, l.Parked, l.WorkMS} }

// Recount corrects a lane's counts to what was counted, if the item is still as
// it was read and no later epoch of the aggregator has corrected it.
func Recount(l *Lane, c Count, epoch int64) op.Write {
	cond := op.All{op.Is(nEntered, op.N(l.EnteredMS)), op.Is(nReady, op.N(l.Ready)), op.Is(nParked, op.N(l.Parked)),
		op.Is(nWork, op.N(l.WorkMS)), op.Is(nOpen, op.N(l.Open)), op.AtMost(nEpoch, epoch)}
	changes := []op.Change{op.SetN(nOpen, c.Open), op.SetN(nReady, c.Ready), op.SetN(nParked, c.Parked), op.SetN(nWork, c.WorkMS), op.SetN(nEpoch, epoch)}
	if c.WorkMS > l.WorkMS { // work that copies did not know of must void them
		changes = append(changes, op.SetN(nEntered, l.EnteredMS+c.WorkMS-l.WorkMS))
	}
	return laneUpdate("lane.recount", l.Name, cond, changes...)
}

// AdoptOpen names an open task that the lane item does not know of, and counts
// its slot; open may then exceed slots for a while.
func AdoptOpen(lane string, o Open) op.Write {
	cond := op.All{op.Missing{Attr: queuedPrefix + o.ID}, op.Missing{Attr: runningPrefix + o.ID}}
	changes := []op.Change{op.Add(nOpen, 1)}
	if o.Running {
		changes = append(changes, op.Set(runningPrefix+o.ID, o.value()))
	} else {
		changes = append(changes, op.Add(nWork, o.AmountMS), op.Add(nEntered, o.AmountMS), op.Set(queuedPrefix+o.ID, o.value()))
	}
	return laneUpdate("lane.adopt", lane, cond, changes...)
}

// QueuedEntry is the attribute that names a queued task.
func QueuedEntry(id string) string { return queuedPrefix + id }

// QueuedAmount is the work by which a lane item counts a task that it names as
// queued, ms; -1 when it does not.
func QueuedAmount(it op.Item, id string) int64 {
	parts := strings.Split(it.Str(QueuedEntry(id)), "|")
	if len(parts) < 5 {
		return -1
	}
	n, err := strconv.ParseInt(parts[4], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// RunningEntry is the attribute that names a running task.
func RunningEntry(id string) string { return runningPrefix + id }

// Cut is what a lane item says of how often its slots were lowered, or it was
// paused, or classes were halted in it.
func Cut(it op.Item) int64 { return it.Int(nCut) }

// Entered is what a lane item says of all work that ever came in, ms.
func Entered(it op.Item) int64 { return it.Int(nEntered) }

// PutSnapshot replaces a lane's snapshot of waiting work by key.
func PutSnapshot(lane string, body []byte) op.Write {
	return op.Write{Name: "snapshot.put", Key: SnapshotKey(lane), Action: op.Put, Item: op.Item{sBody: op.B(body)}}
}

// SnapshotBody is the body of a snapshot item, nil when there is none.
func SnapshotBody(it op.Item) []byte { return it.Bytes(sBody) }

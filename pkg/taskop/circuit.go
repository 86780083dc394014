package taskop

import (
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// nHalted lists the classes whose releases in the lane are stopped, in order.
const nHalted = "hc"

// Halts says whether releases of a class are stopped in the lane.
func (l *Lane) Halts(class string) bool { return slices.Contains(l.Halted, class) }

func decodeHalted(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// HaltClasses stops releases of exactly these classes in the lane as it was
// read. Raising cut voids decisions made on copies that do not know of it.
func HaltClasses(l *Lane, classes []string) op.Write {
	change := op.Remove(nHalted)
	if len(classes) > 0 {
		change = op.SetS(nHalted, strings.Join(classes, ","))
	}
	return laneUpdate("lane.halt", l.Name, op.Is(nCut, op.N(l.Cut)), change, op.SetN(nCut, l.Cut+1))
}

// EnterHalted counts a task of a class that is halted: it waits, also while
// slots are free.
func EnterHalted(lane string, amountMS int64, g *Guard) op.Write {
	return once(laneUpdate("lane.enter_halted", lane, g.cond(), op.Add(nReady, 1), op.Add(nWork, amountMS), op.Add(nEntered, amountMS)))
}

// haltedOwner stands where a parked task's tenant stands: no tenant's name
// begins like that.
const haltedOwner = "~"

// HaltedOwner is under whom a halted class's tasks are parked.
func HaltedOwner(class string) string { return haltedOwner + class }

// HaltedClass is the class of a HaltedOwner.
func HaltedClass(owner string) (class string, ok bool) { return strings.CutPrefix(owner, haltedOwner) }

// HaltRow takes a waiting task of a halted class out of the order.
func HaltRow(t *task.Task, dueMS int64) op.Write {
	back := *t
	back.Parked = false
	_, rs := readyKeys(&back)
	changes := append([]op.Change{op.SetS(readyKey, ParkedPartition(t.AtLane)), op.SetS(readySort, parkedSort(HaltedOwner(t.Class), rs))}, dueBy(t, dueMS)...)
	return rowUpdate("halt.row", t, nil, changes...)
}

// CircuitsKey is the key of the aggregator's notes on halted classes.
func CircuitsKey() op.Key { return op.Key{PK: "B", SK: "b"} }

// PutCircuits replaces them, unless a later epoch of the aggregator has.
func PutCircuits(body []byte, epoch int64) op.Write {
	return op.Write{Name: "circuits.put", Key: CircuitsKey(), Action: op.Put,
		Cond: op.Any{op.ItemMissing, op.Cmp{Attr: gEpoch, Op: op.Le, Value: op.N(epoch)}},
		Item: op.Item{sBody: op.B(body), gEpoch: op.N(epoch)}}
}

package taskop

import (
	"github.com/lanekeeper/lanekeeper/pkg/fair"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// Places of the writes in the transactions of this package.
const (
	OnRow    = 0
	OnLedger = 1
)

// Accept puts a new task's row and takes its reservation. keepMS is how long what is over is kept at
// least, 0: for good; a payload beside the row is told with it when it may go.
func Accept(t *task.Task, use LedgerUse, keepMS int64) op.Tx {
	writes := []op.Write{
		{Name: "accept.row", Key: RowKey(t.Tenant, t.ID), Action: op.Put, Cond: op.ItemMissing, Item: nil},
		acceptLedger("accept.ledger", t.Tenant, use),
	}
	row := *t
	if len(t.Payload) > InlineMax {
		writes = append(writes, op.Write{Name: "accept.payload", Key: PayloadKey(t.Tenant, t.ID), Action: op.Put, Item: payloadItem(t, keepMS)})
		row.Payload, row.PayloadBeside = "", true
	}
	writes[OnRow].Item = EncodeRow(&row)
	return op.Tx{Name: "accept", Writes: writes}
}

// Withdraw removes a row that was accepted but whose message could not be
// sent, and releases its reservation, so that the refusal leaves nothing.
func Withdraw(t *task.Task) op.Tx {
	writes := []op.Write{
		{Name: "withdraw.row", Key: RowKey(t.Tenant, t.ID), Action: op.Delete,
			Cond: op.All{op.Is(aState, op.S(string(task.Queued))), op.Is(aGen, op.N(t.Gen)), op.Is(aNonce, op.S(t.Nonce)), op.Missing{Attr: aTold}}},
		refund(moveLedger("withdraw.ledger", t.Tenant, -1, 0, t.AmountMS), t.Lane, -t.TagCost),
	}
	if len(t.Payload) > InlineMax || t.PayloadBeside {
		writes = append(writes, op.Write{Name: "withdraw.payload", Key: PayloadKey(t.Tenant, t.ID), Action: op.Delete})
	}
	return op.Tx{Name: "withdraw", Writes: writes}
}

// KeepRow marks a queued task of which another client is about to be told: its
// submission can no longer be withdrawn.
func KeepRow(t *task.Task) op.Write {
	return rowUpdate("keep.row", t, nil, op.SetN(aTold, 1))
}

// rowUpdate changes a row from the state and generation it was read with. A
// waiting row must also still stand in the list it was read in, the ready order
// or the parked: which of the lane's counts its leaving lowers depends on it.
func rowUpdate(name string, t *task.Task, more op.Cond, changes ...op.Change) op.Write {
	cond := op.All{op.Is(aState, op.S(string(t.State))), op.Is(aGen, op.N(t.Gen))}
	if t.State == task.Waiting {
		rk, _ := readyKeys(t)
		cond = append(cond, op.Is(readyKey, op.S(rk)))
	}
	if more != nil {
		cond = append(cond, more)
	}
	return op.Write{Name: name, Key: RowKey(t.Tenant, t.ID), Action: op.Update, Cond: cond, Changes: changes}
}

// stands holds while a waiting task still stands in the part of the order where it was
// read: who takes it out has to tell its lane which of its counts it leaves.
func stands(t *task.Task) op.Cond {
	if t.State != task.Waiting {
		return nil
	}
	rk, _ := readyKeys(t)
	return op.Is(readyKey, op.S(rk))
}

// dueBy moves the due time only if it must be earlier: an early visit is
// cheap, two index writes are not.
func dueBy(t *task.Task, dueMS int64) []op.Change {
	if t.DueMS != 0 && t.DueMS <= dueMS {
		return nil
	}
	return dueAt(t, dueMS)
}

// dueAt sets the due time, whatever it is: for those who read the row long ago. A
// visit may have moved it on since, to when the lease that ends now would have run out.
func dueAt(t *task.Task, dueMS int64) []op.Change {
	return []op.Change{op.SetS(dueKey, duePartitionOf(t.ID)), op.SetS(dueSort, DueSort(dueMS))}
}

// Lease is the right to run one attempt.
type Lease struct {
	Token   string
	NowMS   int64
	UntilMS int64
}

// Claim begins an attempt of a queued (by message) or waiting (by hand-over)
// task as it was read: running, next generation, lease; the reservation turns
// into an active attempt. It fails on OnLedger when the tenant is at max_active.
func Claim(t *task.Task, l Lease) op.Tx {
	event, name := task.Claim, "claim"
	if t.State == task.Waiting {
		event, name = task.HandOver, "hand_over"
	}
	tr := task.Must(t.State, event)
	changes := []op.Change{
		op.SetS(aState, string(tr.To)), op.SetN(aGen, t.Gen+1), op.SetN(aAttempt, t.Attempt+1),
		op.SetS(aToken, l.Token), op.SetN(aLease, l.UntilMS), op.SetN(aBegun, l.NowMS),
	}
	if t.StartedMS == 0 {
		changes = append(changes, op.SetN(aStarted, l.NowMS))
	}
	if t.State == task.Waiting {
		changes = append(changes, op.Remove(readyKey), op.Remove(readySort))
	}
	// Whatever was read: a wake-up of the task may have died meanwhile.
	changes = append(changes, op.Remove(aDead), op.Remove(aDeadAt))
	if due := claimedDue(t, l); due != t.DueMS {
		changes = append(changes, dueAt(t, due)...)
	}
	return op.Tx{Name: name, Writes: []op.Write{
		rowUpdate(name+".row", t, stands(t), changes...),
		moveLedger(name+".ledger", t.Tenant, int64(tr.Work), int64(tr.Active), t.AmountMS),
	}}
}

// visitMS is how long before its due time, by a worker's clock, a row may be visited: as
// far as clocks are apart.
const visitMS = 5000

// claimedDue is the due time of a claimed task: the end of its lease, or the one it has when that
// is earlier and nobody visits the row yet. A visit between the worker's read and its claim would move
// it far behind the lease; and it would have to move it in any case.
func claimedDue(t *task.Task, l Lease) int64 {
	if t.DueMS > l.NowMS+visitMS && t.DueMS <= l.UntilMS {
		return t.DueMS
	}
	return l.UntilMS
}

// Claimed is the task after a Claim.
func Claimed(t *task.Task, l Lease) *task.Task {
	c := *t
	c.State, c.Gen, c.Attempt, c.LeaseToken, c.LeaseUntilMS, c.AttemptMS = task.Running, t.Gen+1, t.Attempt+1, l.Token, l.UntilMS, l.NowMS
	c.Parked, c.Dead, c.DeadMS = false, 0, 0
	if c.StartedMS == 0 {
		c.StartedMS = l.NowMS
	}
	c.DueMS = claimedDue(t, l)
	return &c
}

// holdsLease is the fence: only the attempt that holds the lease may change a
// running row.
func holdsLease(token string) op.Cond { return op.Is(aToken, op.S(token)) }

// Renew extends the lease of a running attempt and carries its progress (JSON,
// "" leaves it). It moves no index key. The item it returns says whether a
// cancel was requested.
func Renew(t *task.Task, untilMS int64, progress string) op.Write {
	changes := []op.Change{op.SetN(aLease, untilMS)}
	if progress != "" {
		changes = append(changes, op.SetS(aProgress, progress))
	}
	return rowUpdate("renew.row", t, holdsLease(t.LeaseToken), changes...)
}

// End is how an attempt ends: Event is one of Succeed, Fail, Retry, Continue,
// Poison and AbortCancel, After the task as it will be.
type End struct {
	Event task.Event
	After *task.Task
	// LostAtMS is set by the aggregator when it ends an attempt whose lease has
	// run out: the lease must still be older than this.
	LostAtMS int64
	// KeepMS is how long the row is kept at least once the task is over; 0: for good.
	KeepMS int64
	// TagDelta corrects the tenant's finish tag in the admitting lane by what the
	// attempt really took; 0 leaves it.
	TagDelta int64
	// Again, with Continue, gives the task a new place in the fair order: the write
	// then holds only while the finish tag is as it was read. nil leaves its tag.
	Again *Place
}

// Place is what a new place in a lane's fair order rests on: the lane's virtual
// time and the tenant's finish tag there, as they were read.
type Place struct{ Virtual, Finish int64 }

// again gives the task after a Continue a new start tag and charges for it.
func again(w op.Write, t, after *task.Task, e End) op.Write {
	p := *e.Again
	after.Tag = fair.Start(p.Virtual, p.Finish+e.TagDelta)
	attr := finishPrefix + t.Lane
	cond, _ := w.Cond.(op.All)
	w.Cond = append(append(op.All{}, cond...), op.Equals(attr, p.Finish))
	w.Changes = append(w.Changes, op.SetN(attr, after.Tag+t.TagCost))
	return w
}

// Finish ends the running attempt t (as it was claimed).
func Finish(t *task.Task, e End) op.Tx {
	tr := task.Must(task.Running, e.Event)
	after := *e.After
	name := "finish_" + string(e.Event)
	fence := holdsLease(t.LeaseToken)
	if e.LostAtMS != 0 {
		name = "lost_" + string(e.Event)
		fence = op.All{fence, op.Cmp{Attr: aLease, Op: op.Lt, Value: op.N(e.LostAtMS)}}
	}
	if e.Event != task.Succeed && e.Event != task.AbortCancel {
		// A cancel that was requested meanwhile turns any other end into "cancelled".
		fence = op.All{fence, op.Missing{Attr: aCancel}}
	}
	var beside []op.Write
	if len(after.Result) > InlineMax {
		beside = append(beside, op.Write{Name: name + ".result", Key: ResultKey(t.Tenant, t.ID, t.Gen), Action: op.Put, Item: resultItem(after.Result, tr.To, after.FinishedMS, e.KeepMS)})
		after.Result, after.ResultBeside = "", true
	}
	ledger := moveLedger(name+".ledger", t.Tenant, int64(tr.Work), int64(tr.Active), t.AmountMS)
	if e.Event == task.Continue && e.Again != nil && t.Charged() {
		ledger = again(ledger, t, &after, e)
	} else {
		delta := e.TagDelta
		if e.Event == task.Continue && t.Charged() { // it keeps its place, and its next attempt is charged for
			delta += t.TagCost
		}
		ledger = refund(ledger, t.Lane, delta)
	}
	changes := []op.Change{op.SetS(aState, string(tr.To)), op.SetN(aFailures, after.Failures)}
	if after.Same != t.Same {
		changes = append(changes, op.SetN(aSame, after.Same))
	}
	set := func(attr, s string) {
		if s != "" {
			changes = append(changes, op.SetS(attr, s))
		}
	}
	set(aResult, after.Result)
	if after.ResultBeside {
		changes = append(changes, op.SetN(aResBes, 1))
	}
	set(aCheckpt, after.Checkpoint)
	set(aProgress, after.Progress)
	if after.Error != nil {
		set(aError, mustJSON(after.Error))
	} else {
		changes = append(changes, op.Remove(aError))
	}
	set(aHistory, mustJSON(after.Attempts))
	switch tr.To {
	case task.Waiting:
		back := *t
		back.State, back.Tag, back.Parked = task.Waiting, after.Tag, false
		rk, rs := readyKeys(&back)
		changes = append(changes, op.SetS(readyKey, rk), op.SetS(readySort, rs), op.SetN(aTag, after.Tag))
		changes = append(changes, dueAt(t, after.DueMS)...)
	case task.RetryWait:
		changes = append(changes, op.SetN(aNotBef, after.NotBeforeMS))
		changes = append(changes, dueAt(t, after.DueMS)...)
	default: // terminal or quarantined: nothing more is due
		changes = append(changes, op.Remove(dueKey), op.Remove(dueSort))
		if tr.To.Terminal() {
			gone, payload := expiring(name, t, after.FinishedMS, e.KeepMS)
			changes = append(append(changes, op.SetN(aFinished, after.FinishedMS)), gone...)
			beside = append(beside, payload...)
		} else {
			changes = append(changes, quarantined(&after, after.QuarantinedMS)...)
			beside = append(beside, keeping(name, t)...)
		}
	}
	return op.Tx{Name: name, Writes: append([]op.Write{
		rowUpdate(name+".row", t, fence, changes...),
		ledger,
	}, beside...)}
}

func resultItem(result string, to task.State, endMS, keepMS int64) op.Item {
	it := op.Item{aBody: op.S(result)}
	if to.Terminal() && keepMS > 0 {
		it[op.TTL] = op.N(seconds(endMS + keepMS))
	}
	return it
}

// Close ends a task that is not running: cancelled or expired. keepMS is how long its row is kept at least, 0: for good.
func Close(t *task.Task, event task.Event, nowMS, keepMS int64) op.Tx {
	tr := task.Must(t.State, event)
	name := string(event)
	changes := []op.Change{op.SetS(aState, string(tr.To)), op.SetN(aFinished, nowMS), op.Remove(dueKey), op.Remove(dueSort)}
	if event == task.Cancel {
		changes = append(changes, op.SetN(aCancel, 1))
	}
	if t.Held {
		changes = append(changes, op.Remove(aHeld))
	}
	if t.State == task.Waiting || t.State == task.Quarantined {
		changes = append(changes, op.Remove(readyKey), op.Remove(readySort))
	}
	gone, payload := expiring(name, t, nowMS, keepMS)
	writes := []op.Write{rowUpdate(name+".row", t, stands(t), append(changes, gone...)...)}
	if tr.Work != 0 {
		w := moveLedger(name+".ledger", t.Tenant, int64(tr.Work), int64(tr.Active), t.AmountMS)
		if t.Charged() { // for an attempt that never came
			w = refund(w, t.Lane, -t.TagCost)
		}
		writes = append(writes, w)
	}
	return op.Tx{Name: name, Writes: append(writes, payload...)}
}

// RequestCancel asks a running attempt to stop.
func RequestCancel(t *task.Task) op.Write {
	return rowUpdate("cancel_request.row", t, nil, op.SetN(aCancel, 1))
}

// ReleaseRow makes a waiting task queued in the lane that holds it.
func ReleaseRow(t *task.Task, resendMS int64) op.Write {
	tr := task.Must(t.State, task.Release)
	changes := append([]op.Change{op.SetS(aState, string(tr.To)), op.Remove(readyKey), op.Remove(readySort)}, dueBy(t, resendMS)...)
	return rowUpdate("release.row", t, nil, changes...)
}

// ParkRow takes a queued or waiting task out of the order while its tenant is
// at max_active.
func ParkRow(t *task.Task, dueMS int64) op.Write {
	parked := *t
	parked.State, parked.Parked = task.Waiting, true
	rk, rs := readyKeys(&parked)
	var changes []op.Change
	if t.State != task.Waiting {
		changes = append(changes, op.SetS(aState, string(task.Must(t.State, task.Park).To)))
	}
	changes = append(changes, op.SetS(readyKey, rk), op.SetS(readySort, rs))
	changes = append(changes, dueBy(t, dueMS)...)
	return rowUpdate("park.row", t, nil, changes...)
}

// UnparkRow puts a parked task back into the ready order.
func UnparkRow(t *task.Task) op.Write {
	back := *t
	back.Parked = false
	rk, rs := readyKeys(&back)
	return rowUpdate("unpark.row", t, nil, op.SetS(readyKey, rk), op.SetS(readySort, rs))
}

// DueRow brings a retry back when its time has come: queued or waiting in the
// retry lane.
func DueRow(t *task.Task, event task.Event, lane string, dueMS int64) op.Write {
	tr := task.Must(t.State, event)
	changes := []op.Change{op.SetS(aState, string(tr.To)), op.SetS(aAtLane, lane)}
	if tr.To == task.Waiting {
		back := *t
		back.State, back.AtLane, back.Parked = tr.To, lane, false
		rk, rs := readyKeys(&back)
		changes = append(changes, op.SetS(readyKey, rk), op.SetS(readySort, rs))
	}
	if t.Tag != 0 {
		changes = append(changes, op.SetN(aTag, t.Tag))
	}
	changes = append(changes, op.SetS(dueKey, duePartitionOf(t.ID)), op.SetS(dueSort, DueSort(dueMS)))
	return rowUpdate("due.row", t, nil, changes...)
}

// MoveDue moves a visited task's due time to when it must be looked at next.
func MoveDue(t *task.Task, dueMS int64) op.Write {
	return rowUpdate("move_due.row", t, nil, op.SetS(dueKey, duePartitionOf(t.ID)), op.SetS(dueSort, DueSort(dueMS)))
}

// VoidLease ends the lease of a running attempt whose worker is known to be
// gone, so that it is taken up at the next tick.
func VoidLease(t *task.Task, nowMS int64) op.Write {
	return rowUpdate("void_lease.row", t, holdsLease(t.LeaseToken), op.SetN(aLease, nowMS-1), op.SetS(dueKey, duePartitionOf(t.ID)), op.SetS(dueSort, DueSort(nowMS)))
}

// TagDelta is what the tenant's finish tag in the admitting lane moves by when
// the running attempt t ends: what it really took against what was charged for
// it. Retries run in a lane of their own, which nobody has a share in.
func TagDelta(t *task.Task, nowMS int64) int64 {
	if !t.Charged() {
		return 0
	}
	return fair.Correction(t.TagCost, t.AmountMS, max(nowMS-t.AttemptMS, 0))
}

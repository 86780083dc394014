package taskop

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// QuarantinePartition is the ready index's partition of the quarantined tasks
// that a lane had admitted, oldest first. A row stands in it exactly while it is
// quarantined: the keys change with the state.
func QuarantinePartition(lane string) string { return "Q#" + lane }

// QuarantineEntry is what the index says of a quarantined task.
type QuarantineEntry struct {
	AtMS             int64
	ID               string
	Signature, Class string
}

func quarantineSort(t *task.Task) string {
	sig := ""
	if t.Error != nil {
		sig = t.Error.Signature
	}
	return fmt.Sprintf("%013d|%s|%s|%s", max(t.QuarantinedMS, 0), t.ID, sig, t.Class)
}

// ParseQuarantineSort reads a sort key of the quarantine.
func ParseQuarantineSort(s string) (QuarantineEntry, error) {
	parts := strings.Split(s, "|")
	if len(parts) != 4 {
		return QuarantineEntry{}, fmt.Errorf("taskop: bad quarantine sort key %q", s)
	}
	at, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return QuarantineEntry{}, fmt.Errorf("taskop: bad quarantine sort key %q: %w", s, err)
	}
	return QuarantineEntry{AtMS: at, ID: parts[1], Signature: parts[2], Class: parts[3]}, nil
}

// quarantined are the changes that list a row in the quarantine. after is the
// task as it will be.
func quarantined(after *task.Task, atMS int64) []op.Change {
	q := *after
	q.State, q.QuarantinedMS = task.Quarantined, atMS
	rk, rs := readyKeys(&q)
	return []op.Change{op.SetN(aQuarant, atMS), op.SetS(readyKey, rk), op.SetS(readySort, rs)}
}

// Readmit takes a quarantined task, as it was read, back under a new admission:
// again is the task as it will be, queued or waiting, with attempts afresh. Its
// generation rises, so that messages from before are stale.
func Readmit(t, again *task.Task, use LedgerUse) op.Tx {
	changes := []op.Change{
		op.SetS(aState, string(again.State)), op.SetN(aGen, again.Gen), op.SetS(aNonce, again.Nonce),
		op.SetS(aBucket, again.Bucket), op.SetS(aLane, again.Lane), op.SetS(aAtLane, again.AtLane), op.SetN(aAmount, again.AmountMS),
		op.SetN(aAdmit, again.AdmittedMS), op.SetN(aDeadline, again.DeadlineMS), op.SetN(aStartBy, again.StartByMS),
		op.SetN(aWait, again.Prediction.WaitMS), op.SetN(aRatio, again.Prediction.RatioMS), op.SetN(aP50, again.Prediction.P50MS),
		op.SetN(aP95, again.Prediction.P95MS), op.SetN(aMargin, again.Prediction.MargMS),
		op.SetN(aFailures, 0), op.SetN(aSame, 0),
		op.Remove(aError), op.Remove(aQuarant), op.Remove(aNotBef), op.SetN(aTag, again.Tag), op.SetN(aShift, again.ShiftMS), op.SetN(aTagCost, again.TagCost), op.Remove(aDead), op.Remove(aDeadAt), op.Remove(aProbe), op.Remove(op.TTL),
		op.SetS(dueKey, duePartitionOf(t.ID)), op.SetS(dueSort, DueSort(again.DueMS)),
	}
	if f := encodeFigures(again.Prediction.Figures); f != "" {
		changes = append(changes, op.SetS(aFigures, f))
	}
	if again.Held {
		changes = append(changes, op.SetN(aHeld, 1))
	}
	if again.ReplayID != t.ReplayID {
		changes = append(changes, op.SetS(aReplay, again.ReplayID))
	}
	if again.Seq != 0 {
		changes = append(changes, op.SetN(aSeq, again.Seq))
	}
	if again.Low {
		changes = append(changes, op.SetN(aLow, 1))
	} else {
		changes = append(changes, op.Remove(aLow))
	}
	if again.State == task.Waiting {
		rk, rs := readyKeys(again)
		changes = append(changes, op.SetS(readyKey, rk), op.SetS(readySort, rs))
	} else {
		changes = append(changes, op.Remove(readyKey), op.Remove(readySort))
	}
	return op.Tx{Name: "readmit", Writes: []op.Write{
		rowUpdate("readmit.row", t, nil, changes...),
		acceptLedger("readmit.ledger", t.Tenant, use),
	}}
}

// Readmitted is the task t under a new admission; what the admission decides
// (lane, amount, deadline, prediction) is for the caller to fill in.
func Readmitted(t *task.Task) *task.Task {
	again := *t
	again.Gen = t.Gen + 1
	again.Failures, again.Same, again.Error, again.QuarantinedMS, again.NotBeforeMS, again.Tag = 0, 0, nil, 0, 0, 0
	again.Dead, again.DeadMS, again.Parked, again.Held, again.ExpiresMS = 0, 0, false, false, 0
	return &again
}

// DeadDelivery makes a queued task due at once, whose wake-up ended in the
// dead-letter queue, and counts that.
func DeadDelivery(t *task.Task, nowMS int64) op.Write {
	return rowUpdate("dead_delivery.row", t, op.Equals(aDead, t.Dead), op.SetN(aDead, t.Dead+1), op.SetN(aDeadAt, nowMS),
		op.SetS(dueKey, duePartitionOf(t.ID)), op.SetS(dueSort, DueSort(nowMS)))
}

// GiveUpDelivery quarantines a queued task that cannot be delivered.
func GiveUpDelivery(t *task.Task, e *task.Error, nowMS int64) op.Tx {
	tr := task.Must(t.State, task.Undeliverable)
	after := *t
	after.Error = e
	changes := append([]op.Change{op.SetS(aState, string(tr.To)), op.SetS(aError, mustJSON(e)), op.SetN(aDead, t.Dead+1),
		op.Remove(dueKey), op.Remove(dueSort)}, quarantined(&after, nowMS)...)
	return op.Tx{Name: "undeliverable", Writes: append([]op.Write{
		rowUpdate("undeliverable.row", t, op.Equals(aDead, t.Dead), changes...),
		refund(moveLedger("undeliverable.ledger", t.Tenant, int64(tr.Work), int64(tr.Active), t.AmountMS), t.Lane, undeliveredRefund(t)),
	}, keeping("undeliverable", t)...)}
}

func undeliveredRefund(t *task.Task) int64 {
	if !t.Charged() {
		return 0
	}
	return -t.TagCost
}

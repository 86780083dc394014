package taskop

import (
	"encoding/json"
	"fmt"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// Attributes of a task's row. Short, because every update bills the whole row.
const (
	aState    = "st"
	aGen      = "gen"
	aClass    = "cl"
	aBucket   = "bu"
	aLane     = "ln"
	aAtLane   = "al"
	aPriority = "pr"
	aAmount   = "am"
	aSubmit   = "su"
	aDeadline = "dl"
	aStartBy  = "sb"
	aLate     = "lt"
	aStarted  = "sa"
	aFinished = "fi"
	aWait     = "pw"
	aRatio    = "pq"
	aP50      = "p5"
	aP95      = "p9"
	aMargin   = "pm"
	aProbe    = "pb"
	aAttempt  = "at"
	aFailures = "fl"
	aToken    = "lo"
	aLease    = "lu"
	aBegun    = "ab"
	aNotBef   = "nb"
	aTag      = "tg"
	aShift    = "ts"
	aTagCost  = "tc"
	aCancel   = "cr"
	aKeyed    = "ik"
	aReqHash  = "rh"
	aNonce    = "nn"
	aOrdering = "ok"
	aTrace    = "tp"
	aPayload  = "py"
	aPayBes   = "pz"
	aResult   = "re"
	aResBes   = "rz"
	aProgress = "pg"
	aCheckpt  = "cp"
	aError    = "er"
	aHistory  = "hs"
	aTold     = "td" // a second client was told of the task
	aBody     = "v"  // payload and result items
	aAdmit    = "ad"
	aSame     = "sf"
	aQuarant  = "qa"
	aDead     = "dd"
	aDeadAt   = "da"
	aLow      = "lw"
	aFigures  = "df"
	aHeld     = "hd"
	aSeq      = "os"
	aReplay   = "rp"
)

const (
	dueKey, dueSort     = "dk", "ds"
	readyKey, readySort = "rk", "rs"
)

// InlineMax is the largest payload or result kept on the row itself, in bytes;
// larger ones are items of their own, so that updates do not bill them.
const InlineMax = 192

// EncodeRow is the row of a task, index keys included.
func EncodeRow(t *task.Task) op.Item {
	it := op.Item{
		aState: op.S(string(t.State)), aGen: op.N(t.Gen), aClass: op.S(t.Class), aBucket: op.S(t.Bucket),
		aLane: op.S(t.Lane), aAtLane: op.S(t.AtLane), aPriority: op.S(t.Priority), aAmount: op.N(t.AmountMS),
		aSubmit: op.N(t.SubmittedMS), aDeadline: op.N(t.DeadlineMS), aStartBy: op.N(t.StartByMS),
		aWait: op.N(t.Prediction.WaitMS), aRatio: op.N(t.Prediction.RatioMS), aP50: op.N(t.Prediction.P50MS),
		aP95: op.N(t.Prediction.P95MS), aMargin: op.N(t.Prediction.MargMS), aNonce: op.S(t.Nonce),
	}
	num := func(attr string, n int64) {
		if n != 0 {
			it[attr] = op.N(n)
		}
	}
	str := func(attr, s string) {
		if s != "" {
			it[attr] = op.S(s)
		}
	}
	flag := func(attr string, on bool) {
		if on {
			it[attr] = op.N(1)
		}
	}
	num(aStarted, t.StartedMS)
	num(aFinished, t.FinishedMS)
	num(op.TTL, seconds(t.ExpiresMS))
	num(aAttempt, t.Attempt)
	num(aFailures, t.Failures)
	num(aLease, t.LeaseUntilMS)
	num(aBegun, t.AttemptMS)
	num(aNotBef, t.NotBeforeMS)
	num(aTag, t.Tag)
	num(aShift, t.ShiftMS)
	num(aTagCost, t.TagCost)
	num(aAdmit, t.AdmittedMS)
	num(aSame, t.Same)
	num(aQuarant, t.QuarantinedMS)
	num(aDead, t.Dead)
	num(aDeadAt, t.DeadMS)
	str(aFigures, encodeFigures(t.Prediction.Figures))
	str(aToken, t.LeaseToken)
	str(aReplay, t.ReplayID)
	str(aReqHash, t.RequestHash)
	str(aOrdering, t.OrderingKey)
	str(aTrace, t.Traceparent)
	str(aPayload, t.Payload)
	str(aResult, t.Result)
	str(aProgress, t.Progress)
	str(aCheckpt, t.Checkpoint)
	flag(aLate, t.RunLate)
	flag(aLow, t.Low)
	flag(aHeld, t.Held)
	num(aSeq, t.Seq)
	flag(aProbe, t.Prediction.Probe)
	flag(aCancel, t.CancelRequested)
	flag(aKeyed, t.Keyed)
	flag(aPayBes, t.PayloadBeside)
	flag(aResBes, t.ResultBeside)
	if t.Error != nil {
		it[aError] = op.S(mustJSON(t.Error))
	}
	if len(t.Attempts) > 0 {
		it[aHistory] = op.S(mustJSON(t.Attempts))
	}
	if t.State.Live() {
		it[dueKey], it[dueSort] = op.S(duePartitionOf(t.ID)), op.S(DueSort(t.DueMS))
	}
	if t.State == task.Waiting || t.State == task.Quarantined {
		rk, rs := readyKeys(t)
		it[readyKey], it[readySort] = op.S(rk), op.S(rs)
	}
	return it
}

func readyKeys(t *task.Task) (rk, rs string) {
	if t.State == task.Quarantined {
		return QuarantinePartition(t.Lane), quarantineSort(t)
	}
	rs = ReadySort(t.Tag+t.ShiftMS, t.Since(), t.ID, t.AmountMS)
	if from := origin(t.Lane, t.AtLane); from != "" {
		rs = sharedSort(rs, from)
	}
	if t.Held {
		return ParkedPartition(t.AtLane), parkedSort(heldOwner, rs)
	}
	if t.Parked {
		return ParkedPartition(t.AtLane), parkedSort(t.Tenant, rs)
	}
	if t.Low && t.AtLane == t.Lane {
		return LowPartition(t.AtLane), rs
	}
	return ReadyPartition(t.AtLane), rs
}

// DecodeRow is the task in a row. A row this version cannot read is an error.
func DecodeRow(key op.Key, it op.Item) (*task.Task, error) {
	tenant, id, ok := ParseRowKey(key)
	if !ok {
		return nil, fmt.Errorf("taskop: %q is no row key", key.PK)
	}
	t := &task.Task{
		Tenant: tenant, ID: id,
		State: task.State(it.Str(aState)), Gen: it.Int(aGen), Class: it.Str(aClass), Bucket: it.Str(aBucket),
		Lane: it.Str(aLane), AtLane: it.Str(aAtLane), Priority: it.Str(aPriority), AmountMS: it.Int(aAmount),
		SubmittedMS: it.Int(aSubmit), DeadlineMS: it.Int(aDeadline), StartByMS: it.Int(aStartBy), RunLate: it.Has(aLate), Low: it.Has(aLow), Held: it.Has(aHeld), Seq: it.Int(aSeq),
		StartedMS: it.Int(aStarted), FinishedMS: it.Int(aFinished), ExpiresMS: 1000 * it.Int(op.TTL),
		AdmittedMS: it.Int(aAdmit), Same: it.Int(aSame), QuarantinedMS: it.Int(aQuarant), Dead: it.Int(aDead), DeadMS: it.Int(aDeadAt),
		Prediction: task.Prediction{WaitMS: it.Int(aWait), RatioMS: it.Int(aRatio), P50MS: it.Int(aP50),
			P95MS: it.Int(aP95), MargMS: it.Int(aMargin), Probe: it.Has(aProbe), Figures: decodeFigures(it.Str(aFigures))},
		Attempt: it.Int(aAttempt), Failures: it.Int(aFailures), LeaseToken: it.Str(aToken), LeaseUntilMS: it.Int(aLease),
		AttemptMS: it.Int(aBegun), NotBeforeMS: it.Int(aNotBef), Tag: it.Int(aTag), ShiftMS: it.Int(aShift), TagCost: it.Int(aTagCost), CancelRequested: it.Has(aCancel),
		Keyed: it.Has(aKeyed), RequestHash: it.Str(aReqHash), Nonce: it.Str(aNonce), OrderingKey: it.Str(aOrdering),
		Traceparent: it.Str(aTrace), Payload: it.Str(aPayload), PayloadBeside: it.Has(aPayBes),
		Result: it.Str(aResult), ResultBeside: it.Has(aResBes), Progress: it.Str(aProgress), Checkpoint: it.Str(aCheckpt), ReplayID: it.Str(aReplay),
	}
	if !t.State.Valid() {
		return nil, fmt.Errorf("taskop: row %s has unknown state %q", id, t.State)
	}
	if it.Has(dueSort) {
		t.DueMS = ParseDueSort(it.Str(dueSort))
	}
	t.Parked = it.Str(readyKey) == ParkedPartition(t.AtLane)
	if s := it.Str(aError); s != "" {
		t.Error = new(task.Error)
		if err := json.Unmarshal([]byte(s), t.Error); err != nil {
			return nil, fmt.Errorf("taskop: row %s: error: %w", id, err)
		}
	}
	if s := it.Str(aHistory); s != "" {
		if err := json.Unmarshal([]byte(s), &t.Attempts); err != nil {
			return nil, fmt.Errorf("taskop: row %s: attempts: %w", id, err)
		}
	}
	return t, nil
}

// Body is the content of a payload or result item.
func Body(it op.Item) string { return it.Str(aBody) }

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("taskop: " + err.Error()) // our own structs of strings and numbers
	}
	return string(b)
}

// The figures of an admission share an attribute, whose name they would else pay six times.
func encodeFigures(f task.Figures) string {
	if f == (task.Figures{}) {
		return ""
	}
	return fmt.Sprintf("%d,%d,%d,%d,%d,%d", f.Samples, f.QueuedMS, f.Slots, f.TenantQueuedMS, f.TenantLimitMS, f.CopyAgeMS)
}

func decodeFigures(s string) (f task.Figures) {
	if _, err := fmt.Sscanf(s, "%d,%d,%d,%d,%d,%d", &f.Samples, &f.QueuedMS, &f.Slots, &f.TenantQueuedMS, &f.TenantLimitMS, &f.CopyAgeMS); err != nil {
		return task.Figures{} // a row from before there were any
	}
	return f
}

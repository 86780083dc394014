package taskop

import (
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// What is over carries the time from which on the store may delete it (op.TTL), written
// by the write that ends it. Finished tasks with their payloads and results are kept for
// the configured retention, the rest as long as stands here. What is live, quarantined,
// or holds a balance (ledgers, lanes, published estimates, contracts, withdrawn keys)
// carries none.
const (
	dayMS = 86_400_000

	// EvidenceKeptMS is how long the audit, parked messages and replays that are over are kept: 400 days, a year and
	// the time to ask about it.
	EvidenceKeptMS = 400 * dayMS
	// BinsKeptMS is how long the outcomes of a window are kept after its last one: 30 days. They are read for an hour.
	BinsKeptMS = 30 * dayMS
	// SignaturesKeptMS is how long a minute's failures by signature are kept: a day. They are read for some minutes.
	SignaturesKeptMS = dayMS
)

// seconds is a time as the store wants it, never earlier.
func seconds(ms int64) int64 { return (ms + 999) / 1000 }

// expires marks what may be deleted from a time on.
func expires(atMS int64) op.Change { return op.SetN(op.TTL, seconds(atMS)) }

// A payload beside its row may be hundreds of kilobytes, and an update is billed by the whole item. So it gets its time to go
// when it is put: nothing begins after the deadline, and who reads the payload later than its row's retention reads in vain.
// Only what has no such end (late tasks, the quarantine, what came back from there) gets it when it is over.
func payloadTimed(t *task.Task) bool {
	return !t.RunLate && t.AdmittedMS == 0 && t.State != task.Quarantined
}

// payloadItem is a payload that stands beside the row of a task which is accepted; see payloadTimed.
func payloadItem(t *task.Task, keepMS int64) op.Item {
	it := op.Item{aBody: op.S(t.Payload)}
	if keepMS > 0 && payloadTimed(t) {
		it[op.TTL] = op.N(seconds(t.DeadlineMS + keepMS))
	}
	return it
}

// expiring are the changes to a row that is over at a time, and the write that gives its payload the same time to go
// where it has none yet. keepMS 0 keeps both for good.
func expiring(name string, t *task.Task, endMS, keepMS int64) (changes []op.Change, beside []op.Write) {
	if keepMS <= 0 {
		return nil, nil
	}
	x := expires(endMS + keepMS)
	if t.PayloadBeside && !payloadTimed(t) {
		beside = payloadUpdate(name, t, x)
	}
	return []op.Change{x}, beside
}

// keeping takes the time to go off the payload of a task that comes into quarantine, where it may stay.
func keeping(name string, t *task.Task) []op.Write {
	if !t.PayloadBeside || !payloadTimed(t) {
		return nil
	}
	return payloadUpdate(name, t, op.Remove(op.TTL))
}

func payloadUpdate(name string, t *task.Task, change op.Change) []op.Write {
	return []op.Write{{Name: name + ".payload", Key: PayloadKey(t.Tenant, t.ID), Action: op.Update, Changes: []op.Change{change}}}
}

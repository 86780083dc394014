package taskop

import "github.com/lanekeeper/lanekeeper/pkg/op"

// Attributes of a replay.
const (
	wState    = "st"
	wBody     = "v" // what was asked for, JSON
	wMatched  = "nm"
	wAdmitted = "na"
	wRefused  = "nr"
	wAfter    = "cur"
	wPaced    = "pc"
	wDone     = "fin"

	replayRunning = "running"
)

// ReplayPartition holds all replays by id, which is in order of time.
const ReplayPartition = "W"

// RunningReplays is the ready index's partition of the replays that run.
const RunningReplays = "W#run"

// ReplayKey is the key of a replay.
func ReplayKey(id string) op.Key { return op.Key{PK: ReplayPartition, SK: id} }

// Replay is an order to admit quarantined tasks again, and how far it has come.
type Replay struct {
	ID                         string
	State                      string // running, finished, stopped
	Body                       string // JSON
	Matched, Admitted, Refused int64
	After                      string // all before this place of the quarantine is settled
	PacedMS                    int64  // until when its rate is used up, unix ms
	CreatedMS, DoneMS          int64
}

// DecodeReplay reads a replay.
func DecodeReplay(key op.Key, it op.Item) Replay {
	return Replay{ID: key.SK, State: it.Str(wState), Body: it.Str(wBody), Matched: it.Int(wMatched), Admitted: it.Int(wAdmitted),
		Refused: it.Int(wRefused), After: it.Str(wAfter), PacedMS: it.Int(wPaced), CreatedMS: it.Int(kCreated), DoneMS: it.Int(wDone)}
}

// StartReplay puts a running replay and the audit's entry.
func StartReplay(r Replay, audit op.Write) op.Tx {
	return op.Tx{Name: "replay.start", Writes: []op.Write{
		{Name: "replay.start", Key: ReplayKey(r.ID), Action: op.Put, Cond: op.ItemMissing, Item: op.Item{
			wState: op.S(replayRunning), wBody: op.S(r.Body), wMatched: op.N(r.Matched), wAdmitted: op.N(0), wRefused: op.N(0),
			wPaced: op.N(r.CreatedMS), kCreated: op.N(r.CreatedMS), readyKey: op.S(RunningReplays), readySort: op.S(r.ID)}},
		audit,
	}}
}

// TakeReplay counts one more admitted task, in the transaction that admits it: so a
// replay admits no more than its limit whatever dies in between, and nothing once it was
// stopped. r is the replay as it was read, with its rate used up until PacedMS by the task.
func TakeReplay(r Replay, epoch int64) op.Write {
	return op.Write{Name: "replay.take", Key: ReplayKey(r.ID), Action: op.Update,
		Cond:    op.All{op.Is(wState, op.S(replayRunning)), op.Is(wAdmitted, op.N(r.Admitted)), op.AtMost(gEpoch, epoch)},
		Changes: []op.Change{op.SetN(wAdmitted, r.Admitted+1), op.SetN(wPaced, r.PacedMS), op.SetN(gEpoch, epoch)}}
}

// MoveReplay notes how far a replay has come, unless a later epoch of the
// aggregator has taken over. It changes nothing about whether it runs, nor what
// TakeReplay counts.
func MoveReplay(r Replay, epoch int64) op.Write {
	changes := []op.Change{op.SetN(wRefused, r.Refused), op.SetN(wPaced, r.PacedMS), op.SetN(gEpoch, epoch)}
	if r.After != "" {
		changes = append(changes, op.SetS(wAfter, r.After))
	}
	return op.Write{Name: "replay.move", Key: ReplayKey(r.ID), Action: op.Update,
		Cond: op.All{op.ItemExists, op.AtMost(gEpoch, epoch)}, Changes: changes}
}

// EndReplay ends a running replay: finished or stopped.
func EndReplay(id, state string, nowMS int64) op.Write {
	return op.Write{Name: "replay.end", Key: ReplayKey(id), Action: op.Update, Cond: op.Is(wState, op.S(replayRunning)),
		Changes: []op.Change{op.SetS(wState, state), op.SetN(wDone, nowMS), expires(nowMS + EvidenceKeptMS), op.Remove(readyKey), op.Remove(readySort)}}
}

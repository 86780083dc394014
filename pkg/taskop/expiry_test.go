package taskop_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// goneAt is when what ended at laterMS may go, in the store's seconds: never too early.
const goneAt = (laterMS + keepMS + 999) / 1000

// TestWhatIsOverMayGoAndNothingElse: every operation that ends a task gives its row the time
// to go, and a payload beside it that was given none at its acceptance; one that comes into
// quarantine loses it. No other writes any.
func TestWhatIsOverMayGoAndNothingElse(t *testing.T) {
	ended := 0
	for name, m := range moves {
		if m.event == "" {
			continue
		}
		over := task.Must(m.from, m.event).To.Terminal()
		if over {
			ended++
		}
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				x := drawTask(t, m.from)
				x.CancelRequested = x.CancelRequested && m.event == task.AbortCancel
				tx := m.build(x)
				row := must(t, tx.Writes[taskop.OnRow], taskop.EncodeRow(x))
				if got := row.Int(op.TTL); over && got != goneAt || !over && row.Has(op.TTL) {
					t.Fatalf("the row may go at %d; over: %v", got, over)
				}
				if got := decode(t, x, row).ExpiresMS; over && got != 1000*goneAt {
					t.Fatalf("decoded as %d", got)
				}
				beside := map[op.Key]op.Item{}
				for _, w := range tx.Writes[1:] {
					if strings.HasPrefix(w.Key.PK, "Y#") {
						var before op.Item
						if w.Action == op.Update {
							before = op.Item{"v": op.S("body"), op.TTL: op.N(7)}
						}
						beside[w.Key] = must(t, w, before)
					} else if !strings.HasPrefix(w.Key.PK, "L#") {
						t.Fatalf("writes %v", w.Key)
					}
				}
				payload, timed := beside[taskop.PayloadKey(x.Tenant, x.ID)], !x.RunLate && x.AdmittedMS == 0 && x.State != task.Quarantined
				switch quarantined := task.Must(m.from, m.event).To == task.Quarantined; {
				case over && x.PayloadBeside && !timed && (payload.Int(op.TTL) != goneAt || payload.Str("v") != "body"):
					t.Fatalf("the payload beside the row is %v", payload)
				case quarantined && x.PayloadBeside && timed && (payload.Has(op.TTL) || payload.Str("v") != "body"):
					t.Fatalf("the payload of a quarantined task is %v", payload)
				case (!x.PayloadBeside || over && timed || quarantined && !timed || !over && !quarantined) && payload != nil:
					t.Fatalf("a payload is written: %v", payload)
				}
			})
		})
	}
	if ended != 10 {
		t.Errorf("%d operations end a task, known are 10", ended)
	}
}

// TestALargePayloadIsToldAtItsAcceptance, which costs nothing, when it may go: where the task's time is bounded.
func TestALargePayloadIsToldAtItsAcceptance(t *testing.T) {
	for name, c := range map[string]struct {
		late bool
		keep int64
		want int64
	}{"": {false, keepMS, goneAt}, "runs late": {true, keepMS, 0}, "kept for good": {false, 0, 0}} {
		x := &task.Task{Tenant: "a", ID: "i", State: task.Queued, Lane: "l", AtLane: "l", AmountMS: 1, DeadlineMS: laterMS, RunLate: c.late,
			Payload: strings.Repeat("p", taskop.InlineMax+1)}
		tx := taskop.Accept(x, taskop.LedgerUse{AmountMS: 1}, c.keep)
		payload := tx.Writes[2].Item
		if payload.Int(op.TTL) != c.want || payload.Has(op.TTL) != (c.want != 0) || taskop.Body(payload) != x.Payload {
			t.Errorf("%s: may go at %d, expected %d", name, payload.Int(op.TTL), c.want)
		}
		if tx.Writes[taskop.OnRow].Item.Has(op.TTL) {
			t.Errorf("%s: a live row may go", name)
		}
	}
}

// TestThePayloadOfAnUndeliverableTaskStays with it in quarantine.
func TestThePayloadOfAnUndeliverableTaskStays(t *testing.T) {
	x := &task.Task{Tenant: "a", ID: "i", State: task.Queued, Lane: "l", AtLane: "l", AmountMS: 1, PayloadBeside: true}
	tx := taskop.GiveUpDelivery(x, &task.Error{Code: "c"}, laterMS)
	if len(tx.Writes) != 3 || tx.Writes[2].Key != taskop.PayloadKey("a", "i") {
		t.Fatalf("%+v", tx)
	}
	if after := must(t, tx.Writes[2], op.Item{"v": op.S("body"), op.TTL: op.N(7)}); after.Has(op.TTL) || after.Str("v") != "body" {
		t.Errorf("%v", after)
	}
}

func TestALargeResultGoesWithItsTask(t *testing.T) {
	x := &task.Task{Tenant: "a", ID: "i", State: task.Running, Lane: "l", AtLane: "l", LeaseToken: "t", AmountMS: 1}
	after := *x
	after.Result, after.FinishedMS = strings.Repeat("r", taskop.InlineMax+1), laterMS
	for keep, want := range map[int64]int64{keepMS: goneAt, 0: 0} {
		tx := taskop.Finish(x, taskop.End{Event: task.Succeed, After: &after, KeepMS: keep})
		result := tx.Writes[2]
		if result.Key != taskop.ResultKey("a", "i", 0) || result.Item.Int(op.TTL) != want || taskop.Body(result.Item) != after.Result {
			t.Errorf("kept %d ms: %+v", keep, result)
		}
		row := must(t, tx.Writes[taskop.OnRow], taskop.EncodeRow(x))
		if row.Int(op.TTL) != want || row.Has(op.TTL) != (want != 0) {
			t.Errorf("kept %d ms: the row may go at %d", keep, row.Int(op.TTL))
		}
	}
}

// TestATaskTakenUpAgainStays: should a quarantined row carry a time to go, a new admission takes it off.
func TestATaskTakenUpAgainStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawTask(t, task.Quarantined)
		row := taskop.EncodeRow(x)
		row[op.TTL] = op.N(7)
		again := taskop.Readmitted(x)
		again.State = rapid.SampledFrom([]task.State{task.Waiting, task.Queued}).Draw(t, "again")
		again.DueMS = laterMS
		after := must(t, taskop.Readmit(x, again, taskop.LedgerUse{AmountMS: 1}).Writes[taskop.OnRow], row)
		if after.Has(op.TTL) {
			t.Fatalf("it may go at %d", after.Int(op.TTL))
		}
	})
}

// TestEvidenceGoesInTheEnd: the audit, parked messages and replays that are over may go, a year later.
func TestEvidenceGoesInTheEnd(t *testing.T) {
	const at = (laterMS + taskop.EvidenceKeptMS) / 1000
	e := taskop.AuditEntry{AtMS: laterMS, Who: "w", Act: "a", On: "o"}
	park := taskop.ParkBody("body", strings.Repeat("0", 64), e)
	end := must(t, taskop.EndReplay("r", "finished", laterMS), op.Item{"st": op.S("running")})
	for name, it := range map[string]op.Item{"audit": taskop.Audit(e, "n").Item, "parked": park.Writes[0].Item, "replay": end} {
		if it.Int(op.TTL) != at {
			t.Errorf("%s: may go at %d, expected %d", name, it.Int(op.TTL), at)
		}
	}
	running := taskop.StartReplay(taskop.Replay{ID: "r", CreatedMS: laterMS}, taskop.Audit(e, "n")).Writes[0].Item
	if running.Has(op.TTL) {
		t.Error("a running replay may go")
	}
}

func TestCountersOfAWindowGoAndOthersStay(t *testing.T) {
	key := taskop.CountersKey("x")
	counts := map[string]int64{"s.1": 2}
	gone := must(t, taskop.AddCounts("tally", key, counts, laterMS), nil)
	if gone.Int(op.TTL) != laterMS/1000 {
		t.Errorf("may go at %d", gone.Int(op.TTL))
	}
	if got := taskop.Counts(gone); len(got) != 1 || got["s.1"] != 2 {
		t.Errorf("counts %v: the time to go is no count", got)
	}
	if stays := must(t, taskop.AddCounts("tally", key, counts, 0), nil); stays.Has(op.TTL) {
		t.Error("a counter that is never over may go")
	}
}

package taskop_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

const maxTime = 9_999_999_999_999 // 13 digits, as in the sort keys

var (
	names   = rapid.StringMatching(`[a-z0-9][a-z0-9.-]{0,12}`)
	lanes   = rapid.StringMatching(`[a-z][a-z0-9-]{0,8}`)
	ids     = rapid.StringMatching(`[0-9a-f]{4}-[0-9a-f]{4}`)
	times   = rapid.Int64Range(1, maxTime)
	amounts = rapid.Int64Range(1, 3_600_000)
)

// drawTask draws a task in a state, as its row can hold it.
func drawTask(t *rapid.T, state task.State) *task.Task {
	flag, text, count := rapid.Bool(), rapid.StringN(0, 20, 80), rapid.Int64Range(0, 1000)
	x := &task.Task{
		Tenant: names.Draw(t, "tenant"), ID: ids.Draw(t, "id"), State: state, Gen: count.Draw(t, "gen"),
		Class: names.Draw(t, "class"), Bucket: names.Draw(t, "bucket"), Lane: lanes.Draw(t, "lane"), AtLane: lanes.Draw(t, "at lane"),
		Priority: "normal", AmountMS: amounts.Draw(t, "amount"),
		SubmittedMS: times.Draw(t, "submitted"), DeadlineMS: times.Draw(t, "deadline"), StartByMS: times.Draw(t, "start by"), RunLate: flag.Draw(t, "late"),
		StartedMS: count.Draw(t, "started"), FinishedMS: count.Draw(t, "finished"),
		Prediction: task.Prediction{WaitMS: count.Draw(t, "wait"), RatioMS: count.Draw(t, "ratio"), P50MS: count.Draw(t, "p50"), P95MS: count.Draw(t, "p95"),
			MargMS: count.Draw(t, "margin"), Probe: flag.Draw(t, "probe")},
		Attempt: count.Draw(t, "attempt"), Failures: count.Draw(t, "failures"), LeaseToken: text.Draw(t, "token"), LeaseUntilMS: count.Draw(t, "lease"),
		AttemptMS: count.Draw(t, "begun"), NotBeforeMS: count.Draw(t, "not before"), Tag: rapid.Int64Range(0, 7_999_999_999_999_999).Draw(t, "tag"),
		CancelRequested: flag.Draw(t, "cancel"), Keyed: flag.Draw(t, "keyed"), RequestHash: text.Draw(t, "hash"), Nonce: text.Draw(t, "nonce"),
		OrderingKey: text.Draw(t, "ordering key"), Traceparent: text.Draw(t, "trace"),
		Payload: text.Draw(t, "payload"), PayloadBeside: flag.Draw(t, "payload beside"), Result: text.Draw(t, "result"), ResultBeside: flag.Draw(t, "result beside"),
		Progress: text.Draw(t, "progress"), Checkpoint: text.Draw(t, "checkpoint"),
	}
	if flag.Draw(t, "taken up again") {
		x.AdmittedMS = 1 + count.Draw(t, "admitted")
	}
	if state == task.Running {
		x.LeaseToken = names.Draw(t, "lease token")
	}
	if state.Live() {
		x.DueMS = times.Draw(t, "due")
	}
	if state == task.Waiting {
		x.Parked = flag.Draw(t, "parked")
	}
	if state.Terminal() {
		x.ExpiresMS = 1000 * count.Draw(t, "expires")
	}
	if flag.Draw(t, "has error") {
		x.Error = &task.Error{Code: text.Draw(t, "code"), Signature: text.Draw(t, "signature"), Message: text.Draw(t, "message"), Retryable: flag.Draw(t, "retryable")}
	}
	for n := range rapid.IntRange(0, 3).Draw(t, "attempts") {
		x.Attempts = append(x.Attempts, task.Attempt{N: int64(n), Lane: x.Lane, StartMS: count.Draw(t, "start"), EndMS: count.Draw(t, "end"),
			Outcome: task.OutcomeFailed, Signature: text.Draw(t, "attempt signature"), Code: text.Draw(t, "attempt code"), Message: text.Draw(t, "attempt message")})
	}
	return x
}

// fataler is what both testing.T and rapid.T can do.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func decode(t fataler, x *task.Task, it op.Item) *task.Task {
	t.Helper()
	got, err := taskop.DecodeRow(taskop.RowKey(x.Tenant, x.ID), it)
	if err != nil {
		t.Fatalf("decoding %v: %v", it, err)
	}
	return got
}

// perform applies a write to an item if its condition holds.
func perform(t fataler, w op.Write, it op.Item) (after op.Item, ok bool) {
	t.Helper()
	if err := w.Validate(); err != nil {
		t.Fatalf("%v", err)
	}
	if !op.Eval(w.Cond, w.Key, it) {
		return it, false
	}
	switch w.Action {
	case op.Put:
		return w.Item.Clone(), true
	case op.Delete:
		return nil, true
	}
	after, err := op.Apply(it, w.Changes)
	if err != nil {
		t.Fatalf("%s: %v", w.Name, err)
	}
	return after, true
}

// must is perform for a write whose condition has to hold.
func must(t fataler, w op.Write, it op.Item) op.Item {
	t.Helper()
	after, ok := perform(t, w, it)
	if !ok {
		t.Fatalf("%s is refused on %v", w.Name, it)
	}
	return after
}

func ledgerItem(workMS, active, most int64) op.Item {
	return op.Item{"work": op.N(workMS), "active": op.N(active), "max": op.N(most), "entered": op.N(workMS)}
}

// TestPerformSeesAConditionThatFails guards the helper the other tests rest on.
func TestPerformSeesAConditionThatFails(t *testing.T) {
	w := op.Write{Name: "w", Key: op.Key{PK: "a", SK: "b"}, Action: op.Update, Cond: op.Is("n", op.N(1)), Changes: []op.Change{op.Add("n", 1)}}
	if it, ok := perform(t, w, op.Item{"n": op.N(2)}); ok || it.Int("n") != 2 {
		t.Errorf("applied: %v", it)
	}
	if it, ok := perform(t, w, op.Item{"n": op.N(1)}); !ok || it.Int("n") != 2 {
		t.Errorf("not applied: %v", it)
	}
}

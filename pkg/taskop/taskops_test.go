package taskop_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// move is an operation that is a transition of the table.
type move struct {
	from  task.State
	event task.Event
	build func(x *task.Task) op.Tx
}

func single(w op.Write) op.Tx { return op.Tx{Name: w.Name, Writes: []op.Write{w}} }

const (
	laterMS = 5_000_000
	keepMS  = 3_600_001
)

func finish(event task.Event) func(*task.Task) op.Tx {
	return func(x *task.Task) op.Tx {
		after := *x
		after.FinishedMS, after.NotBeforeMS, after.DueMS, after.QuarantinedMS = laterMS, laterMS, laterMS, laterMS
		return taskop.Finish(x, taskop.End{Event: event, After: &after, KeepMS: keepMS})
	}
}

func closes(event task.Event) func(*task.Task) op.Tx {
	return func(x *task.Task) op.Tx { return taskop.Close(x, event, laterMS, keepMS) }
}

func claim(x *task.Task) op.Tx {
	return taskop.Claim(x, taskop.Lease{Token: "new", NowMS: laterMS, UntilMS: laterMS + 1})
}

func due(event task.Event) func(*task.Task) op.Tx {
	return func(x *task.Task) op.Tx { return single(taskop.DueRow(x, event, "retry", laterMS)) }
}

var moves = map[string]move{
	"claim":                   {task.Queued, task.Claim, claim},
	"hand-over":               {task.Waiting, task.HandOver, claim},
	"release":                 {task.Waiting, task.Release, func(x *task.Task) op.Tx { return single(taskop.ReleaseRow(x, laterMS)) }},
	"park a queued task":      {task.Queued, task.Park, func(x *task.Task) op.Tx { return single(taskop.ParkRow(x, laterMS)) }},
	"succeed":                 {task.Running, task.Succeed, finish(task.Succeed)},
	"fail":                    {task.Running, task.Fail, finish(task.Fail)},
	"retry":                   {task.Running, task.Retry, finish(task.Retry)},
	"continue":                {task.Running, task.Continue, finish(task.Continue)},
	"poison":                  {task.Running, task.Poison, finish(task.Poison)},
	"abort":                   {task.Running, task.AbortCancel, finish(task.AbortCancel)},
	"due, a slot free":        {task.RetryWait, task.DueQueued, due(task.DueQueued)},
	"due, no slot":            {task.RetryWait, task.DueWaiting, due(task.DueWaiting)},
	"cancel while waiting":    {task.Waiting, task.Cancel, closes(task.Cancel)},
	"cancel while queued":     {task.Queued, task.Cancel, closes(task.Cancel)},
	"cancel in retry_wait":    {task.RetryWait, task.Cancel, closes(task.Cancel)},
	"cancel in quarantine":    {task.Quarantined, task.Cancel, closes(task.Cancel)},
	"expire while waiting":    {task.Waiting, task.Expire, closes(task.Expire)},
	"expire while queued":     {task.Queued, task.Expire, closes(task.Expire)},
	"expire in retry_wait":    {task.RetryWait, task.Expire, closes(task.Expire)},
	"withdraw what is queued": {task.Queued, "", taskop.Withdraw},
}

// TestOperationsDoWhatTheTableSays performs every operation on a drawn row and
// ledger: the state after it, what the ledger gains and loses, and the indexes
// are those of the table of transitions; rows that moved on refuse it.
func TestOperationsDoWhatTheTableSays(t *testing.T) {
	for name, m := range moves {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				x := drawTask(t, m.from)
				x.CancelRequested = x.CancelRequested && m.event == task.AbortCancel
				x.Nonce += "n"
				tx := m.build(x)
				if err := tx.Validate(); err != nil {
					t.Fatal(err)
				}
				row, ledger := taskop.EncodeRow(x), ledgerItem(x.AmountMS, 1, 2)
				rowAfter := must(t, tx.Writes[taskop.OnRow], row)
				refusedElsewhere(t, tx.Writes[taskop.OnRow], x)
				work, active := -1, 0
				if m.event != "" {
					tr := task.Must(m.from, m.event)
					work, active = tr.Work, tr.Active
					after := decode(t, x, rowAfter)
					if after.State != tr.To {
						t.Fatalf("became %s, not %s", after.State, tr.To)
					}
					indexed(t, after, rowAfter)
					leased := after.State == task.Running && after.DueMS == after.LeaseUntilMS // a claim may set it to then
					if after.State.Live() && after.DueMS > x.DueMS && !leased && m.from != task.RetryWait && m.from != task.Running {
						t.Fatalf("due %d, later than %d before: it may be early, never late", after.DueMS, x.DueMS)
					}
				}
				if len(tx.Writes) > 1 {
					ledger = must(t, tx.Writes[taskop.OnLedger], ledger)
				}
				got := taskop.DecodeLedger(ledger)
				if got.WorkMS != x.AmountMS*int64(1+work) || got.Active != int64(1+active) {
					t.Fatalf("the ledger has work %d and %d active; expected %+d of %d, and %+d", got.WorkMS, got.Active, work, x.AmountMS, active)
				}
			})
		})
	}
}

// TestAnAttemptIsLookedAtWhenItsLeaseEndsAlthoughAVisitMovedItMeanwhile: the worker read the row
// before a visit, which moves what waits on by as long as it has waited, and claims it after that. A
// worker that then dies would be missed hours late.
func TestAnAttemptIsLookedAtWhenItsLeaseEndsAlthoughAVisitMovedItMeanwhile(t *testing.T) {
	const hour = 3_600_000
	l := taskop.Lease{Token: "t", NowMS: 100_000, UntilMS: 135_000}
	for _, c := range []struct{ dueMS, visitedMS, want int64 }{
		{100_000, 2 * hour, l.UntilMS},  // due: a visit may be under way
		{99_000, 2 * hour, l.UntilMS},   // it was, and the index is behind
		{100_300, 2 * hour, l.UntilMS},  // by the aggregator's clock it is
		{120_000, 120_000, 120_000},     // nobody visits it yet: an early visit is cheap, two index writes are not
		{2 * hour, 2 * hour, l.UntilMS}, // later than the lease
	} {
		for _, state := range []task.State{task.Queued, task.Waiting} {
			x := &task.Task{Tenant: "alpha", ID: "00000000-0000-4000-8000-000000000000", State: state, Class: "c", Bucket: "b", Lane: "a", AtLane: "a", AmountMS: 1000, DueMS: c.dueMS, Nonce: "n"}
			item := taskop.EncodeRow(x)
			for _, w := range []op.Write{taskop.MoveDue(x, c.visitedMS), taskop.Claim(x, l).Writes[taskop.OnRow]} {
				if !op.Eval(w.Cond, w.Key, item) {
					t.Fatalf("%s is refused", w.Name)
				}
				var err error
				if item, err = op.Apply(item, w.Changes); err != nil {
					t.Fatal(err)
				}
			}
			got, err := taskop.DecodeRow(taskop.RowKey(x.Tenant, x.ID), item)
			if err != nil || got.DueMS != c.want {
				t.Errorf("%s, due at %d, visited, claimed: due at %d, want %d (%v)", state, c.dueMS, got.DueMS, c.want, err)
			}
			if told := taskop.Claimed(x, l).DueMS; told != c.want {
				t.Errorf("%s, due at %d: the worker believes %d, want %d", state, c.dueMS, told, c.want)
			}
		}
	}
}

// TestARetryIsDueAtItsTimeAlthoughAVisitMovedItMeanwhile: the worker read the row
// when it began, and the due time has since been moved to the end of its lease.
func TestARetryIsDueAtItsTimeAlthoughAVisitMovedItMeanwhile(t *testing.T) {
	for _, event := range []task.Event{task.Retry, task.Continue} {
		x := &task.Task{Tenant: "alpha", ID: "00000000-0000-4000-8000-000000000000", State: task.Running, Gen: 1, Attempt: 1, Class: "c", Bucket: "b",
			Lane: "a", AtLane: "a", AmountMS: 1000, LeaseToken: "t", LeaseUntilMS: 35_000, DueMS: 1000, Nonce: "n"}
		visited := *x
		visited.DueMS = 35_001
		after := *x
		after.DueMS, after.NotBeforeMS = 3000, 3000
		item, err := op.Apply(taskop.EncodeRow(&visited), taskop.Finish(x, taskop.End{Event: event, After: &after}).Writes[taskop.OnRow].Changes)
		if err != nil {
			t.Fatal(err)
		}
		got, err := taskop.DecodeRow(taskop.RowKey(x.Tenant, x.ID), item)
		if err != nil || got.DueMS != 3000 {
			t.Errorf("%s: due at %d, want 3000 (%v)", event, got.DueMS, err)
		}
	}
}

// refusedElsewhere tries a write on rows of another state or generation.
func refusedElsewhere(t *rapid.T, w op.Write, x *task.Task) {
	t.Helper()
	other := *x
	for other.State == x.State {
		other.State = rapid.SampledFrom(task.States()).Draw(t, "another state")
	}
	moved := *x
	moved.Gen += rapid.Int64Range(1, 3).Draw(t, "generations later")
	others := []*task.Task{&other, &moved}
	if x.State == task.Waiting { // parked, or back in the order, since it was read
		listed := *x
		listed.Parked = !x.Parked
		others = append(others, &listed)
	}
	for _, y := range others {
		if _, ok := perform(t, w, taskop.EncodeRow(y)); ok {
			t.Fatalf("%s went through on %s of generation %d, parked %v; it was read as %s of %d, parked %v", w.Name, y.State, y.Gen, y.Parked, x.State, x.Gen, x.Parked)
		}
	}
	if _, ok := perform(t, w, nil); ok {
		t.Fatalf("%s made a row where there was none", w.Name)
	}
}

// TestLedgerMovesStopAtTheirBounds: an active attempt more than max, and a
// release of what is not there, are refused.
func TestLedgerMovesStopAtTheirBounds(t *testing.T) {
	x := &task.Task{Tenant: "a", ID: "i", State: task.Queued, AtLane: "l", AmountMS: 10, DueMS: 1, Nonce: "n"}
	run := *x
	run.State, run.LeaseToken = task.Running, "token"
	retry := *x
	retry.State = task.RetryWait
	for name, c := range map[string]struct {
		tx   op.Tx
		item op.Item
		want bool
	}{
		"claim below max_active":       {claim(x), ledgerItem(10, 1, 2), true},
		"claim at max_active":          {claim(x), ledgerItem(10, 2, 2), false},
		"claim of work not there":      {claim(x), ledgerItem(9, 0, 2), false},
		"claim without a ledger":       {claim(x), nil, false},
		"success of an active attempt": {finish(task.Succeed)(&run), ledgerItem(0, 1, 2), true},
		"success with none active":     {finish(task.Succeed)(&run), ledgerItem(0, 0, 2), false},
		"retry at any work":            {finish(task.Retry)(&run), ledgerItem(1<<50, 1, 2), true},
		"cancel":                       {closes(task.Cancel)(&retry), ledgerItem(10, 0, 2), true},
		"cancel of work not there":     {closes(task.Cancel)(&retry), ledgerItem(9, 0, 2), false},
		"withdrawal":                   {taskop.Withdraw(x), ledgerItem(10, 0, 2), true},
		"withdrawal of what is gone":   {taskop.Withdraw(x), ledgerItem(0, 0, 2), false},
	} {
		if _, ok := perform(t, c.tx.Writes[taskop.OnLedger], c.item); ok != c.want {
			t.Errorf("%s: %v", name, ok)
		}
	}
}

func TestClaimedIsTheRowAfterAClaim(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawTask(t, rapid.SampledFrom([]task.State{task.Queued, task.Waiting}).Draw(t, "state"))
		l := taskop.Lease{Token: "new", NowMS: times.Draw(t, "now"), UntilMS: times.Draw(t, "until")}
		tx := taskop.Claim(x, l)
		if got, want := decode(t, x, must(t, tx.Writes[taskop.OnRow], taskop.EncodeRow(x))), taskop.Claimed(x, l); !reflect.DeepEqual(got, want) {
			t.Fatalf("the row says\n%+v, Claimed\n%+v", got, want)
		}
	})
}

// TestAClaimForgetsAWakeUpThatDiedMeanwhile: the count of dead wake-ups is of one
// attempt's, and the claim's worker may have read the row before it rose.
func TestAClaimForgetsAWakeUpThatDiedMeanwhile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawTask(t, task.Queued)
		counted := must(t, taskop.DeadDelivery(x, times.Draw(t, "died")), taskop.EncodeRow(x))
		l := taskop.Lease{Token: "new", NowMS: times.Draw(t, "now"), UntilMS: times.Draw(t, "until")}
		if got := decode(t, x, must(t, taskop.Claim(x, l).Writes[taskop.OnRow], counted)); got.Dead != 0 || got.DeadMS != 0 {
			t.Fatalf("the running task still has %d dead wake-ups, the last at %d", got.Dead, got.DeadMS)
		}
	})
}

// TestOnlyTheLeaseHolderWrites: an attempt that lost its lease can neither
// renew nor end anything, and a lost worker is only taken for lost while its
// lease is over.
func TestOnlyTheLeaseHolderWrites(t *testing.T) {
	x := &task.Task{Tenant: "a", ID: "i", State: task.Running, AtLane: "l", AmountMS: 10, DueMS: 1, LeaseToken: "mine", LeaseUntilMS: 100, Gen: 3}
	other := *x
	other.LeaseToken = "theirs"
	row := taskop.EncodeRow(x)
	for _, event := range []task.Event{task.Succeed, task.Fail, task.Retry, task.Continue, task.Poison, task.AbortCancel} {
		if _, ok := perform(t, finish(event)(&other).Writes[taskop.OnRow], row); ok {
			t.Errorf("%s by another's token", event)
		}
		lost := taskop.Finish(x, taskop.End{Event: event, After: x, LostAtMS: 100}).Writes[taskop.OnRow]
		if _, ok := perform(t, lost, row); ok {
			t.Errorf("%s: lost while the lease lasts", event)
		}
		lost = taskop.Finish(x, taskop.End{Event: event, After: x, LostAtMS: 101}).Writes[taskop.OnRow]
		if _, ok := perform(t, lost, row); !ok {
			t.Errorf("%s: not lost 1 ms after the lease", event)
		}
	}
	if _, ok := perform(t, taskop.Renew(&other, 200, ""), row); ok {
		t.Error("renewed by another's token")
	}
	renewed := must(t, taskop.Renew(x, 200, `{"n":1}`), row)
	got := decode(t, x, renewed)
	if got.LeaseUntilMS != 200 || got.Progress != `{"n":1}` || got.DueMS != x.DueMS {
		t.Errorf("renewed: %+v", got)
	}
	if kept := decode(t, x, must(t, taskop.Renew(got, 300, ""), renewed)); kept.Progress != `{"n":1}` {
		t.Errorf("a renewal without progress left %q", kept.Progress)
	}
}

// TestARequestedCancelTurnsOtherEndsAway: whoever ends the attempt learns of
// it, and only a success stands.
func TestARequestedCancelTurnsOtherEndsAway(t *testing.T) {
	x := &task.Task{Tenant: "a", ID: "i", State: task.Running, AtLane: "l", AmountMS: 10, DueMS: 1, LeaseToken: "mine", Gen: 3}
	row := must(t, taskop.RequestCancel(x), taskop.EncodeRow(x))
	if got := decode(t, x, row); !got.CancelRequested || got.State != task.Running {
		t.Fatalf("%+v", got)
	}
	for event, want := range map[task.Event]bool{task.Succeed: true, task.AbortCancel: true, task.Fail: false, task.Retry: false, task.Continue: false, task.Poison: false} {
		if _, ok := perform(t, finish(event)(x).Writes[taskop.OnRow], row); ok != want {
			t.Errorf("%s: %v", event, ok)
		}
	}
}

func TestParkingKeepsThePlaceInTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawTask(t, task.Waiting)
		x.Parked = false
		row := taskop.EncodeRow(x)
		parked := must(t, taskop.ParkRow(x, laterMS), row)
		y := decode(t, x, parked)
		if !y.Parked || y.State != task.Waiting || taskop.OrderOf(parked.Str("rs")) != row.Str("rs") {
			t.Fatalf("parked: %+v at %q", y, parked.Str("rs"))
		}
		if _, ok := perform(t, taskop.ParkRow(x, laterMS), parked); ok {
			t.Fatal("parked twice: its lane would count it twice")
		}
		back := must(t, taskop.UnparkRow(y), parked)
		if z := decode(t, x, back); z.Parked || back.Str("rs") != row.Str("rs") || back.Str("rk") != row.Str("rk") {
			t.Fatalf("unparked: %+v at %q", z, back.Str("rs"))
		}
		if _, ok := perform(t, taskop.UnparkRow(y), back); ok {
			t.Fatal("unparked twice")
		}
	})
}

func TestAcceptTakesOnlyWhatTheLedgerAllows(t *testing.T) {
	x := &task.Task{Tenant: "a", ID: "i", State: task.Queued, AtLane: "l", AmountMS: 10, DueMS: 1}
	use := func(change func(*taskop.LedgerUse)) op.Tx {
		u := taskop.LedgerUse{AmountMS: 10, MaxActive: 3, WorkMaxMS: 90, EnteredMaxMS: 1000}
		change(&u)
		return taskop.Accept(x, u, 0)
	}
	plain := use(func(*taskop.LedgerUse) {})
	idle := use(func(u *taskop.LedgerUse) {
		u.Rate = &taskop.RateUse{NowMicros: 500, IntervalMicros: 50, ToleranceMicros: 100, Idle: true}
	})
	busy := use(func(u *taskop.LedgerUse) {
		u.Rate = &taskop.RateUse{NowMicros: 500, IntervalMicros: 50, ToleranceMicros: 100}
	})
	daily := use(func(u *taskop.LedgerUse) { u.Day, u.DayMaxMS = 7, 40 })
	newDay := use(func(u *taskop.LedgerUse) { u.Day, u.NewDay = 7, true })
	ledger := func(more op.Item) op.Item {
		it := op.Item{"work": op.N(90), "entered": op.N(1000), "active": op.N(1), "max": op.N(1)}
		for k, v := range more {
			it[k] = v
		}
		return it
	}
	for name, c := range map[string]struct {
		tx   op.Tx
		item op.Item
		want bool
	}{
		"first of a tenant":           {plain, nil, true},
		"work at its most":            {plain, ledger(nil), true},
		"work one over":               {plain, ledger(op.Item{"work": op.N(91)}), false},
		"entered one over":            {plain, ledger(op.Item{"entered": op.N(1001)}), false},
		"rate: idle":                  {idle, ledger(op.Item{"tat": op.N(500)}), true},
		"rate: never before":          {idle, ledger(nil), true},
		"rate: idle no more":          {idle, ledger(op.Item{"tat": op.N(501)}), false},
		"rate: within the burst":      {busy, ledger(op.Item{"tat": op.N(600)}), true},
		"rate: over the burst":        {busy, ledger(op.Item{"tat": op.N(601)}), false},
		"rate: became idle meanwhile": {busy, ledger(op.Item{"tat": op.N(500)}), false},
		"day: at its most":            {daily, ledger(op.Item{"day": op.N(7), "dayw": op.N(40)}), true},
		"day: one over":               {daily, ledger(op.Item{"day": op.N(7), "dayw": op.N(41)}), false},
		"day: another":                {daily, ledger(op.Item{"day": op.N(6), "dayw": op.N(0)}), false},
		"new day":                     {newDay, ledger(op.Item{"day": op.N(6), "dayw": op.N(999)}), true},
		"new day, begun by another":   {newDay, ledger(op.Item{"day": op.N(7), "dayw": op.N(0)}), false},
	} {
		after, ok := perform(t, c.tx.Writes[taskop.OnLedger], c.item)
		if ok != c.want {
			t.Errorf("%s: %v", name, ok)
			continue
		}
		before, got := taskop.DecodeLedger(c.item), taskop.DecodeLedger(after)
		if ok && (got.WorkMS != before.WorkMS+10 || got.EnteredMS != before.EnteredMS+10 || got.MaxActive != 3 || got.Active != before.Active) {
			t.Errorf("%s: %+v after %+v", name, got, before)
		}
		if ok && c.tx.Name == "accept" && got.Day == 7 && got.DayWork(7) != before.DayWork(7)+10 {
			t.Errorf("%s: day's work %d after %d", name, got.DayWork(7), before.DayWork(7))
		}
	}
	if _, ok := perform(t, plain.Writes[taskop.OnRow], taskop.EncodeRow(x)); ok {
		t.Error("accepted over a row that is there")
	}
	for want, tat := range map[int64]int64{550: 500, 650: 600} {
		tx := idle
		if tat > 500 {
			tx = busy
		}
		if got := taskop.DecodeLedger(must(t, tx.Writes[taskop.OnLedger], ledger(op.Item{"tat": op.N(tat)}))); got.TATMicros != want {
			t.Errorf("tat %d became %d, want %d", tat, got.TATMicros, want)
		}
	}
}

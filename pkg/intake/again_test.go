package intake_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// ended is a task of alpha that ended in quarantine or failed.
func ended(t *testing.T, r *rig.Rig, event task.Event) *task.Task {
	t.Helper()
	got, err := r.Intake().Submit(t.Context(), r.Who("alpha"), submission(t, r, "", hour))
	if err != nil {
		t.Fatal(err)
	}
	running := r.Claim(t, got.Task)
	after := *running
	after.Failures, after.Error = 2, &task.Error{Code: "c", Signature: "0123456789abcdef", Message: "m"}
	after.FinishedMS, after.QuarantinedMS = r.Clock().UnixMilli(), r.Clock().UnixMilli()
	if err := r.Raw.Transact(t.Context(), taskop.Finish(running, taskop.End{Event: event, After: &after})); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Raw.Write(t.Context(), taskop.EndRun(running.AtLane, running.ID, false)); err != nil {
		t.Fatal(err)
	}
	return r.Task(t, "alpha", running.ID)
}

// TestRetryUnderFaultsLeavesNothingHalfDone: whatever call fails and however,
// rows and ledgers agree, the lanes are never too empty, and asked again it
// works, once.
func TestRetryUnderFaultsLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	for _, event := range []task.Event{task.Poison, task.Fail} {
		for _, full := range []bool{false, true} {
			for _, f := range rig.Faults() {
				for n := 1; n <= 8; n++ {
					for _, on := range []bool{false, true} {
						t.Run(fmt.Sprintf("%s full=%v call %d %s on=%v", event, full, n, f, on), func(t *testing.T) {
							t.Parallel()
							r := rig.New(rig.Config(t), memtable.New(memtable.Options{}), rig.NewManual().Now)
							was := ended(t, r, event)
							if full {
								fill(t.Context(), r, 3)
							}
							r.Table.Fail(at(f, func(c rig.Call) bool { return c.N == n || on && c.N > n }))
							in := r.Intake()
							first, _, err := in.Retry(t.Context(), r.Who("alpha"), was.ID)
							if err != nil && refusalOf(t, err).Code != events.Unavailable {
								t.Fatalf("refused: %v", err)
							}
							r.CheckHoldings(t)
							r.CheckLanes(t, false)
							r.Table.Fail(nil)
							got, _, err := in.Retry(t.Context(), r.Who("alpha"), was.ID)
							if err != nil {
								t.Fatal(err)
							}
							if !got.State.Live() || (got.ID == was.ID) != (event == task.Poison) || first != nil && first.ID != got.ID {
								t.Errorf("%s is %s", got.ID, got.State)
							}
							if len(r.Tasks(t)) != len(map[string]bool{was.ID: true, got.ID: true})+map[bool]int{true: 3}[full] {
								t.Errorf("%d rows", len(r.Tasks(t)))
							}
							r.CheckHoldings(t)
							r.CheckLanes(t, false)
						})
					}
				}
			}
		}
	}
}

// TestRetryRacesWithOthersOnce: many at once, from several instances and with a
// cancel among them, take one reservation or none.
func TestRetryRacesWithOthersOnce(t *testing.T) {
	t.Parallel()
	for _, event := range []task.Event{task.Poison, task.Fail} {
		r := rig.New(rig.Config(t), openTable(t), nil)
		was := ended(t, r, event)
		var wg sync.WaitGroup
		var mu sync.Mutex
		changed := 0
		for i := range 30 {
			in := r.Intake()
			wg.Go(func() {
				if i%10 == 9 {
					_, _, _ = in.Cancel(t.Context(), r.Who("alpha"), was.ID)
					return
				}
				_, did, err := in.Retry(t.Context(), r.Who("alpha"), was.ID)
				var no *intake.Refusal
				if err != nil && (!errors.As(err, &no) || no.Code != events.AlreadyFinished) {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if did {
					changed++
				}
			})
		}
		wg.Wait()
		if changed > 1 {
			t.Errorf("%s: %d of them took the task up", event, changed)
		}
		r.CheckHoldings(t)
		r.CheckLanes(t, true)
	}
}

// TestRetryIsAdmittedOrRefusedLikeASubmission under the contract of now.
func TestRetryIsAdmittedOrRefusedLikeASubmission(t *testing.T) {
	t.Parallel()
	r := rig.New(rig.Config(t, "basic: {max_queued_work: 1000h", "basic: {max_queued_work: 1s"), memtable.New(memtable.Options{}), rig.NewManual().Now)
	was := ended(t, r, task.Poison)
	if _, err := r.Intake().Submit(t.Context(), r.Who("alpha"), submission(t, r, "", hour)); err != nil {
		t.Fatal(err) // uses up the budget
	}
	_, _, err := r.Intake().Retry(t.Context(), r.Who("alpha"), was.ID)
	if no := refusalOf(t, err); no.Code != events.RejectTenantLimit || no.RetryAfterSeconds < 1 || no.Decision == nil {
		t.Errorf("%+v", no)
	}
	if got := r.Task(t, "alpha", was.ID); got.State != task.Quarantined || got.Error == nil {
		t.Errorf("a refused retry left it %s", got.State)
	}
	r.CheckHoldings(t)
	r.CheckLanes(t, true)
}

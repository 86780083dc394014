package invariants

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// hundred submits a body a hundred times at once on several instances and
// counts the answers by their code.
func hundred(t *testing.T, r *rig.Rig, body string) map[events.Code]int {
	instances := []*intake.Service{r.Intake(), r.Intake(), r.Intake(), r.Intake()}
	codes := map[events.Code]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			code := events.Code("accept")
			_, err := instances[i%len(instances)].Submit(t.Context(), r.Who("alpha"), submission(r, "", body))
			var refusal *intake.Refusal
			if errors.As(err, &refusal) {
				code = refusal.Code
			}
			mu.Lock()
			defer mu.Unlock()
			codes[code]++
		})
	}
	wg.Wait()
	return codes
}

// TestTenOfAHundredByBudget: no deadline or lane limit binds, all slots are
// another tenant's, and the budget is ten times the amount that a quote reports.
func TestTenOfAHundredByBudget(t *testing.T) {
	onBoth(t, func(t *testing.T, table op.Table) {
		r := rig.New(rig.Config(t, "basic: {max_queued_work: 1000h", "basic: {max_queued_work: 10s"), table, rig.NewManual().Now)
		const body = `{"class":"short","deadline_seconds":3600}`
		for range 2 {
			if _, err := r.Intake().Submit(t.Context(), r.Who("beta"), submission(r, "", body)); err != nil {
				t.Fatal(err)
			}
		}
		q, err := r.Intake().Quote(t.Context(), r.Who("alpha"), submission(r, "", body))
		if err != nil || q.Decision.Estimate != 1000 {
			t.Fatalf("%+v, %v", q, err)
		}
		if codes := hundred(t, r, body); codes["accept"] != 10 || codes[events.RejectTenantLimit] != 90 {
			t.Errorf("%v", codes)
		}
		r.CheckLimits(t, "alpha", 0)
		r.CheckHoldings(t)
		r.CheckLanes(t, true)
	})
}

// TestTenOfAHundredByDeadline: two slots and amounts of 1 s; a deadline of 6 s
// leaves room for a wait below 5 s, so for ten tasks before nobody else fits.
func TestTenOfAHundredByDeadline(t *testing.T) {
	onBoth(t, func(t *testing.T, table op.Table) {
		r := rig.New(rig.Config(t), table, rig.NewManual().Now)
		const body = `{"class":"short","deadline_seconds":6}`
		codes := hundred(t, r, body)
		if codes["accept"] > 10 {
			t.Errorf("%d were accepted, ten fit: %v", codes["accept"], codes)
		}
		// Whoever lost twice against others was refused although there was room: it is there still.
		for range 10 - codes["accept"] {
			if _, err := r.Intake().Submit(t.Context(), r.Who("alpha"), submission(r, "", body)); err != nil {
				t.Errorf("there was room: %v", err)
			}
		}
		if _, err := r.Intake().Submit(t.Context(), r.Who("alpha"), submission(r, "", body)); err == nil {
			t.Error("an eleventh was accepted")
		}
		r.CheckHoldings(t)
		r.CheckLanes(t, true)
	})
}

// TestAStaleCopyNeverAdmitsTooMuch: instances whose copies of lane and ledger
// never age, while others submit, claim, finish and cancel. What a look at the
// true state refuses, they refuse too.
func TestAStaleCopyNeverAdmitsTooMuch(t *testing.T) {
	cfg := rig.Config(t, "basic: {max_queued_work: 1000h, max_active: 100", "basic: {max_queued_work: 12s, max_active: 3")
	for name, open := range tables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused, accepted := 0, 0
			rapid.Check(t, func(rt *rapid.T) {
				r := rig.New(cfg, open(t), rig.NewManual().Now)
				instances := []*intake.Service{r.Intake(), r.Intake(), r.Intake()}
				var live []*task.Task
				pick := func(states ...task.State) *task.Task {
					for i, x := range live {
						if now := r.Task(t, x.Tenant, x.ID); slices.Contains(states, now.State) {
							live = append(live[:i:i], append(live[i+1:], now)...) // to the end: somebody else's turn next
							return now
						}
					}
					return nil
				}
				for range rapid.IntRange(5, 25).Draw(rt, "steps") {
					switch rapid.IntRange(0, 9).Draw(rt, "step") {
					case 0, 1:
						if x := pick(task.Queued); x != nil {
							r.Claim(t, x)
						}
					case 2:
						if x := pick(task.Running); x != nil {
							r.Succeed(t, x)
						}
					case 3:
						if x := pick(task.Waiting, task.Queued); x != nil {
							if _, _, err := instances[0].Cancel(t.Context(), r.Who(x.Tenant), x.ID); err != nil {
								rt.Fatal(err)
							}
						}
					default:
						who := r.Who(rapid.SampledFrom([]string{"alpha", "beta"}).Draw(rt, "tenant"))
						sub := submission(r, "", fmt.Sprintf(`{"class":"short","deadline_seconds":%d}`, rapid.IntRange(2, 8).Draw(rt, "deadline")))
						q, err := r.Intake().Quote(t.Context(), who, sub) // knows nothing but the table
						if err != nil {
							rt.Fatal(err)
						}
						got, err := rapid.SampledFrom(instances).Draw(rt, "instance").Submit(t.Context(), who, sub)
						if err != nil {
							refused++
							continue
						}
						accepted++
						live = append(live, got.Task)
						if q.Outcome != "accept" {
							rt.Fatalf("accepted what the true state refuses: %+v", q)
						}
					}
				}
				r.CheckLimits(t, "alpha", 0)
				r.CheckHoldings(t)
			})
			if refused < 10 || accepted < 10 {
				t.Errorf("%d accepted, %d refused", accepted, refused)
			}
		})
	}
}

package intake_test

import (
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// TestAnUnknownOrZeroEstimateReservesTheWorstCase: what is not known must not be
// had for nothing. The cap of class short is a minute.
func TestAnUnknownOrZeroEstimateReservesTheWorstCase(t *testing.T) {
	for name, published := range map[string]string{
		"zero":    `{"n":9,"mean":0,"p50":0,"p95":0,"q":[],"l":true}`,
		"missing": `{"l":true}`,
		"no mean": `{"n":9,"p50":1000,"p95":1000,"l":true}`,
		"below":   `{"n":9,"mean":-5,"p50":1000,"p95":1000,"l":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			r, now := setup(t)
			body := []byte(`[{"c":"short","b":"default","e":` + published + `}]`)
			if _, err := r.Raw.Write(t.Context(), taskop.Publish(0, body, now.Now().UnixMilli(), 1)); err != nil {
				t.Fatal(err)
			}
			got, err := r.Intake().Submit(t.Context(), r.Who("alpha"), submission(t, r, "", hour))
			if err != nil || got.Task.AmountMS != 60_000 || got.Task.Prediction.P95MS != 60_000 {
				t.Errorf("%+v, %v", got.Task, err)
			}
			if l := r.Ledger(t, "alpha"); l.WorkMS != 60_000 {
				t.Errorf("%d ms are reserved", l.WorkMS)
			}
		})
	}
}

// TestFirstCallsOfATenantNobodyKnowsMeetItsTiersLimits: a tenant of whom the
// store holds nothing (its tier comes with its token) is limited from its first calls on.
func TestFirstCallsOfATenantNobodyKnowsMeetItsTiersLimits(t *testing.T) {
	r, _ := setup(t, "basic: {max_queued_work: 1000h", "basic: {max_queued_work: 10s")
	who := intake.Principal{Tenant: "newcomer", Tier: "basic"}
	instances := []*intake.Service{r.Intake(), r.Intake(), r.Intake()}
	var mu sync.Mutex
	accepted := 0
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			_, err := instances[i%len(instances)].Submit(t.Context(), who, submission(t, r, "", hour))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				accepted++
			} else if c := refusalOf(t, err).Code; c != events.RejectTenantLimit {
				t.Errorf("refused with %s", c)
			}
		})
	}
	wg.Wait()
	if l := r.Ledger(t, "newcomer"); accepted != 10 || l.WorkMS != 10_000 {
		t.Errorf("%d accepted, %d ms reserved", accepted, l.WorkMS)
	}
	_, err := r.Intake().Submit(t.Context(), intake.Principal{Tenant: "stranger", Tier: "none"}, submission(t, r, "", hour))
	if refusalOf(t, err).Code != events.Forbidden {
		t.Errorf("of no tier: %v", err)
	}
}

// TestEmptyPagesWithACursorHideNoTask: a page may be empty and not be the last.
func TestEmptyPagesWithACursorHideNoTask(t *testing.T) {
	pages := 0
	table := memtable.New(memtable.Options{EmptyPage: func() bool { pages++; return pages%3 != 0 }, ShortPage: func() bool { return true }})
	r := rig.New(rig.Config(t), table, nil)
	for range 7 {
		if _, err := r.Intake().Submit(t.Context(), r.Who("alpha"), submission(t, r, "", hour)); err != nil {
			t.Fatal(err)
		}
	}
	seen, cursor := map[string]bool{}, ""
	for range 50 {
		tasks, next, err := r.Intake().List(t.Context(), r.Who("alpha"), intake.Filter{Limit: 2, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range tasks {
			seen[x.ID] = true
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	if len(seen) != 7 {
		t.Errorf("%d of 7 tasks were listed", len(seen))
	}
}

package intake_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
)

// TestEveryCallStalledIsAnsweredInTime: from any call on, the store answers no
// more. The client is told so before the gateway gives up, and nothing is held for a
// task that was not accepted.
func TestEveryCallStalledIsAnsweredInTime(t *testing.T) {
	const limit = 29 * time.Second // of the function; HTTP APIs give up after 30
	for name, before := range map[string]int{"a slot is free": 0, "all wait": 3} {
		for call, do := range map[string]func(ctx context.Context, svc *intake.Service, who intake.Principal, sub intake.Submission, id string) error{
			"submit": func(ctx context.Context, svc *intake.Service, who intake.Principal, sub intake.Submission, _ string) error {
				_, err := svc.Submit(ctx, who, sub)
				return err
			},
			"cancel": func(ctx context.Context, svc *intake.Service, who intake.Principal, _ intake.Submission, id string) error {
				_, _, err := svc.Cancel(ctx, who, id)
				return err
			},
			"read": func(ctx context.Context, svc *intake.Service, who intake.Principal, _ intake.Submission, id string) error {
				_, err := svc.Get(ctx, who, id, 10*time.Second)
				return err
			},
		} {
			t.Run(name+", "+call, func(t *testing.T) {
				scenario := func(from int64) (calls int64) {
					synctest.Test(t, func(t *testing.T) {
						r := rig.New(rig.Config(t), memtable.New(memtable.Options{}), nil)
						who := r.Who("alpha")
						var id string
						for range before + 1 {
							got, err := r.Intake().Submit(t.Context(), who, submission(t, r, "", hour))
							if err != nil {
								t.Fatal(err)
							}
							id = got.Task.ID
						}
						sound := r.Table.Table
						stalled := &rig.Stalled{Table: sound, From: from}
						r.Table.Table = stalled
						ctx, cancel := context.WithTimeout(t.Context(), limit)
						defer cancel()
						began := time.Now()
						err := do(ctx, r.Intake(), who, submission(t, r, "k", hour), id)
						if took := time.Since(began); took >= limit {
							t.Errorf("call %d and all after it stalled: the answer took %s (%v)", from, took, err)
						}
						var refusal *intake.Refusal
						if err != nil && (!errors.As(err, &refusal) || refusal.Code != events.Unavailable) {
							t.Errorf("call %d stalled: %v", from, err)
						}
						if err == nil && from == 1 {
							t.Error("accepted by a store that does not answer")
						}
						calls = stalled.Calls()
						r.Table.Table = sound
						rows := r.Tasks(t)
						if call == "submit" && err == nil && len(rows) != before+2 {
							t.Errorf("call %d stalled: accepted, and there are %d rows", from, len(rows))
						}
						r.CheckHoldings(t)
						r.CheckLanes(t, false)
					})
					return calls
				}
				n := scenario(1 << 60)
				for from := int64(1); from <= n; from++ {
					scenario(from)
				}
				t.Logf("%d calls", n)
			})
		}
	}
}

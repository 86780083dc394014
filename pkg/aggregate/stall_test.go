package aggregate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
)

// TestARunReturnsInTimeWhateverStalls: from some call on, the store answers no
// more. The run ends by itself before its invocation does, and says so.
func TestARunReturnsInTimeWhateverStalls(t *testing.T) {
	const limit = 200 * time.Second // of the function
	scenario := func(from int64) (calls int64) {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(rig.Config(t), memtable.New(memtable.Options{}), nil)
			in := r.Intake()
			for range 5 {
				sub, refusal := intake.Decode([]byte(`{"class":"short","deadline_seconds":3600}`), intake.Header{}, r.Config)
				if refusal != nil {
					t.Fatal(refusal)
				}
				if _, err := in.Submit(t.Context(), r.Who("alpha"), sub); err != nil {
					t.Fatal(err)
				}
			}
			stalled := &rig.Stalled{Table: r.Table.Table, From: from}
			r.Table.Table = stalled
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			began := time.Now()
			rep, err := r.Aggregate().Run(ctx, true)
			if took := time.Since(began); took >= limit {
				t.Errorf("call %d and all after it stalled: the run took %s (%+v, %v)", from, took, rep, err)
			}
			calls = stalled.Calls()
		})
		return calls
	}
	n := scenario(1 << 60)
	if n < 1000 {
		t.Fatalf("only %d calls in a run", n)
	}
	for from := int64(1); from <= 60; from++ { // its first ticks
		scenario(from)
	}
	for from := n - 100; from <= n; from++ { // and its last
		scenario(from)
	}
}

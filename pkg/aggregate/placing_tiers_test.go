package aggregate_test

import (
	"encoding/json"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// TestTiersRunInTheLanesKeptForThem, of what is configured and of what is learned.
func TestTiersRunInTheLanesKeptForThem(t *testing.T) {
	kept := func(name, of string) string {
		return "  " + name + ": {tiers: [other], instead_of: " + of + ", owner: o, slo: {queue_wait_p95: 5s, oldest_age: 10s}, workers: {max_concurrency: 5}, retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []}\n"
	}
	run(t, func(t *testing.T, b *bench) {
		where := func() string { return b.lands(b.Intake(), "alpha") + " " + b.lands(b.Intake(), "beta") }
		if got := where(); got != "standard standard-other" {
			t.Errorf("in %s", got)
		}
		held := b.accepted(b.in, "beta")
		b.worked(40, seven)
		b.minutes(3)
		if got := where(); got != "heavy heavy-other" {
			t.Errorf("moved to %s", got)
		}
		b.deliver("standard-other")
		b.is("beta", held.Task.ID, task.Succeeded)
		if got := b.audit(); len(got) != 1 {
			t.Errorf("the audit has %+v", got)
		}
		lanes, err := b.in.Lanes(t.Context())
		if err != nil || len(lanes) != 5 {
			t.Errorf("%d lanes, %v", len(lanes), err)
		}
		if got, err := b.in.LaneFor(t.Context(), &task.Task{Tenant: "beta", Class: "short", Bucket: "default", Lane: "standard-other"}); err != nil || got != "heavy" {
			// Nobody has written its contract to the table yet.
			t.Errorf("a replay would go to %s, %v", got, err)
		}
		b.write(taskop.PutTenant("beta", "other"))
		if got, err := b.in.LaneFor(t.Context(), &task.Task{Tenant: "beta", Class: "short", Bucket: "default", Lane: "standard-other"}); err != nil || got != "heavy-other" {
			t.Errorf("a replay would go to %s, %v", got, err)
		}
	}, heavier("  retry:\n    role: retry\n", kept("standard-other", "standard")+kept("heavy-other", "heavy")+"  retry:\n    role: retry\n")...)
}

// TestPublishedPlacesCanBeReadByVersionsThatDoNotKnowThem: the estimate is where it was.
func TestPublishedPlacesCanBeReadByVersionsThatDoNotKnowThem(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.worked(40, seven)
		b.minutes(3)
		item, err := b.Raw.Get(t.Context(), taskop.EstimatesKey(0), true)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := taskop.Published(item)
		var old []struct {
			Class    string `json:"c"`
			Estimate struct {
				P95 int64 `json:"p95"`
			} `json:"e"`
		}
		if err := json.Unmarshal(body, &old); err != nil || len(old) != 1 || old[0].Class != "short" || old[0].Estimate.P95 < 5000 {
			t.Errorf("%s: %+v, %v", body, old, err)
		}
	}, heavier()...)
}

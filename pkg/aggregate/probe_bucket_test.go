package aggregate_test

import (
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/admission"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
)

// TestABucketIsProbedAlthoughAnotherOfItsClassGetsIn: small tasks that are accepted all the time say
// nothing about large ones, whose prior is far too high.
func TestABucketIsProbedAlthoughAnotherOfItsClassGetsIn(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		in := b.Intake()
		in.Probes = true
		submit := func(hints string) (intake.Accepted, error) {
			sub, refusal := intake.Decode([]byte(`{"class":"short","deadline_seconds":60`+hints+`}`), intake.Header{}, b.Config)
			if refusal != nil {
				t.Fatal(refusal)
			}
			return in.Submit(t.Context(), b.Who("alpha"), sub)
		}
		probed := 0
		for range admission.ProbeRefusals + 1 {
			if _, err := submit(""); err != nil {
				t.Fatalf("a small one: %v", err)
			}
			if got, err := submit(`,"hints":{"rows":1000}`); err == nil {
				probed++
				if !got.Task.Prediction.Probe || got.Task.Bucket != "large" {
					t.Errorf("%+v", got.Task)
				}
			}
			time.Sleep(admission.ProbeAfterMS * time.Millisecond / (admission.ProbeRefusals - 1))
		}
		if probed != 1 {
			t.Errorf("%d probes of large tasks", probed)
		}
		b.CheckLanes(t, true)
	}, "prior: {p50: 1s, p95: 1s}\n    cap: 1m\n  late", `prior: {p50: 1s, p95: 1s}
    cap: 1m
    sizes: {by: rows, buckets: [{name: small, from: 0}, {name: large, from: 100, prior: {p50: 5m, p95: 10m}, cap: 14m}]}
  late`)
}

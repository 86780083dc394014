package simtest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/belief"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/placement"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// bulkYAML are two lanes that the classes of plain may move to, one of them kept for a tier.
const bulkYAML = `  bulk: {owner: sim, slo: {queue_wait_p95: 30s, oldest_age: 1m}, workers: {max_concurrency: 2}, attempt_timeout: 40s,
    backlog: {max_work: 10m}, retry: {max_attempts: 2, backoff_base: 500ms, backoff_cap: 2s}, dlq: {max_receives: 5}, brakes: []}
  bulk-large: {tiers: [large], instead_of: bulk, owner: sim, slo: {queue_wait_p95: 30s, oldest_age: 1m}, workers: {max_concurrency: 3}, attempt_timeout: 40s,
    backlog: {max_work: 10m}, retry: {max_attempts: 2, backoff_base: 500ms, backoff_cap: 2s}, dlq: {max_receives: 5}, brakes: []}
  retry:
    role: retry
`

// moving is the simulated world's configuration with lanes to move to.
func moving(t *testing.T) *policy.Config {
	t.Helper()
	text := strings.Replace(configYAML, "  retry:\n    role: retry\n", bulkYAML, 1)
	text = strings.Replace(text, "    attempt_timeout: 40s\n", "    attempt_timeout: 40s\n    ceiling: {p95: 10s}\n", 1)
	cfg, err := policyfile.Parse("sim.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// places moves classes back and forth every few seconds, as if the aggregator had.
func places(w *World) {
	book := belief.FromConfig(w.cfg)
	w.after(w.between(time.Second, 8*time.Second), func() {
		if w.now().Sub(w.start) > 2*time.Minute {
			return
		}
		to := map[belief.Kind]placement.State{}
		for _, e := range book.Entries() {
			if at := e.Ladder[w.rng.IntN(len(e.Ladder))].Lane; at != e.Ladder[0].Lane {
				to[e.Kind] = placement.State{Home: e.Ladder[0].Lane, Lane: at, MovedMS: w.now().UnixMilli()}
			}
		}
		publish := taskop.Publish(0, book.With(nil, to).Encode(0), w.now().UnixMilli(), 0)
		publish.Cond = nil
		if _, err := w.table.Write(context.Background(), publish); err != nil {
			w.violate("moving classes: %v", err)
		}
		places(w)
	})
}

// TestHistoriesWhileClassesMove are random histories in which classes change their lanes all the
// time: no promise depends on where a task is admitted.
func TestHistoriesWhileClassesMove(t *testing.T) {
	cfg := moving(t)
	var mu sync.Mutex
	admitted := map[string]int{}
	inParallel(t, max(*seedsFlag/3, 150), func(t *testing.T, i int) bool {
		o, shape := Draw(*firstFlag + uint64(i))
		o.Config = cfg
		o.Saw = func(wr op.Write, before op.Item) {
			if x, err := taskop.DecodeRow(wr.Key, wr.Item); wr.Action == op.Put && before == nil && strings.HasPrefix(wr.Key.PK, "T#") && err == nil {
				mu.Lock()
				admitted[x.Lane]++
				mu.Unlock()
			}
		}
		res := Run(t, o, func(w *World) {
			places(w)
			History(shape)(w)
		})
		if len(res.Violations) > 0 {
			t.Errorf("seed %d fails, with %+v and %+v:\n\t%s", o.Seed, shape, o.Faults, strings.Join(res.Violations, "\n\t"))
		}
		return true
	})
	for _, lane := range []string{"quick", "plain", "bulk", "bulk-large"} {
		if admitted[lane] < 10 {
			t.Errorf("only %d tasks were admitted to lane %s", admitted[lane], lane)
		}
	}
}

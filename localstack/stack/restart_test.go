package stack_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/stack"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// Everything is stopped and started again while tasks are deferred: one waits
// for a downstream's Retry-After, one goes on with its checkpoint behind others, some wait for a slot. None is
// lost, none begins before its time, and the checkpoint is there.
func TestDeferredTasksSurviveARestartOfEverything(t *testing.T) {
	t.Parallel()
	const after = 4 * time.Second
	dir := t.TempDir()
	var mu sync.Mutex
	begun := map[string][]time.Time{}
	gate := make(chan struct{})
	mux := worker.New()
	mux.Handle("job", func(ctx context.Context, x *worker.Task) (any, error) {
		mu.Lock()
		begun[x.ID] = append(begun[x.ID], time.Now())
		mu.Unlock()
		var what string
		if err := x.Decode(&what); err != nil {
			return nil, err
		}
		switch {
		case what == "later" && x.Attempt == 1:
			return nil, worker.RetryAfter(after, errors.New("the downstream asks for time"))
		case what == "steps" && x.Checkpoint == nil:
			return nil, worker.Continue("half-way")
		case what == "steps":
			return x.Checkpoint, nil
		case what == "holds":
			select {
			case <-gate:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return nil, nil
	})
	s := startIn(t, dir, mux)
	later := s.submit(alpha, "job", "later")
	s.until(alpha, later.ID, events.StateRetryWait)
	steps := s.submit(alpha, "job", "steps")
	var waiting []events.Task
	for range 4 { // all slots
		waiting = append(waiting, s.submit(alpha, "job", "holds"))
	}
	for range 3 {
		waiting = append(waiting, s.submit(alpha, "job", "waits"))
	}
	if got := s.task(alpha, waiting[6].ID); got.State != events.StateWaiting && got.State != events.StateQueued {
		t.Fatalf("the last one is %s", got.State)
	}
	stopped, cancel := context.WithCancel(context.Background())
	cancel() // at once: running attempts are told to hand their tasks back
	_ = s.Stop(stopped)
	close(gate)

	s = startIn(t, dir, mux)
	got := s.until(alpha, later.ID, events.StateSucceeded)
	if got.Attempt != 2 {
		t.Errorf("%d attempts", got.Attempt)
	}
	mu.Lock()
	if b := begun[later.ID]; len(b) != 2 || b[1].Sub(b[0]) < after {
		t.Errorf("attempts began at %v, %s was asked for between them", b, after)
	}
	mu.Unlock()
	if got := s.until(alpha, steps.ID, events.StateSucceeded); string(got.Result) != `"half-way"` {
		t.Errorf("the checkpoint became %s", got.Result)
	}
	for _, x := range waiting {
		s.until(alpha, x.ID, events.StateSucceeded)
	}
	s.atRest("alpha")
}

// What is in quarantine stays within reach after its lane is gone from the
// configuration: by the lane's name, which the list without a filter does not know any more.
func TestQuarantineOfARemovedLaneIsReachedByItsName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mux := worker.New()
	f := &failing{}
	mux.Handle("aside", f.handle)
	s := startIn(t, dir, mux)
	id := s.submit(alpha, "aside", "broken").ID
	s.until(alpha, id, events.StateQuarantined)
	stop(t, s.Stack)

	from, to := strings.Index(config, "  side:\n"), strings.Index(config, "  retry:\n")
	without, err := policyfile.Parse("test.yaml", []byte(strings.ReplaceAll(config[:from]+config[to:], "lane: side", "lane: main")))
	if err != nil {
		t.Fatal(err)
	}
	s = startIn(t, dir, mux, func(o *stack.Options) { o.Config = without })
	var page events.QuarantinePage
	s.call(admin, "GET", "/v1/admin/quarantine?lane=side", nil, 200, &page)
	if len(page.Items) != 1 || page.Items[0].ID != id {
		t.Fatalf("by the lane's name: %+v", page)
	}
	f.mended.Store(true)
	var rep events.Replay
	s.call(admin, "POST", "/v1/admin/replays", map[string]any{"filter": map[string]any{"lane": "side"}, "rate": 100}, 202, &rep)
	if got := s.until(alpha, id, events.StateSucceeded); got.Lane != "main" {
		t.Errorf("it went on in lane %s", got.Lane)
	}
}

package stack_test

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/stack"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// logged gives what the process logs from now on.
func logged(t *testing.T) func() string {
	var mu sync.Mutex
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(p)
	}), nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return out.String()
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// A lane and a tier that are removed from the configuration while tasks and tenants depend on them are named at
// the start; the tenants keep their tasks and are told what is wrong.
func TestRemovedLanesAndTiersAreNamedAtTheStart(t *testing.T) {
	dir := t.TempDir()
	block := worker.New()
	block.Handle("aside", func(ctx context.Context, _ *worker.Task) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	s := startIn(t, dir, block)
	s.call(admin, "PUT", "/v1/admin/tenants/beta", map[string]any{"tier": "small"}, 200, nil)
	var ids []string
	for range 4 { // the slots of the lane
		ids = append(ids, s.submit(alpha, "aside", nil).ID)
		s.until(alpha, ids[len(ids)-1], events.StateRunning)
	}
	ids = append(ids, s.submit(alpha, "aside", nil).ID, s.submit(alpha, "aside", nil).ID)
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Stop(now) // as kill -9 does

	text := logged(t)
	free := worker.New()
	free.Handle("aside", func(context.Context, *worker.Task) (any, error) { return nil, nil })
	side, retry := strings.Index(config, "  side:"), strings.Index(config, "  retry:\n    role")
	without := config[:side] + config[retry:]
	without = strings.NewReplacer("aside: {lane: side", "aside: {lane: main", "  small: {max_queued_work: 1s, max_active: 1}\n", "").Replace(without)
	cfg, err := policyfile.Parse("test.yaml", []byte(without))
	if err != nil {
		t.Fatal(err)
	}
	s = startIn(t, dir, free, func(o *stack.Options) { o.Config = cfg })
	for _, want := range []string{`level=WARN msg="a lane that is not in the configuration still holds tasks[^"]*" lane=side tasks=[2-6]\n`, `level=WARN msg="a tier that is not[^"]*" tier=small tenants=beta\n`} {
		if !regexp.MustCompile(want).MatchString(text()) {
			t.Errorf("the log does not say %q:\n%s", want, text())
		}
	}
	var e events.Explanation
	s.call(alpha, "GET", "/v1/tasks/"+ids[5]+"/explanation", nil, 200, &e)
	if e.WaitsFor != events.WaitsOperator || !e.State.Live() || !strings.Contains(e.Detail, "not in the configuration") {
		t.Errorf("%+v", e)
	}
	if p := s.refused(beta, "POST", "/v1/tasks", map[string]any{"class": "job"}, events.Forbidden); !strings.Contains(p.Detail, `"small"`) {
		t.Errorf("%+v", p)
	}
	s.call(beta, "GET", "/v1/tasks", nil, 200, nil)
	s.call(admin, "PUT", "/v1/admin/tenants/beta", map[string]any{"tier": "basic"}, 200, nil)
	s.until(alpha, s.submit(alpha, "aside", nil).ID, events.StateSucceeded)
	for _, id := range ids { // those that ran go on in the retry lane, unless they were handed back in time
		if x := s.task(alpha, id); x.AtLane == "side" && (x.State == events.StateWaiting || x.State == events.StateQueued) {
			s.call(alpha, "POST", "/v1/tasks/"+id+"/cancel", nil, 202, nil)
		}
	}
	s.atRest(alpha[len("key-"):], "beta")
	if strings.Contains(text(), "ERROR") {
		t.Errorf("errors:\n%s", text())
	}
}

package stack_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

func quick(context.Context, *worker.Task) (any, error) { return nil, nil }

func TestPausedLaneRefusesAndLetsRunningAttemptsFinish(t *testing.T) {
	t.Parallel()
	mux := worker.New()
	finish := make(chan struct{})
	mux.Handle("job", func(ctx context.Context, _ *worker.Task) (any, error) {
		select {
		case <-finish:
			return "done", nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	s := start(t, mux)
	var running []events.Task
	for range 4 {
		running = append(running, s.submit(alpha, "job", nil))
	}
	for _, r := range running {
		s.until(alpha, r.ID, events.StateRunning)
	}
	waiting := s.submit(alpha, "job", nil)

	var lane events.Lane
	s.call(admin, "POST", "/v1/admin/lanes/main/pause", nil, 200, &lane)
	if !lane.Paused || lane.Running != 4 || lane.Waiting != 1 {
		t.Errorf("paused lane: %+v", lane)
	}
	p := s.refused(alpha, "POST", "/v1/tasks", map[string]any{"class": "job"}, events.RejectLanePaused)
	if p.Decision == nil || p.Decision.BindingLimit != "lane_paused" || p.RetryAfterSeconds < 1 {
		t.Errorf("refusal: %+v", p)
	}
	s.submit(alpha, "aside", nil) // no handler, but other lanes take work
	s.call(admin, "POST", "/v1/admin/lanes/main/pause", nil, 200, &lane)
	close(finish)
	for _, r := range running {
		s.until(alpha, r.ID, events.StateSucceeded)
	}
	s.eventually(func() (bool, string) { l := s.lane("main"); return l.Open == 0, "slots are still held" })
	if got := s.task(alpha, waiting.ID); got.State != events.StateWaiting {
		t.Errorf("a task of the paused lane is %s", got.State)
	}
	s.call(admin, "POST", "/v1/admin/lanes/main/resume", nil, 200, &lane)
	if lane.Paused {
		t.Error("still paused")
	}
	s.until(alpha, waiting.ID, events.StateSucceeded)
	s.until(alpha, s.submit(alpha, "job", nil).ID, events.StateSucceeded)
	want := []string{"lane.pause main", "lane.resume main"}
	if got := s.audit(); !slices.Equal(got, want) {
		t.Errorf("audit %v, want %v (the second pause changed nothing)", got, want)
	}
	s.refused(admin, "POST", "/v1/admin/lanes/nowhere/pause", nil, events.NotFound)
}

func TestOnlyOperatorsOperate(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for _, c := range [][2]string{
		{"GET", "/v1/admin/quarantine"}, {"POST", "/v1/admin/replays"}, {"GET", "/v1/admin/replays"},
		{"GET", "/v1/admin/replays/01234567-89ab-7def-8123-456789abcdef"}, {"DELETE", "/v1/admin/replays/01234567-89ab-7def-8123-456789abcdef"},
		{"POST", "/v1/admin/lanes/main/pause"}, {"POST", "/v1/admin/lanes/main/resume"}, {"GET", "/v1/admin/tenants/alpha"},
		{"PUT", "/v1/admin/tenants/alpha"}, {"POST", "/v1/admin/tenants/alpha/keys"}, {"DELETE", "/v1/admin/tenants/alpha/keys/key_x"},
	} {
		s.refused(alpha, c[0], c[1], nil, events.Forbidden)
		s.refused("nobody", c[0], c[1], nil, events.Unauthenticated)
	}
	s.refused(admin, "POST", "/v1/tasks/01234567-89ab-7def-8123-456789abcdef/retry", nil, events.Forbidden)
	s.refused(admin, "DELETE", "/v1/admin/tenants/alpha", nil, events.MethodNotAllowed)
	if got := s.audit(); len(got) != 0 {
		t.Errorf("refused calls are in the audit: %v", got)
	}
}

func TestTenantsAndTheirKeys(t *testing.T) {
	t.Parallel()
	mux := worker.New()
	mux.Handle("job", quick)
	dir := t.TempDir()
	s := startIn(t, dir, mux)
	var tenant events.Tenant
	s.refused(admin, "GET", "/v1/admin/tenants/gamma", nil, events.NotFound)
	s.refused(admin, "POST", "/v1/admin/tenants/gamma/keys", nil, events.NotFound)
	s.call(admin, "PUT", "/v1/admin/tenants/gamma", map[string]any{"tier": "basic"}, 201, &tenant)
	s.call(admin, "PUT", "/v1/admin/tenants/gamma", map[string]any{"tier": "basic"}, 200, &tenant)
	if tenant.ID != "gamma" || tenant.Tier != "basic" || len(tenant.Keys) != 0 {
		t.Errorf("tenant %+v", tenant)
	}
	var key, second events.NewKey
	s.call(admin, "POST", "/v1/admin/tenants/gamma/keys", nil, 201, &key)
	s.call(admin, "POST", "/v1/admin/tenants/gamma/keys", nil, 201, &second)
	if key.Key == second.Key || key.ID == second.ID {
		t.Error("two keys are one")
	}
	done := s.submit(key.Key, "job", nil)
	if done.Tenant != "gamma" {
		t.Errorf("the key stands for %s", done.Tenant)
	}
	s.call(admin, "GET", "/v1/admin/tenants/gamma", nil, 200, &tenant)
	if len(tenant.Keys) != 2 {
		t.Errorf("keys %+v", tenant.Keys)
	}
	// A change of the tier counts at once here: small takes no more than a second of work.
	s.call(admin, "PUT", "/v1/admin/tenants/gamma", map[string]any{"tier": "small"}, 200, &tenant)
	s.until(key.Key, done.ID, events.StateSucceeded)
	if q := new(events.Quote); true {
		s.call(key.Key, "POST", "/v1/quotes", map[string]any{"class": "job"}, 200, q)
		if q.Decision.TenantLimit != 1000 {
			t.Errorf("limit of the new tier: %s s", q.Decision.TenantLimit)
		}
	}
	s.call(admin, "DELETE", "/v1/admin/tenants/gamma/keys/"+key.ID, nil, 204, nil)
	s.refused(key.Key, "GET", "/v1/tasks/"+done.ID, nil, events.Unauthenticated)
	s.refused(admin, "DELETE", "/v1/admin/tenants/gamma/keys/"+key.ID, nil, events.NotFound)
	s.task(second.Key, done.ID)

	// What seeds the table has keys too, and a withdrawn one does not come back with the next start.
	s.call(admin, "GET", "/v1/admin/tenants/alpha", nil, 200, &tenant)
	if len(tenant.Keys) != 1 {
		t.Fatalf("seeded tenant %+v", tenant)
	}
	s.call(admin, "DELETE", "/v1/admin/tenants/alpha/keys/"+tenant.Keys[0].ID, nil, 204, nil)
	for _, p := range []struct {
		path string
		body any
		at   string
	}{
		{"/v1/admin/tenants/Gamma", map[string]any{"tier": "basic"}, ""},
		{"/v1/admin/tenants/gamma", map[string]any{"tier": "gold"}, "/tier"},
		{"/v1/admin/tenants/gamma", map[string]any{}, "/tier"},
		{"/v1/admin/tenants/gamma", `{"tier":"basic","tier":"small"}`, "/tier"},
		{"/v1/admin/tenants/gamma", `{"tier":"basic","id":"x"}`, "/id"},
		{"/v1/admin/tenants/gamma", `[]`, ""},
	} {
		if got := s.refused(admin, "PUT", p.path, p.body, events.InvalidRequest); len(got.Errors) == 0 || got.Errors[0].Pointer != p.at {
			t.Errorf("%s %v: %+v", p.path, p.body, got.Errors)
		}
	}
	want := []string{"tenant.create gamma", "key.create gamma", "key.create gamma", "tenant.tier gamma", "key.delete gamma", "key.delete alpha"}
	if got := s.audit(); !slices.Equal(got, want) {
		t.Errorf("audit %v", got)
	}
	stop(t, s.Stack)
	s = startIn(t, dir, mux)
	s.refused(alpha, "GET", "/v1/lanes", nil, events.Unauthenticated)
	s.task(second.Key, done.ID)
}

// failing is a handler that fails until told otherwise, by the payload's text.
type failing struct{ mended atomic.Bool }

func (f *failing) handle(_ context.Context, t *worker.Task) (any, error) {
	if f.mended.Load() {
		return "mended", nil
	}
	var text string
	if err := t.Decode(&text); err != nil {
		return nil, err
	}
	if code, ok := strings.CutPrefix(text, "permanent "); ok {
		return nil, worker.Permanent(worker.WithCode(code, errors.New(text)))
	}
	return nil, worker.WithCode(text, errors.New(text))
}

func TestQuarantineIsListedByFilterAndReplayed(t *testing.T) {
	t.Parallel()
	mux := worker.New()
	f := &failing{}
	mux.Handle("job", f.handle)
	mux.Handle("aside", f.handle)
	s := start(t, mux)
	var ids []string
	for _, c := range [][3]string{{alpha, "job", "broken"}, {beta, "job", "broken"}, {alpha, "aside", "other"}} {
		ids = append(ids, s.submit(c[0], c[1], c[2]).ID)
	}
	a, b, c := s.until(alpha, ids[0], events.StateQuarantined), s.until(beta, ids[1], events.StateQuarantined), s.until(alpha, ids[2], events.StateQuarantined)
	if a.Attempt != 2 || a.Attempts[1].Lane != "retry" || a.Error == nil || a.Error.Signature != b.Error.Signature || a.Error.Signature == c.Error.Signature {
		t.Errorf("quarantined after two equal failures, the second in the retry lane: %+v, %+v", a, c)
	}
	list := func(query string) (found []string) {
		cursor := ""
		for {
			var page events.QuarantinePage
			s.call(admin, "GET", "/v1/admin/quarantine?limit=1"+query+cursor, nil, 200, &page)
			for _, q := range page.Items {
				found = append(found, q.ID)
			}
			if page.NextCursor == "" {
				return found
			}
			cursor = "&cursor=" + string(page.NextCursor)
		}
	}
	for query, want := range map[string][]string{
		"": ids, "&lane=side": ids[2:], "&class=job": ids[:2], "&tenant=beta": ids[1:2], "&min_age_seconds=3600": nil,
		"&signature=" + c.Error.Signature: ids[2:], "&signature=" + a.Error.Signature + "&tenant=alpha": ids[:1], "&lane=retry": nil,
	} {
		got := list(query)
		slices.Sort(got)
		want = slices.Clone(want)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q lists %v, want %v", query, got, want)
		}
	}
	s.refused(admin, "GET", "/v1/admin/quarantine?cursor=garbage", nil, events.InvalidRequest)
	s.refused(admin, "GET", "/v1/admin/quarantine?limit=0&lane=A", nil, events.InvalidRequest)
	s.atRest("alpha", "beta")

	var rep events.Replay
	filter := map[string]any{"class": "job"}
	s.call(admin, "POST", "/v1/admin/replays", map[string]any{"filter": filter, "dry_run": true}, 200, &rep)
	if rep.Matched != 2 || rep.State != events.ReplayDryRun || rep.Admitted != 0 {
		t.Errorf("dry run %+v", rep)
	}
	f.mended.Store(true)
	s.call(admin, "POST", "/v1/admin/replays", map[string]any{"filter": filter, "rate": 100}, 202, &rep)
	s.until(alpha, ids[0], events.StateSucceeded)
	again := s.until(beta, ids[1], events.StateSucceeded)
	if again.ID != b.ID || len(again.Attempts) != 3 || again.DeadlineAt <= b.DeadlineAt {
		t.Errorf("replayed: %+v", again)
	}
	s.eventually(func() (bool, string) {
		s.call(admin, "GET", "/v1/admin/replays/"+rep.ID, nil, 200, &rep)
		return rep.State == events.ReplayFinished, "the replay is " + string(rep.State)
	})
	if rep.Admitted != 2 || rep.Matched != 2 || rep.Refused != 0 || rep.FinishedAt == 0 {
		t.Errorf("replay %+v", rep)
	}
	if got := s.task(alpha, ids[2]); got.State != events.StateQuarantined {
		t.Errorf("what the filter did not mean is %s", got.State)
	}
	var retried events.Task
	s.call(alpha, "POST", "/v1/tasks/"+ids[2]+"/retry", nil, 202, &retried)
	if retried.ID != ids[2] || retried.Error != nil {
		t.Errorf("retried %+v", retried)
	}
	s.until(alpha, ids[2], events.StateSucceeded)
	s.refused(alpha, "POST", "/v1/tasks/"+ids[2]+"/retry", nil, events.AlreadyFinished)
	s.refused(beta, "POST", "/v1/tasks/"+ids[2]+"/retry", nil, events.NotFound)
	if got := list(""); len(got) != 0 {
		t.Errorf("still in quarantine: %v", got)
	}
	var page events.ReplayPage
	s.call(admin, "GET", "/v1/admin/replays?limit=1", nil, 200, &page)
	if len(page.Items) != 1 || page.Items[0].ID != rep.ID {
		t.Errorf("replays %+v", page)
	}
	s.refused(admin, "GET", "/v1/admin/replays?cursor=garbage", nil, events.InvalidRequest)
	s.atRest("alpha", "beta")
}

func TestReplayIsStopped(t *testing.T) {
	t.Parallel()
	mux := worker.New()
	f := &failing{}
	mux.Handle("aside", f.handle)
	s := start(t, mux)
	var ids []string
	for _, text := range []string{"a", "b", "c"} {
		ids = append(ids, s.submit(alpha, "aside", text).ID)
	}
	for _, id := range ids {
		s.until(alpha, id, events.StateQuarantined)
	}
	f.mended.Store(true)
	var rep events.Replay
	s.call(admin, "POST", "/v1/admin/replays", map[string]any{"filter": map[string]any{"tenant": "alpha"}, "rate": 0.001}, 202, &rep)
	if rep.Matched != 3 || rep.State != events.ReplayRunning {
		t.Errorf("replay %+v", rep)
	}
	s.call(admin, "DELETE", "/v1/admin/replays/"+rep.ID, nil, 200, &rep)
	if rep.State != events.ReplayStopped || rep.FinishedAt == 0 {
		t.Errorf("stopped replay %+v", rep)
	}
	s.call(admin, "DELETE", "/v1/admin/replays/"+rep.ID, nil, 200, &rep)
	s.refused(admin, "DELETE", "/v1/admin/replays/01234567-89ab-7def-8123-456789abcdef", nil, events.NotFound)
	for _, id := range ids {
		if got := s.task(alpha, id); got.State != events.StateQuarantined {
			t.Errorf("%s is %s", id, got.State)
		}
	}
	// A cancel leads out of quarantine too.
	var cancelled events.Task
	s.call(alpha, "POST", "/v1/tasks/"+ids[0]+"/cancel", nil, 202, &cancelled)
	var page events.QuarantinePage
	s.call(admin, "GET", "/v1/admin/quarantine", nil, 200, &page)
	if len(page.Items) != 2 {
		t.Errorf("quarantine %+v", page.Items)
	}
	for _, body := range []string{`{}`, `{"filter":{}}`, `{"filter":{"lane":"main"},"rate":0}`, `{"filter":{"lane":"main"},"limit":0}`,
		`{"filter":{"lane":"main","x":1}}`, `{"filter":{"lane":7}}`, `{"filter":{"lane":"main"},"dry_run":"yes"}`, `{"filter":[]}`, `{"filter":{"min_age_seconds":-1}}`} {
		s.refused(admin, "POST", "/v1/admin/replays", body, events.InvalidRequest)
	}
	if got := s.audit(); !slices.Equal(got, []string{"replay.start " + rep.ID, "replay.stop " + rep.ID}) {
		t.Errorf("audit %v", got)
	}
}

func TestFailedTaskIsRetriedAsANewTaskOnce(t *testing.T) {
	t.Parallel()
	mux := worker.New()
	f := &failing{}
	mux.Handle("job", f.handle)
	mux.Handle("once", f.handle)
	s := start(t, mux)
	failed := s.until(alpha, s.submit(alpha, "job", "permanent no").ID, events.StateFailed)
	final := s.until(alpha, s.submit(alpha, "once", "broken").ID, events.StateFailed)
	if final.Attempt != 1 || !final.Error.Retryable {
		t.Errorf("a failure of a class that is not retried: %+v", final)
	}
	f.mended.Store(true)
	var again, twice events.Task
	header := s.call(alpha, "POST", "/v1/tasks/"+failed.ID+"/retry", nil, 202, &again)
	if again.ID == failed.ID || header.Get("Location") != "/v1/tasks/"+again.ID || again.Class != "job" ||
		again.DeadlineAt-again.SubmittedAt != failed.DeadlineAt-failed.SubmittedAt {
		t.Errorf("retry %+v", again)
	}
	s.call(alpha, "POST", "/v1/tasks/"+failed.ID+"/retry", nil, 200, &twice)
	if twice.ID != again.ID {
		t.Errorf("retried twice: %s and %s", again.ID, twice.ID)
	}
	if got := s.until(alpha, again.ID, events.StateSucceeded); string(got.Result) != `"mended"` {
		t.Errorf("result %s", got.Result)
	}
	if got := s.task(alpha, failed.ID); got.State != events.StateFailed || got.FinishedAt != failed.FinishedAt {
		t.Errorf("the failed task is %s", got.State)
	}
	s.atRest("alpha")
}

func TestPayloadThatFailsAcrossSubmissionsIsQuarantinedAtOnce(t *testing.T) {
	t.Parallel()
	mux := worker.New()
	mux.Handle("job", (&failing{}).handle)
	s := start(t, mux)
	s.until(alpha, s.submit(alpha, "job", "poison").ID, events.StateQuarantined)
	second := s.until(alpha, s.submit(alpha, "job", "poison").ID, events.StateQuarantined)
	if second.Attempt != 1 {
		t.Errorf("the second task of a payload that failed before was tried %d times", second.Attempt)
	}
	if other := s.until(beta, s.submit(beta, "job", "poison").ID, events.StateQuarantined); other.Attempt != 2 {
		t.Errorf("another tenant's task was tried %d times", other.Attempt)
	}
	s.atRest("alpha", "beta")
}

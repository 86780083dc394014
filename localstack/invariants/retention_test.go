package invariants

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// forgetting is a rig on the embedded engine whose clock stands still, and a worker
// that ends a task as its payload says.
type forgetting struct {
	*rig.Rig
	t   *testing.T
	db  *embed.DB
	now *rig.Manual
	in  *intake.Service
}

func newForgetting(t *testing.T) *forgetting {
	f := &forgetting{t: t, now: rig.NewManual()}
	var err error
	if f.db, err = embed.Open(filepath.Join(t.TempDir(), "db"), embed.Options{Now: f.now.Now}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.db.Close() })
	f.Rig = rig.New(rig.Config(t), f.db.Table(), f.now.Now)
	f.in = f.Intake()
	return f
}

// long is more than is kept on the row.
var long = strings.Repeat("x", 500)

func (f *forgetting) submit(key, says string) *task.Task {
	f.t.Helper()
	body := `{"class":"short","deadline_seconds":60,"payload":{"says":"` + says + `","more":"` + long + `"}}`
	out, err := f.in.Submit(f.t.Context(), f.Who("alpha"), submission(f.Rig, key, body))
	if err != nil {
		f.t.Fatal(err)
	}
	return out.Task
}

func (f *forgetting) deliver() {
	mux := worker.New()
	mux.Handle("short", func(_ context.Context, x *worker.Task) (any, error) {
		switch {
		case strings.Contains(string(x.Payload), "fail"):
			return nil, worker.Permanent(errors.New("no"))
		default:
			return long, nil
		}
	})
	f.Deliver(f.t.Context(), f.Execute(mux), "standard", 0)
}

// rows are the states of all rows, and how many items stand beside them.
func (f *forgetting) rows() (states map[task.State]int, beside int) {
	f.t.Helper()
	states = map[task.State]int{}
	for _, x := range f.Tasks(f.t) {
		states[x.State]++
	}
	if err := f.db.Table().Scan(f.t.Context(), "Y#", func(op.Row) bool { beside++; return true }); err != nil {
		f.t.Fatal(err)
	}
	return states, beside
}

func (f *forgetting) tidy() int {
	f.t.Helper()
	n, err := f.db.Tidy(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

func (f *forgetting) missing(id string) {
	f.t.Helper()
	for what, call := range map[string]func() error{
		"read":   func() error { _, err := f.in.Get(f.t.Context(), f.Who("alpha"), id, 0); return err },
		"cancel": func() error { _, _, err := f.in.Cancel(f.t.Context(), f.Who("alpha"), id); return err },
		"retry":  func() error { _, _, err := f.in.Retry(f.t.Context(), f.Who("alpha"), id); return err },
	} {
		var r *intake.Refusal
		if err := call(); !errors.As(err, &r) || r.Code != events.NotFound {
			f.t.Errorf("%s of a task that is gone: %v", what, err)
		}
	}
}

// TestFinishedTasksAreForgottenAfterTheirRetention ends tasks in every way and lets
// the retention pass: to the last second all is there, the keys included; then
// rows, payloads and results go.
func TestFinishedTasksAreForgottenAfterTheirRetention(t *testing.T) {
	f := newForgetting(t)
	retention := f.Config.Tasks.Retention.Std()
	done := f.submit("key", "done")
	f.submit("", "done")
	f.deliver()
	failed := f.submit("", "fail")
	f.deliver()
	cancelled := f.submit("", "done")
	if _, _, err := f.in.Cancel(t.Context(), f.Who("alpha"), cancelled.ID); err != nil {
		t.Fatal(err)
	}
	f.deliver()
	f.submit("", "done")
	f.now.Advance(time.Minute) // past its deadline: the worker that hears of it lets it expire
	f.deliver()
	states, beside := f.rows()
	if states[task.Succeeded] != 2 || states[task.Failed] != 1 || states[task.Cancelled] != 1 || states[task.Expired] != 1 {
		t.Fatalf("%v", states)
	}
	if beside != 5+2 {
		t.Fatalf("%d payloads and results", beside)
	}
	if n := f.tidy(); n != 0 {
		t.Fatalf("%d items went at once", n)
	}
	f.now.Advance(retention - time.Minute - time.Second)
	if f.tidy(); len(f.Tasks(t)) != 5 {
		t.Fatalf("rows went before their time: %v", f.Tasks(t))
	}
	if again := f.submit("key", "done"); again.ID != done.ID || again.State != task.Succeeded {
		t.Fatalf("the key was forgotten too early: %+v", again)
	}
	f.now.Advance(time.Minute + time.Second)
	f.tidy()
	if states, beside = f.rows(); len(states) != 0 || beside != 0 {
		t.Fatalf("left are %v and %d beside", states, beside)
	}
	f.missing(done.ID)
	f.missing(failed.ID)
	f.CheckQuiet(t)
	if again := f.submit("key", "other"); again.ID != done.ID || again.State != task.Queued || again.ExpiresMS != 0 {
		t.Fatalf("a forgotten key makes a new task: %+v", again)
	}
	f.deliver()
	f.CheckQuiet(t)
}

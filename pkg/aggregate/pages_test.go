package aggregate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// firstEmpty is a table whose queries all begin with an empty page.
type firstEmpty struct{ op.Table }

func (f firstEmpty) Query(ctx context.Context, q op.Query) (op.Page, error) {
	const begin = "begin"
	switch q.Cursor {
	case "":
		return op.Page{Cursor: begin}, nil
	case begin:
		q.Cursor = ""
	}
	return f.Table.Query(ctx, q)
}

// TestEmptyPagesWithACursorHideNoWork: pages that are empty, or end after one
// row, and are not the last. What is due is visited, what waits is released.
func TestEmptyPagesWithACursorHideNoWork(t *testing.T) {
	pages := 0
	for name, table := range map[string]func() op.Table{
		"two of three are": func() op.Table {
			return memtable.New(memtable.Options{EmptyPage: func() bool { pages++; return pages%3 != 0 }, ShortPage: func() bool { return true }})
		},
		"the first is": func() op.Table { return firstEmpty{memtable.New(memtable.Options{})} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(rig.Config(t), table(), nil)
				mux := worker.New()
				mux.Handle("short", func(context.Context, *worker.Task) (any, error) { time.Sleep(time.Second); return nil, nil })
				svc := r.Execute(mux)
				for range 12 {
					sub, refusal := intake.Decode([]byte(`{"class":"short","deadline_seconds":3600}`), intake.Header{}, r.Config)
					if refusal != nil {
						t.Fatal(refusal)
					}
					if _, err := r.Intake().Submit(t.Context(), r.Who("alpha"), sub); err != nil {
						t.Fatal(err)
					}
				}
				r.Queue.Purge("standard") // what was sent is found by its due time only
				ctx, stop := context.WithCancel(t.Context())
				ran := make(chan struct{})
				go func() { _, _ = r.Aggregate().Run(ctx, true); close(ran) }()
				for range 120 {
					r.Deliver(ctx, svc, "standard", time.Minute)
					time.Sleep(time.Second)
				}
				stop()
				<-ran
				for _, x := range r.Tasks(t) {
					if x.State != task.Succeeded {
						t.Errorf("%s is %s", x.ID, x.State)
					}
				}
				r.CheckHoldings(t)
				r.CheckLanes(t, false)
			})
		})
	}
}

package sqsevent_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"testing"

	lambdaevents "github.com/aws/aws-lambda-go/events"

	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/sqsevent"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// panicking is a store whose reads panic.
type panicking struct{ op.Table }

func (panicking) Get(context.Context, op.Key, bool) (op.Item, error) { panic("a bug") }

// TestAPanicNeverYieldsAnEmptyFailureList: an empty list has SQS delete the whole
// batch. A panic of our own ends the invocation, so that the batch comes again; one
// in a handler is its task's failure, and the others of the batch go on; what nobody can read is listed.
func TestAPanicNeverYieldsAnEmptyFailureList(t *testing.T) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	r := rig.New(rig.Config(t), memtable.New(memtable.Options{}), nil)
	sub, refusal := intake.Decode([]byte(`{"class":"short","deadline_seconds":3600}`), intake.Header{}, r.Config)
	if refusal != nil {
		t.Fatal(refusal)
	}
	if _, err := r.Intake().Submit(t.Context(), r.Who("alpha"), sub); err != nil {
		t.Fatal(err)
	}
	d, _ := r.Queue.Take("standard")
	batch := lambdaevents.SQSEvent{Records: []lambdaevents.SQSMessage{
		{MessageId: "unreadable", Body: `{"v":9}`}, {MessageId: "good", Body: string(d.Body), Attributes: map[string]string{"ApproximateReceiveCount": "1"}},
	}}
	mux := worker.New()
	mux.Handle("short", func(context.Context, *worker.Task) (any, error) { panic("a bug") })
	h := sqsevent.New(r.Execute(mux), "standard")

	sound := r.Table.Table
	r.Table.Table = panicking{sound}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the invocation went on after a panic")
			}
		}()
		resp, err := h.Handle(t.Context(), batch)
		t.Errorf("answered %+v, %v", resp, err)
	}()

	r.Table.Table = sound // the next invocation
	resp, err := h.Handle(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := json.Marshal(resp); string(got) != `{"batchItemFailures":[{"itemIdentifier":"unreadable"}]}` {
		t.Errorf("answered %s", got)
	}
	x := r.Tasks(t)[0]
	if x.Attempt != 1 || x.Error == nil || x.Error.Code != "panic" {
		t.Errorf("%+v", x)
	}
}

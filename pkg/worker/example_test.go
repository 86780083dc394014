package worker_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// A worker of your own is a handler for each class; lambdaworker.Start(mux) in
// main then serves the lane that the environment names. Here the handler is
// called as the engine calls it.
func Example() {
	mux := worker.New()
	mux.Handle("mail.send", func(ctx context.Context, t *worker.Task) (any, error) {
		var mail struct{ To string }
		return "sent", t.Decode(&mail)
	})

	handle, _ := mux.Handler("mail.send")
	fmt.Println(handle(context.Background(), &worker.Task{Payload: json.RawMessage(`{"to":"ann@example.org"}`)}))
	fmt.Println(mux.Classes())
	// Output:
	// sent <nil>
	// [mail.send]
}

// A long task goes on in a later attempt, where it left off.
func ExampleContinue() {
	migrate := func(ctx context.Context, t *worker.Task) (any, error) {
		done := 0
		if t.Checkpoint != nil {
			_ = json.Unmarshal(t.Checkpoint, &done)
		}
		if done += 500; done < 1000 {
			return nil, worker.Continue(done)
		}
		return done, nil
	}
	_, err := migrate(context.Background(), &worker.Task{})
	checkpoint, goesOn := worker.CheckpointOf(err)
	fmt.Println(string(checkpoint), goesOn)
	fmt.Println(migrate(context.Background(), &worker.Task{Checkpoint: checkpoint}))
	// Output:
	// 500 true
	// 1000 <nil>
}

package stack_test

import (
	"context"
	"testing"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/stack"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

func TestMessagesOfUnknownVersionsAreParkedAndOthersFlow(t *testing.T) {
	t.Parallel()
	mux := worker.New()
	mux.Handle("job", quick)
	s := start(t, mux)
	ctx := context.Background()
	for _, body := range []string{`{"v":2,"future":true}`, "garbage", `{"v":2,"future":true}`} {
		if err := s.DB().Queues().Send(ctx, stack.DeadLetters("main"), queue.Outgoing{Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	s.until(alpha, s.submit(alpha, "job", nil).ID, events.StateSucceeded)
	s.eventually(func() (bool, string) { return len(s.audit()) == 2, "the audit does not have one entry for each" })
	s.eventually(func() (bool, string) {
		n, err := s.DB().Queues().Counts(ctx, stack.DeadLetters("main"))
		return err == nil && n == (queue.Counts{}), "the dead-letter queue is not empty"
	})
}

// A message moved back by hand, or by SQS's own redrive, is one more wake-up for
// a task that is over.
func TestNativeRedriveOfOldMessagesIsHarmless(t *testing.T) {
	t.Parallel()
	mux := worker.New()
	mux.Handle("job", quick)
	s := start(t, mux)
	done := s.until(alpha, s.submit(alpha, "job", nil).ID, events.StateSucceeded)
	for gen := range int64(3) {
		if err := s.DB().Queues().Send(context.Background(), "main", queue.Outgoing{Body: string(events.NewMessage("alpha", done.ID, gen).Encode())}); err != nil {
			t.Fatal(err)
		}
	}
	s.eventually(func() (bool, string) {
		n, err := s.DB().Queues().Counts(context.Background(), "main")
		return err == nil && n == (queue.Counts{}), "the old messages are still there"
	})
	if now := s.task(alpha, done.ID); now.Attempt != 1 || now.FinishedAt != done.FinishedAt {
		t.Errorf("%+v", now)
	}
	s.atRest("alpha")
}

func TestAHandlerThatPanicsFailsItsTaskAndNothingElse(t *testing.T) {
	t.Parallel()
	mux := worker.New()
	mux.Handle("job", func(_ context.Context, task *worker.Task) (any, error) {
		if task.Attempt == 1 {
			panic("out of cheese")
		}
		return task.Attempt, nil
	})
	mux.Handle("aside", quick)
	s := start(t, mux)
	id, other := s.submit(alpha, "job", nil).ID, s.submit(alpha, "aside", nil).ID
	got := s.until(alpha, id, events.StateSucceeded)
	if got.Attempt != 2 || got.Attempts[0].Outcome != events.AttemptFailed || got.Attempts[0].Signature == "" || got.Attempts[1].Lane != "retry" {
		t.Errorf("attempts %+v", got.Attempts)
	}
	s.until(alpha, other, events.StateSucceeded)
	s.atRest("alpha")
}

// One fault behind many tasks halts their class: what comes later waits and is
// not burnt, other classes of the lane go on, and once it is mended the class is
// let go by itself.
func TestACommonFaultHaltsItsClassUntilItIsMended(t *testing.T) {
	t.Parallel()
	mux := worker.New()
	f := &failing{}
	mux.Handle("job", f.handle)
	mux.Handle("once", quick)
	s := start(t, mux)
	var burnt, kept []string
	s.eventually(func() (bool, string) {
		burnt = append(burnt, s.submit(alpha, "job", "the database is down").ID)
		l := s.lane("main")
		return l.Halts("job"), "the class is not halted"
	})
	for range 6 {
		kept = append(kept, s.submit(alpha, "job", "the database is down").ID)
	}
	s.until(alpha, s.submit(alpha, "once", nil).ID, events.StateSucceeded)
	started := 0
	for _, id := range kept {
		if now := s.task(alpha, id); now.Attempt > 0 {
			started++
		}
	}
	if started > 1 {
		t.Errorf("%d tasks of the halted class were started", started)
	}
	f.mended.Store(true)
	for _, id := range kept {
		if got := s.until(alpha, id, events.StateSucceeded); got.Attempt > 2 {
			t.Errorf("it took %d attempts", got.Attempt)
		}
	}
	for _, id := range burnt {
		s.eventually(func() (bool, string) {
			now := s.task(alpha, id)
			return !now.State.Live(), "still " + string(now.State)
		})
	}
	s.atRest("alpha")
}

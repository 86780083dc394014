package mapping_test

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/localstack/function"
	"github.com/lanekeeper/lanekeeper/localstack/mapping"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

var _ mapping.Source = (*embed.Queues)(nil)

// On the embedded queue: every message is handled, those that fail again after
// their visibility, and nothing is left.
func TestOnTheEmbeddedQueue(t *testing.T) {
	db, err := embed.Open(filepath.Join(t.TempDir(), "db"), embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	q := db.Queues()
	if err := q.Create(t.Context(), "lane", queue.Config{Visibility: time.Minute}); err != nil {
		t.Fatal(err)
	}
	const messages = 60
	var mu sync.Mutex
	handled, failedOnce := map[int]bool{}, map[int]bool{}
	all := make(chan struct{})
	finish := sync.OnceFunc(func() { close(all) })
	m, err := mapping.Start(t.Context(), mapping.Config{
		Queue: "lane", Source: q, MaxConcurrency: 4, ReportBatchItemFailures: true,
		FunctionTimeout: time.Second, Visibility: time.Second,
		Handler: function.Handler(func(_ context.Context, e events.SQSEvent) (out events.SQSEventResponse, err error) {
			mu.Lock()
			defer mu.Unlock()
			for _, r := range e.Records {
				n, err := strconv.Atoi(r.Body)
				if err != nil {
					return out, err
				}
				if n%10 == 0 && !failedOnce[n] {
					failedOnce[n] = true
					out.BatchItemFailures = append(out.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: r.MessageId})
					continue
				}
				if handled[n] = true; len(handled) == messages {
					finish()
				}
			}
			return out, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		if err := q.Send(t.Context(), "lane", queue.Outgoing{Body: strconv.Itoa(i)}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-all:
	case <-time.After(20 * time.Second):
		t.Error("not all came back")
	}
	if err := m.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	counts, err := q.Counts(t.Context(), "lane")
	if err != nil || counts != (queue.Counts{}) {
		t.Errorf("left %+v, %v; stats %+v", counts, err, m.Stats())
	}
}

package mapping

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lanekeeper/lanekeeper/localstack/function"
)

type handlerFunc func(ctx context.Context, payload []byte) ([]byte, error)

func (f handlerFunc) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return f(ctx, payload)
}

func answer(out string) handlerFunc {
	return func(context.Context, []byte) ([]byte, error) { return []byte(out), nil }
}

// config has a function timeout of 10 s and a visibility of 60 s.
func config(q *fakeQueue, h lambda.Handler) Config {
	return Config{
		Queue: "lane", Source: q, Handler: h,
		FunctionTimeout: 10 * time.Second, Visibility: time.Minute,
		BatchSize: 10, MaxConcurrency: 2, ReportBatchItemFailures: true,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

func start(t *testing.T, cfg Config) *Mapping {
	t.Helper()
	m, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func stop(t *testing.T, m *Mapping) {
	t.Helper()
	if err := m.Stop(t.Context()); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestAnswers(t *testing.T) {
	none, all := []string{}, []string{"a/1", "b/1", "c/1"}
	fail := handlerFunc(func(context.Context, []byte) ([]byte, error) { return nil, errors.New("no") })
	for name, tc := range map[string]struct {
		handler lambda.Handler
		plain   bool // without ReportBatchItemFailures
		left    []string
	}{
		"null":                   {answer(`null`), false, none},
		"nothing":                {answer(``), false, none},
		"empty object":           {answer(`{}`), false, none},
		"empty list":             {answer(`{"batchItemFailures":[]}`), false, none},
		"null list":              {answer(`{"batchItemFailures":null}`), false, none},
		"other fields":           {answer(`{"status":"fine","batchitemfailures":[{"itemIdentifier":"a"}]}`), false, none},
		"one failure":            {answer(`{"batchItemFailures":[{"itemIdentifier":"b"}]}`), false, []string{"b/1"}},
		"two failures, one":      {answer(`{"batchItemFailures":[{"itemIdentifier":"c"},{"itemIdentifier":"a"},{"itemIdentifier":"a"}]}`), false, []string{"a/1", "c/1"}},
		"unknown id":             {answer(`{"batchItemFailures":[{"itemIdentifier":"b"},{"itemIdentifier":"zzz"}]}`), false, all},
		"empty id":               {answer(`{"batchItemFailures":[{"itemIdentifier":""}]}`), false, all},
		"null id":                {answer(`{"batchItemFailures":[{"itemIdentifier":null}]}`), false, all},
		"wrong key":              {answer(`{"batchItemFailures":[{"itemidentifier":"b"}]}`), false, all},
		"id of wrong type":       {answer(`{"batchItemFailures":[{"itemIdentifier":7}]}`), false, all},
		"list of wrong type":     {answer(`{"batchItemFailures":"b"}`), false, all},
		"elements of wrong type": {answer(`{"batchItemFailures":["b"]}`), false, all},
		"broken JSON":            {answer(`{"batchItemFailures":[`), false, all},
		"no object":              {answer(`"ok"`), false, all},
		"error":                  {fail, false, all},
		"panic":                  {handlerFunc(func(context.Context, []byte) ([]byte, error) { panic("x") }), false, all},
		"plain":                  {answer(`{"batchItemFailures":[{"itemIdentifier":"b"}]}`), true, none},
		"plain and broken":       {answer(`nonsense`), true, none},
		"plain and error":        {fail, true, all},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFakeQueue("a", "b", "c")
				cfg := config(q, tc.handler)
				cfg.ReportBatchItemFailures = !tc.plain
				m := start(t, cfg)
				synctest.Wait()
				if got := q.left(); !reflect.DeepEqual(got, tc.left) {
					t.Errorf("left %v, want %v", got, tc.left)
				}
				stop(t, m)
				if s := m.Stats(); s.Deleted != int64(3-len(tc.left)) || s.Kept != int64(len(tc.left)) || s.Received != 3 || s.Batches != 1 {
					t.Errorf("stats %+v", s)
				}
			})
		})
	}
}

func TestFailedMessagesComeBackWithAHigherCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var seen []string
		q := newFakeQueue("a", "b")
		m := start(t, config(q, function.Handler(func(_ context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
			var out events.SQSEventResponse
			for _, r := range e.Records {
				count := r.Attributes["ApproximateReceiveCount"]
				seen = append(seen, fmt.Sprint(time.Since(begin), " ", r.MessageId, " ", count))
				if r.MessageId == "b" && count != "3" {
					out.BatchItemFailures = append(out.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: r.MessageId})
				}
			}
			return out, nil
		})))
		time.Sleep(5 * time.Minute)
		stop(t, m)
		want := []string{"0s a 1", "0s b 1", "1m0s b 2", "2m0s b 3"}
		if !reflect.DeepEqual(seen, want) {
			t.Errorf("seen %v, want %v", seen, want)
		}
		if got := q.left(); len(got) != 0 {
			t.Errorf("left %v", got)
		}
	})
}

func TestConcurrencyIsBoundedAndTheRestStaysInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		for i := range 20 {
			q.send(fmt.Sprint(i))
		}
		cfg := config(q, handlerFunc(func(context.Context, []byte) ([]byte, error) {
			time.Sleep(time.Second)
			return nil, nil
		}))
		cfg.BatchSize, cfg.MaxConcurrency = 1, 4
		m := start(t, cfg)
		synctest.Wait()
		received := 0
		for _, left := range q.left() {
			if strings.HasSuffix(left, "/1") {
				received++
			}
		}
		if received != 4 {
			t.Errorf("%d messages were received while 4 slots are busy", received)
		}
		if polls := q.polled(); polls != 4 {
			t.Errorf("%d polls, want 4: none without a free slot", polls)
		}
		time.Sleep(5*time.Second + time.Millisecond)
		if got := q.left(); len(got) != 0 {
			t.Errorf("20 messages of 1 s on 4 slots are not done after 5 s: %v", got)
		}
		if s := m.Stats().Function; s.MaxRunning != 4 || s.Invocations != 20 {
			t.Errorf("stats %+v", s)
		}
		stop(t, m)
	})
}

func TestHungHandlerIsAbandonedAndItsMessagesComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		release := make(chan struct{})
		var mu sync.Mutex
		var seen []time.Duration
		q := newFakeQueue("a")
		m := start(t, config(q, handlerFunc(func(context.Context, []byte) ([]byte, error) {
			mu.Lock()
			first := len(seen) == 0
			seen = append(seen, time.Since(begin))
			mu.Unlock()
			if first {
				<-release // deaf to its context
			}
			return nil, nil
		})))
		time.Sleep(10*time.Second + time.Millisecond)
		if s := m.Stats(); s.Function.Timeouts != 1 || s.Function.Running != 0 || s.Function.Abandoned != 1 || s.Kept != 1 {
			t.Errorf("after the timeout: %+v", s)
		}
		close(release) // a late success
		synctest.Wait()
		if got := q.left(); !slices.Equal(got, []string{"a/1"}) {
			t.Errorf("the late answer counted: left %v", got)
		}
		time.Sleep(time.Minute)
		if got := q.left(); len(got) != 0 || !slices.Equal(seen, []time.Duration{0, time.Minute}) {
			t.Errorf("left %v, invoked at %v", got, seen)
		}
		stop(t, m)
	})
}

func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var batches []string
		q := newFakeQueue()
		cfg := config(q, function.EventHandler(func(_ context.Context, e events.SQSEvent) error {
			batches = append(batches, fmt.Sprint(time.Since(begin), " ", len(e.Records)))
			return nil
		}))
		cfg.BatchSize, cfg.Window = 4, 5*time.Second
		m := start(t, cfg)
		time.Sleep(30 * time.Second) // the window starts with the first message
		q.send("a")
		time.Sleep(2 * time.Second)
		q.send("b")
		time.Sleep(8 * time.Second) // 40 s
		q.send("c", "d")
		time.Sleep(time.Second)
		q.send("e", "f", "g") // one more than fits: a new window
		time.Sleep(20 * time.Second)
		stop(t, m)
		want := []string{"35s 2", "41s 4", "46s 1"}
		if !reflect.DeepEqual(batches, want) {
			t.Errorf("batches %v, want %v", batches, want)
		}
	})
}

func TestLargeBatchIsSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue("a", "b", "c", "d", "e", "f", "g")
		for _, m := range q.messages {
			m.Body = strings.Repeat("x", 1<<20)
		}
		var sizes []int
		m := start(t, config(q, handlerFunc(func(_ context.Context, payload []byte) ([]byte, error) {
			sizes = append(sizes, bytes.Count(payload, []byte(`"messageId"`)))
			return nil, nil
		})))
		synctest.Wait()
		stop(t, m)
		if got := q.left(); len(got) != 0 || !slices.Equal(sizes, []int{3, 4}) {
			t.Errorf("left %v, batches of %v", got, sizes)
		}
	})
}

func TestReceiveErrorsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue("a")
		q.failNext = 8 // 0.1 + 0.2 + … + 6.4 + 6.4 s
		m := start(t, config(q, answer(`null`)))
		time.Sleep(19 * time.Second)
		if got := q.polled(); got != 8 {
			t.Errorf("%d polls in 19 s, want 8", got)
		}
		time.Sleep(time.Second)
		if got, s := q.left(), m.Stats(); len(got) != 0 || s.Faults != 8 {
			t.Errorf("left %v, stats %+v", got, s)
		}
		stop(t, m)
	})
}

func TestEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got map[string]any
		q := newFakeQueue("m1")
		q.messages[0].Body = `{"v":1,"t":"<&>"}`
		q.messages[0].Attributes = map[string]string{"trace": "00-ab-cd-01", "alpha": "ä"}
		m := start(t, config(q, handlerFunc(func(_ context.Context, payload []byte) ([]byte, error) {
			if !strings.Contains(string(payload), `<&>`) {
				t.Errorf("body is escaped for HTML in %s", payload)
			}
			return nil, json.Unmarshal(payload, &got)
		})))
		synctest.Wait()
		stop(t, m)
		attribute := func(value string) map[string]any {
			return map[string]any{"stringValue": value, "dataType": "String", "stringListValues": []any{}, "binaryListValues": []any{}}
		}
		want := map[string]any{"Records": []any{map[string]any{
			"messageId": "m1", "receiptHandle": "m1/1", "body": `{"v":1,"t":"<&>"}`,
			"md5OfBody":              "053f737753a0062b5166f0e59c39a816",
			"md5OfMessageAttributes": "2308170ee0e6d2bf50933dfd59c14b8e",
			"attributes": map[string]any{
				"ApproximateReceiveCount": "1", "SenderId": "000000000000",
				"SentTimestamp": "946684800000", "ApproximateFirstReceiveTimestamp": "946684800000",
			},
			"messageAttributes": map[string]any{"trace": attribute("00-ab-cd-01"), "alpha": attribute("ä")},
			"eventSource":       "aws:sqs", "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:lane", "awsRegion": "us-east-1",
		}}}
		if !reflect.DeepEqual(got, want) {
			g, _ := json.MarshalIndent(got, "", " ")
			t.Errorf("got %s", g)
		}
	})
}

func TestConfigFaultsComeTogether(t *testing.T) {
	cfg := config(newFakeQueue(), nil)
	cfg.FunctionTimeout, cfg.BatchSize, cfg.Window, cfg.MaxConcurrency, cfg.Visibility = 0, 11, -1, 1, -time.Second
	_, err := Start(t.Context(), cfg)
	for _, want := range []string{"handler", "function timeout", "batch size 11", "window", "maximum concurrency 1", "visibility"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func FuzzDecodeFailures(f *testing.F) {
	f.Add(`{"batchItemFailures":[{"itemIdentifier":"a"}]}`)
	f.Add(`null`)
	batch := map[string]bool{"a": true, "b": true}
	f.Fuzz(func(t *testing.T, out string) {
		failed, err := decodeFailures([]byte(out), batch)
		for id := range failed {
			if err != nil || !batch[id] {
				t.Errorf("%q, %v", id, err)
			}
		}
	})
}

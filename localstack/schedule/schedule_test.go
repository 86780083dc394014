package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// recorder is a handler that notes when it was invoked and then does do.
type recorder struct {
	begin time.Time
	do    func(ctx context.Context) error

	mu       sync.Mutex
	runs     []time.Duration
	payloads []string
}

func (r *recorder) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	r.mu.Lock()
	r.runs = append(r.runs, time.Since(r.begin))
	r.payloads = append(r.payloads, string(payload))
	r.mu.Unlock()
	return nil, r.do(ctx)
}

func (r *recorder) seen() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]time.Duration{}, r.runs...)
}

func takes(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// setup starts a schedule of one minute with a timeout of three.
func setup(t *testing.T, do func(context.Context) error, change func(*Config)) (*Schedule, *recorder) {
	t.Helper()
	r := &recorder{begin: time.Now(), do: do}
	cfg := Config{
		Name: "aggregator", Every: time.Minute, Handler: r, Timeout: 3 * time.Minute,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if change != nil {
		change(&cfg)
	}
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, r
}

func TestRunsAtStartAndEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := setup(t, takes(0), nil)
		time.Sleep(3*time.Minute + time.Second)
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Minute)
		want := []time.Duration{0, time.Minute, 2 * time.Minute, 3 * time.Minute}
		if got := r.seen(); !reflect.DeepEqual(got, want) {
			t.Errorf("ran at %v, want %v", got, want)
		}
		if err := s.Invoke(); !errors.Is(err, ErrStopped) {
			t.Errorf("invoke after stop: %v", err)
		}
	})
}

func TestRunsOverlapAndExtraRunsAreAsynchronous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := setup(t, takes(150*time.Second), nil)
		time.Sleep(10 * time.Second)
		begin := time.Now()
		if err := s.Invoke(); err != nil || time.Since(begin) != 0 {
			t.Errorf("invoke took %v, %v", time.Since(begin), err)
		}
		time.Sleep(2 * time.Minute)
		if got := s.Stats(); got.Running != 4 {
			t.Errorf("%d run, want 4", got.Running)
		}
		if err := s.Stop(t.Context()); err != nil { // waits for the last one, started at 120 s
			t.Error(err)
		}
		if took := time.Since(r.begin); took != 270*time.Second {
			t.Errorf("stopped after %v, want 4m30s", took)
		}
		want := []time.Duration{0, 10 * time.Second, time.Minute, 2 * time.Minute}
		if got := r.seen(); !reflect.DeepEqual(got, want) {
			t.Errorf("ran at %v, want %v", got, want)
		}
	})
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s, _ := setup(t, func(context.Context) error { <-release; return nil }, func(c *Config) { c.Every = time.Hour })
		time.Sleep(3*time.Minute - time.Second)
		if got := s.Stats(); got.Running != 1 || got.Timeouts != 0 {
			t.Errorf("before the timeout: %+v", got)
		}
		time.Sleep(2 * time.Second)
		if got := s.Stats(); got.Running != 0 || got.Timeouts != 1 {
			t.Errorf("after the timeout: %+v", got)
		}
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		close(release)
	})
}

func TestRetries(t *testing.T) {
	for retries, want := range [][]time.Duration{
		{0}, {0, time.Minute}, {0, time.Minute, 3 * time.Minute},
	} {
		t.Run(fmt.Sprint(retries), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, r := setup(t, func(context.Context) error { return errors.New("no") }, func(c *Config) {
					c.Every, c.Retries = time.Hour, retries
				})
				time.Sleep(30 * time.Minute)
				if got := r.seen(); !reflect.DeepEqual(got, want) {
					t.Errorf("ran at %v, want %v", got, want)
				}
				for _, p := range r.payloads {
					if p != r.payloads[0] {
						t.Errorf("a retry has another event: %s", p)
					}
				}
				if err := s.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestStopEndsARetryThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := setup(t, func(context.Context) error { return errors.New("no") }, func(c *Config) { c.Retries = 2 })
		time.Sleep(time.Second)
		begin := time.Now()
		if err := s.Stop(t.Context()); err != nil || time.Since(begin) != 0 {
			t.Errorf("stop took %v, %v", time.Since(begin), err)
		}
	})
}

func TestStopGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := setup(t, takes(time.Hour), nil)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begin := time.Now()
		if err := s.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 5*time.Second {
			t.Errorf("stop took %v, %v", time.Since(begin), err)
		}
		if got := s.Stats(); got.Running != 0 || got.Abandoned != 0 {
			t.Errorf("stats %+v", got)
		}
	})
}

func TestEvent(t *testing.T) {
	now := time.Date(2026, 3, 12, 20, 3, 58, 390e6, time.FixedZone("", 3600))
	got := Event("arn:aws:scheduler:us-east-1:1:schedule/default/x", func() string { return "id-1" })(now)
	want := `{"account":"000000000000","detail":"{}","detail-type":"Scheduled Event","id":"id-1","region":"us-east-1",` +
		`"resources":["arn:aws:scheduler:us-east-1:1:schedule/default/x"],"source":"aws.scheduler","time":"2026-03-12T19:03:58Z","version":"0"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var e events.EventBridgeEvent
	if err := json.Unmarshal(got, &e); err != nil || !e.Time.Equal(now.Truncate(time.Second)) {
		t.Errorf("decoded to %+v, %v", e, err)
	}
}

func TestConfigFaultsComeTogether(t *testing.T) {
	_, err := Start(t.Context(), Config{Retries: 3})
	for _, want := range []string{"handler", "interval", "timeout", "retries 3"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

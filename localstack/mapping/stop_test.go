package mapping

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStopDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue("a")
		m := start(t, config(q, handlerFunc(func(ctx context.Context, _ []byte) ([]byte, error) {
			select {
			case <-time.After(3 * time.Second):
				return nil, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})))
		synctest.Wait()
		time.AfterFunc(time.Second, func() { q.send("too late") })
		begin := time.Now()
		stop(t, m)
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("stopped after %v, want 3s", took)
		}
		if got := q.left(); !slices.Equal(got, []string{"too late/0"}) {
			t.Errorf("left %v", got)
		}
		stop(t, m) // again, harmless
	})
}

func TestStopGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		q := newFakeQueue("polite", "deaf")
		cfg := config(q, handlerFunc(func(ctx context.Context, payload []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, nil
		}))
		cfg.BatchSize = 1
		var log strings.Builder
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		m := start(t, cfg)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		begin := time.Now()
		if err := m.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stop: %v", err)
		}
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("stopped after %v, want 2s: both handlers heed their context", took)
		}
		if got := q.left(); !slices.Equal(got, []string{"polite/1", "deaf/1"}) {
			t.Errorf("killed batches were deleted: left %v", got)
		}
		// Nothing is wrong: it is said once, with what remains.
		if out := log.String(); strings.Contains(out, "ERROR") || strings.Count(out, "\n") != 1 || !strings.Contains(out, "level=WARN") || !strings.Contains(out, "invocations=2") {
			t.Errorf("log:\n%s", out)
		}
	})
}

func TestStopWaitsASecondForDeafHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		q := newFakeQueue("a")
		m := start(t, config(q, handlerFunc(func(context.Context, []byte) ([]byte, error) {
			<-release
			return nil, nil
		})))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begin := time.Now()
		if err := m.Stop(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("stop: %v", err)
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("stopped after %v, want 1s", took)
		}
		close(release)
		synctest.Wait()
	})
}

func TestStopInAWindowGivesMessagesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue("a", "b")
		cfg := config(q, handlerFunc(func(context.Context, []byte) ([]byte, error) {
			t.Error("a batch started after Stop")
			return nil, nil
		}))
		cfg.Window = 30 * time.Second
		m := start(t, cfg)
		time.Sleep(time.Second)
		stop(t, m)
		messages, err := q.Receive(t.Context(), "lane", 10, 0, time.Minute)
		if err != nil || len(messages) != 2 {
			t.Errorf("visible again: %v, %v; want both", messages, err)
		}
		if s := m.Stats(); s.Returned != 2 || s.Batches != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestEndOfContextStopsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue("a")
		ctx, cancel := context.WithCancel(t.Context())
		m, err := Start(ctx, config(q, handlerFunc(func(ctx context.Context, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, nil
		})))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		synctest.Wait() // all goroutines end, or the bubble reports a deadlock
		if got := q.left(); !slices.Equal(got, []string{"a/1"}) {
			t.Errorf("left %v", got)
		}
		stop(t, m)
	})
}

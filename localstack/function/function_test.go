package function

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

type handlerFunc func(ctx context.Context, payload []byte) ([]byte, error)

func (f handlerFunc) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return f(ctx, payload)
}

func quiet(c Config) Config {
	c.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	return c
}

func TestInvokeGivesTheContextOfLambda(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(handlerFunc(func(ctx context.Context, payload []byte) ([]byte, error) {
			lc, ok := lambdacontext.FromContext(ctx)
			if !ok {
				return nil, errors.New("no lambdacontext")
			}
			deadline, _ := ctx.Deadline()
			return []byte(fmt.Sprint(lc.AwsRequestID, " ", lc.InvokedFunctionArn, " ", time.Until(deadline), " ", string(payload))), nil
		}), quiet(Config{Name: "admission", Timeout: 7 * time.Second, NewID: func() string { return "req-1" }}))
		got, err := f.Invoke(t.Context(), []byte("in"))
		want := "req-1 arn:aws:lambda:us-east-1:000000000000:function:admission 7s in"
		if err != nil || string(got) != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	})
}

func TestInvokeFailures(t *testing.T) {
	boom := errors.New("boom")
	big := make([]byte, MaxResponseBytes+1)
	for name, tc := range map[string]struct {
		handler handlerFunc
		payload []byte
		want    Kind
	}{
		"ok":                      {func(context.Context, []byte) ([]byte, error) { return big[:MaxResponseBytes], nil }, make([]byte, MaxRequestBytes), ""},
		"handler error":           {func(context.Context, []byte) ([]byte, error) { return nil, boom }, nil, Failed},
		"panic":                   {func(context.Context, []byte) ([]byte, error) { panic("ouch") }, nil, Crashed},
		"goexit":                  {func(context.Context, []byte) ([]byte, error) { runtime.Goexit(); return nil, nil }, nil, Crashed},
		"response too large":      {func(context.Context, []byte) ([]byte, error) { return big, nil }, nil, ResponseTooLarge},
		"request too large":       {func(context.Context, []byte) ([]byte, error) { return nil, nil }, make([]byte, MaxRequestBytes+1), RequestTooLarge},
		"ignores context":         {func(context.Context, []byte) ([]byte, error) { time.Sleep(time.Hour); return nil, nil }, nil, TimedOut},
		"answers at the deadline": {func(ctx context.Context, _ []byte) ([]byte, error) { <-ctx.Done(); return []byte("late"), nil }, nil, TimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := New(tc.handler, quiet(Config{}))
				_, err := f.Invoke(t.Context(), tc.payload)
				if got := KindOf(err); got != tc.want || (err != nil) != (tc.want != "") {
					t.Fatalf("got %v (%v), want %v", got, err, tc.want)
				}
				if tc.want == Failed && !errors.Is(err, boom) {
					t.Errorf("the handler's error is lost in %v", err)
				}
				if s := f.Stats(); s.Running != 0 {
					t.Errorf("%d still running", s.Running)
				}
				if err := f.Drain(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestHungHandlerIsAbandonedAndItsSlotIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := New(handlerFunc(func(_ context.Context, payload []byte) ([]byte, error) {
			if string(payload) == "hang" {
				<-release
			}
			return []byte("done"), nil
		}), quiet(Config{Timeout: 5 * time.Second, Reserved: 1}))

		start := time.Now()
		if _, err := f.Invoke(t.Context(), []byte("hang")); KindOf(err) != TimedOut {
			t.Fatalf("got %v", err)
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("ended after %v, want 5s", took)
		}
		if s := f.Stats(); s.Abandoned != 1 || s.Running != 0 || s.Timeouts != 1 {
			t.Errorf("stats %+v", s)
		}
		if out, err := f.Invoke(t.Context(), nil); err != nil || string(out) != "done" {
			t.Errorf("the next invocation got %q, %v", out, err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drain with a hung handler: %v", err)
		}
		close(release)
		if err := f.Drain(t.Context()); err != nil {
			t.Errorf("drain: %v", err)
		}
		if s := f.Stats(); s.Abandoned != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestReservedConcurrencyThrottles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(handlerFunc(func(ctx context.Context, _ []byte) ([]byte, error) {
			time.Sleep(time.Second)
			return nil, nil
		}), quiet(Config{Reserved: 2}))
		kinds := make(chan Kind, 5)
		for range 5 {
			go func() {
				_, err := f.Invoke(t.Context(), nil)
				kinds <- KindOf(err)
			}()
		}
		count := map[Kind]int{}
		for range 5 {
			count[<-kinds]++
		}
		if count[""] != 2 || count[Throttled] != 3 {
			t.Errorf("got %v", count)
		}
		if s := f.Stats(); s.MaxRunning != 2 || s.Throttles != 3 || s.Invocations != 2 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestCancelKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(handlerFunc(func(ctx context.Context, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}), quiet(Config{}))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := f.Invoke(ctx, nil)
		if KindOf(err) != Killed || !strings.Contains(err.Error(), "killed") {
			t.Errorf("got %v", err)
		}
	})
}

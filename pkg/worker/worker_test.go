package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

func nothing(context.Context, *worker.Task) (any, error) { return nil, nil }

func panics(f func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	f()
	return ""
}

func TestMistakesInMainPanic(t *testing.T) {
	mux := worker.New()
	mux.Handle("a", nothing)
	if got := panics(func() { mux.Handle("a", nothing) }); !strings.Contains(got, "a") || got == "<nil>" {
		t.Errorf("a second handler: %q", got)
	}
	if got := panics(func() { mux.Handle("b", nil) }); !strings.Contains(got, "b") || got == "<nil>" {
		t.Errorf("no handler: %q", got)
	}
	if _, ok := mux.Handler("b"); ok {
		t.Error("b has a handler")
	}
	mux.Handle("0", nothing)
	if got := mux.Classes(); !slices.Equal(got, []string{"0", "a"}) {
		t.Errorf("%v", got)
	}
}

func TestMarksOfErrorsCombineAndUnwrap(t *testing.T) {
	cause := errors.New("cause")
	err := fmt.Errorf("around: %w", worker.Permanent(worker.WithCode("quota", worker.RetryAfter(time.Minute, cause))))
	if !errors.Is(err, cause) || !worker.IsPermanent(err) || worker.Code(err) != "quota" || worker.AfterOf(err) != time.Minute || err.Error() != "around: cause" {
		t.Errorf("%v: permanent %v, code %s, after %v", err, worker.IsPermanent(err), worker.Code(err), worker.AfterOf(err))
	}
	if worker.Code(cause) != "handler_error" || worker.IsPermanent(cause) || worker.AfterOf(cause) != 0 {
		t.Error("an unmarked error has marks")
	}
	if worker.Permanent(nil) != nil || worker.WithCode("x", nil) != nil || worker.RetryAfter(1, nil) != nil {
		t.Error("a mark made an error of nil")
	}
	if got := worker.Code(worker.WithCode(strings.Repeat("x", 100), cause)); len(got) != 64 {
		t.Errorf("a code of %d characters", len(got))
	}
}

func TestCheckpointsAreBoundedJSON(t *testing.T) {
	fits := strings.Repeat("x", worker.MaxCheckpoint-2)
	if got, ok := worker.CheckpointOf(fmt.Errorf("wrapped: %w", worker.Continue(fits))); !ok || len(got) != worker.MaxCheckpoint {
		t.Errorf("%d bytes, %v", len(got), ok)
	}
	for name, err := range map[string]error{"too large": worker.Continue(fits + "y"), "no JSON": worker.Continue(func() {})} {
		if _, ok := worker.CheckpointOf(err); ok || !worker.IsPermanent(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProgressTooLargeIsDropped(t *testing.T) {
	var got []string
	x := &worker.Task{}
	x.Progress(1) // nobody listens
	x.OnProgress(func(b json.RawMessage) { got = append(got, string(b)) })
	x.Progress(map[string]int{"n": 1})
	x.Progress(strings.Repeat("x", worker.MaxProgress))
	x.Progress(make(chan int))
	if !slices.Equal(got, []string{`{"n":1}`}) {
		t.Errorf("%q", got)
	}
}

func TestSleepDoesAsItsPayloadSays(t *testing.T) {
	for name, c := range map[string]struct {
		payload string
		attempt int
		took    time.Duration
		result  string
		err     string
		final   bool
	}{
		"nothing":            {``, 1, 0, `{"slept_ms":0,"attempt":1}`, "", false},
		"a while":            {`{"sleep_ms":2500}`, 1, 2500 * time.Millisecond, `{"slept_ms":2500,"attempt":1}`, "", false},
		"a failure":          {`{"sleep_ms":10,"fail":"no"}`, 7, 10 * time.Millisecond, "", "no", false},
		"a failure at first": {`{"sleep_ms":10,"fail":"no","fail_times":2}`, 2, 10 * time.Millisecond, "", "no", false},
		"but not later":      {`{"sleep_ms":10,"fail":"no","fail_times":2}`, 3, 10 * time.Millisecond, `{"slept_ms":10,"attempt":3}`, "", false},
		"too long":           {`{"sleep_ms":86400001}`, 1, 0, "", "sleep_ms must be 0 to 86400000", true},
		"negative":           {`{"sleep_ms":-1}`, 1, 0, "", "sleep_ms must be 0 to 86400000", true},
		"no such payload":    {`[]`, 1, 0, "", "payload: ", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sleep, ok := worker.Builtin("sleep")
				if !ok {
					t.Fatal("there is no sleep")
				}
				began := time.Now()
				v, err := sleep(t.Context(), &worker.Task{Attempt: c.attempt, Payload: json.RawMessage(c.payload)})
				if took := time.Since(began); took != c.took {
					t.Errorf("took %v", took)
				}
				if c.err != "" {
					if err == nil || !strings.HasPrefix(err.Error(), c.err) || worker.IsPermanent(err) != c.final {
						t.Errorf("%v", err)
					}
					return
				}
				if b, _ := json.Marshal(v); err != nil || string(b) != c.result {
					t.Errorf("%s, %v", b, err)
				}
			})
		})
	}
	if _, ok := worker.Builtin("dream"); ok {
		t.Error("there is a builtin for everything")
	}
}

func TestSleepStopsWhenItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeoutCause(t.Context(), 1500*time.Millisecond, worker.ErrTimeLimit)
		defer stop()
		var progress []string
		x := &worker.Task{Payload: json.RawMessage(`{"sleep_ms":60000}`)}
		x.OnProgress(func(b json.RawMessage) { progress = append(progress, string(b)) })
		if _, err := worker.Sleep(ctx, x); !errors.Is(err, worker.ErrTimeLimit) || !slices.Equal(progress, []string{`{"of_ms":60000,"slept_ms":1000}`}) {
			t.Errorf("%v, progress %v", err, progress)
		}
	})
}

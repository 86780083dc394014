package worker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// SleepPayload is what the built-in handler "sleep" takes.
type SleepPayload struct {
	SleepMS   int64  `json:"sleep_ms"`             // 0 to 24 h
	Fail      string `json:"fail,omitempty"`       // end with this error
	FailTimes int    `json:"fail_times,omitempty"` // but only in the first so many attempts; 0 is always
}

// SleepResult is what it returns.
type SleepResult struct {
	SleptMS int64 `json:"slept_ms"`
	Attempt int   `json:"attempt"`
}

// Sleep is the built-in handler "sleep": it does nothing for a while, reports
// progress once a second, and fails on request. For demonstrations and tests.
func Sleep(ctx context.Context, t *Task) (any, error) {
	var p SleepPayload
	if len(t.Payload) > 0 {
		if err := t.Decode(&p); err != nil {
			return nil, err
		}
	}
	const day = 24 * 60 * 60 * 1000
	if p.SleepMS < 0 || p.SleepMS > day {
		return nil, Permanent(fmt.Errorf("sleep_ms must be 0 to %d", day))
	}
	var slept time.Duration
	end := time.NewTimer(time.Duration(p.SleepMS) * time.Millisecond)
	defer end.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
			slept += time.Second
			t.Progress(map[string]int64{"slept_ms": slept.Milliseconds(), "of_ms": p.SleepMS})
		case <-end.C:
			if p.Fail != "" && (p.FailTimes == 0 || t.Attempt <= p.FailTimes) {
				return nil, WithCode("sleep_fail", errors.New(p.Fail))
			}
			return SleepResult{SleptMS: p.SleepMS, Attempt: t.Attempt}, nil
		}
	}
}

// Builtin returns a built-in handler by the name that a class's target gives.
func Builtin(name string) (Handler, bool) {
	if name == "sleep" {
		return Sleep, true
	}
	return nil, false
}

package apigw

import (
	"encoding/json"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/task"
)

// view is a task as its tenant sees it.
func view(t *task.Task, nowMS int64) events.Task {
	v := events.Task{
		ID: t.ID, Class: t.Class, Bucket: t.Bucket, Tenant: t.Tenant, Lane: t.Lane, Priority: t.Priority, AtLane: t.AtLane,
		State: events.State(t.State), Attempt: int(t.Attempt), SubmittedAt: events.Time(t.SubmittedMS), DeadlineAt: events.Time(t.DeadlineMS),
		StartedAt: events.Time(t.StartedMS),
		Prediction: events.Prediction{Wait: events.Seconds(t.Prediction.WaitMS), ServiceP50: events.Seconds(t.Prediction.P50MS),
			ServiceP95: events.Seconds(t.Prediction.P95MS), Margin: events.Seconds(t.Prediction.MargMS),
			StartBy: events.Time(t.StartByMS), FinishBy: events.Time(t.DeadlineMS)},
		Delayed: delayed(t, nowMS), CancelRequested: t.CancelRequested, Links: events.LinksOf(t.ID),
	}
	if t.State.Terminal() {
		v.FinishedAt = events.Time(t.FinishedMS)
	}
	if t.Progress != "" {
		v.Progress = json.RawMessage(t.Progress)
	}
	if t.State == task.Succeeded && t.Result != "" {
		v.Result = json.RawMessage(t.Result)
	}
	if t.Error != nil {
		v.Error = &events.TaskError{Code: t.Error.Code, Signature: t.Error.Signature, Message: t.Error.Message, Retryable: t.Error.Retryable}
	}
	for _, a := range t.Attempts {
		v.Attempts = append(v.Attempts, events.Attempt{Attempt: int(a.N), StartedAt: events.Time(a.StartMS), EndedAt: events.Time(a.EndMS),
			Outcome: events.AttemptOutcome(a.Outcome), Lane: a.Lane, Signature: a.Signature, Error: a.Message, DownstreamCalls: a.Calls})
	}
	if t.State == task.Running {
		v.Attempts = append(v.Attempts, events.Attempt{Attempt: int(t.Attempt), StartedAt: events.Time(t.AttemptMS),
			Outcome: events.AttemptRunning, Lane: t.AtLane})
	}
	return v
}

// delayed says whether a task that has not started is behind its prediction.
func delayed(t *task.Task, nowMS int64) bool {
	return t.State.Live() && t.StartedMS == 0 && nowMS > t.Since()+t.Prediction.WaitMS+t.Prediction.MargMS
}

// Bounds of the guidance on when to ask again, in seconds.
const (
	pollLeast = 1
	pollMost  = 30
)

// pollAfter is when a live task is worth asking for again: about when it should
// have finished, by its prediction.
func pollAfter(t *task.Task, nowMS int64) int64 {
	expected := t.Since() + t.Prediction.WaitMS + t.Prediction.P50MS
	switch t.State {
	case task.Running:
		expected = t.AttemptMS + t.Prediction.P50MS
	case task.RetryWait:
		expected = t.NotBeforeMS + t.Prediction.P50MS
	}
	return min(max((expected-nowMS+999)/1000, pollLeast), pollMost)
}

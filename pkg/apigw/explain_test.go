package apigw_test

import (
	"context"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// TestExplanations go through what a task can wait for; each is held against the document.
func TestExplanations(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		submit := func(body string) string {
			id := decoded[seen](t, a.call("POST", "/v1/tasks", body)).ID
			time.Sleep(time.Millisecond)
			return id
		}
		explain := func(id string) events.Explanation {
			t.Helper()
			resp := a.call("GET", "/v1/tasks/"+id+"/explanation", "")
			if resp.StatusCode != 200 {
				t.Fatalf("%+v", resp)
			}
			return decoded[events.Explanation](t, resp)
		}
		first, second := submit(`{"class":"short","ordering_key":"k"}`), submit(`{"class":"short"}`)
		held, waiting, behind := submit(`{"class":"short","ordering_key":"k"}`), submit(`{"class":"short"}`), submit(`{"class":"short"}`)
		for id, want := range map[string]events.WaitsFor{first: events.WaitsNothing, second: events.WaitsNothing, held: events.WaitsOrderingKey, waiting: events.WaitsSlot, behind: events.WaitsSlot} {
			e := explain(id)
			if e.ID != id || e.WaitsFor != want || e.Detail == "" || e.Decision.Code != events.Accept || e.Decision.Lane != "standard" || e.Decision.Estimate != 1000 || e.Decision.Slots != 2 {
				t.Errorf("want %s: %+v", want, e)
			}
		}
		if e := explain(held); e.Name != first || e.WorkAhead < 1000 || e.PredictedWait < 1000 {
			t.Errorf("held: %+v", e)
		}
		if near, far := explain(waiting), explain(behind); near.WorkAhead > far.WorkAhead || far.WorkAhead < 2000 || far.Decision.QueuedWork != 4000 {
			t.Errorf("%+v, behind it %+v", near, far)
		}
		got := decoded[events.Task](t, a.call("GET", "/v1/tasks/"+behind, ""))
		if got.Position == nil || *got.Position < 2000 || got.Delayed || got.ExpectedStart != 0 {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Minute) // nobody works
		got = decoded[events.Task](t, a.call("GET", "/v1/tasks/"+behind, ""))
		if !got.Delayed || got.ExpectedStart <= events.Time(time.Now().UnixMilli()) {
			t.Errorf("a minute later: %+v", got)
		}
		a.work(func(context.Context, *worker.Task) (any, error) { return nil, nil })
		if e := explain(first); e.WaitsFor != events.WaitsNothing || e.State != events.StateSucceeded || e.WorkAhead != 0 {
			t.Errorf("over: %+v", e)
		}
		if got := decoded[events.Task](t, a.call("GET", "/v1/tasks/"+first, "")); got.Position != nil || got.ExpectedStart != 0 {
			t.Errorf("over: %+v", got)
		}
		if resp := a.do(request("GET", "/v1/tasks/"+first+"/explanation", "key-beta", "")); resp.StatusCode != 404 {
			t.Errorf("somebody else's: %+v", resp)
		}
	})
}

package contract

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/lanekeeper/lanekeeper/events"
)

func idempotencyCases() []testCase {
	const body = `{"class":"mail.send","payload":{"sleep_ms":1,"list":[1,2]},"priority":"normal","deadline_seconds":600}`
	same := func(name, again string) testCase {
		return testCase{name: "idempotency/" + name, run: func(c *C) {
			key := http.Header{"Idempotency-Key": {c.unique("same")}}
			first := c.submitAs("", body, key)
			c.wantReplay(again, key, first.ID)
		}}
	}
	other := func(name, again string) testCase {
		return testCase{name: "idempotency/" + name, run: func(c *C) {
			key := http.Header{"Idempotency-Key": {c.unique("other")}}
			first := c.submitAs("", body, key)
			c.send(request{method: http.MethodPost, path: "/v1/tasks", body: []byte(again), header: key}).wantCode(c, events.IdempotencyConflict)
			c.wantReplay(body, key, first.ID)
		}}
	}
	return []testCase{
		same("the same request gives the same task", body),
		same("keys in another order", `{"deadline_seconds":600,"priority":"normal","payload":{"list":[1,2],"sleep_ms":1},"class":"mail.send"}`),
		same("other white space and escapes", "{ \"class\" : \"mail\\u002esend\",\n\"payload\":{\"sleep_ms\":1,\"list\":[ 1,2 ]},\"priority\":\"normal\",\"deadline_seconds\":600 }"),
		other("another payload is 409", `{"class":"mail.send","payload":{"sleep_ms":2,"list":[1,2]},"priority":"normal","deadline_seconds":600}`),
		other("another order of an array is 409", `{"class":"mail.send","payload":{"sleep_ms":1,"list":[2,1]},"priority":"normal","deadline_seconds":600}`),
		other("another class is 409", `{"class":"agent.lint","payload":{"sleep_ms":1,"list":[1,2]},"priority":"normal","deadline_seconds":600}`),
		other("another deadline is 409", `{"class":"mail.send","payload":{"sleep_ms":1,"list":[1,2]},"priority":"normal","deadline_seconds":601}`),
		{name: "idempotency/still the same task when it has finished", run: func(c *C) {
			key := http.Header{"Idempotency-Key": {c.unique("done")}}
			first := c.submitAs("", short, key)
			c.await("", first.ID)
			if t := c.wantReplay(short, key, first.ID); t.State != events.StateSucceeded {
				c.errorf("the replay says %s", t.State)
			}
		}},
		{name: "idempotency/another tenant's key is another task", run: func(c *C) {
			key := http.Header{"Idempotency-Key": {c.unique("shared")}}
			a := c.submitAs(c.cfg.Keys.A, short, key)
			b := c.submitAs(c.cfg.Keys.B, short, key)
			if a.ID == b.ID || a.Tenant == b.Tenant {
				c.errorf("ids %s and %s, tenants %s and %s", a.ID, b.ID, a.Tenant, b.Tenant)
			}
		}},
		{name: "idempotency/a refused request may use its key again", run: func(c *C) {
			key := http.Header{"Idempotency-Key": {c.unique("again")}}
			c.send(request{method: http.MethodPost, path: "/v1/tasks", header: key,
				body: []byte(`{"class":"mail.send","deadline_seconds":0.001}`)}).wantCode(c, events.DeadlineInfeasible)
			got := c.send(request{method: http.MethodPost, path: "/v1/tasks", header: key, body: []byte(short)})
			got.want(c, http.StatusAccepted)
			if got.header.Get("Idempotency-Replayed") != "" {
				c.errorf("the key was taken by a refused request")
			}
		}},
		{name: "idempotency/20 at once are one task", run: atOnce},
	}
}

// wantReplay sends a request again and gives the task of the answer.
func (c *C) wantReplay(body string, key http.Header, id string) events.Task {
	got := c.send(request{method: http.MethodPost, path: "/v1/tasks", body: []byte(body), header: key})
	got.want(c, http.StatusAccepted)
	t, err := got.task()
	c.must(err)
	if t.ID != id || got.header.Get("Idempotency-Replayed") != "true" {
		c.errorf("replay gave task %s (was %s), Idempotency-Replayed %q", t.ID, id, got.header.Get("Idempotency-Replayed"))
	}
	return t
}

func atOnce(c *C) {
	key := http.Header{"Idempotency-Key": {c.unique("burst")}}
	replies, err := c.parallel(20, func(int) request {
		return request{method: http.MethodPost, path: "/v1/tasks", body: []byte(short), header: key}
	})
	c.must(err)
	ids, fresh := map[string]int{}, 0
	for _, r := range replies {
		if r.status != http.StatusAccepted {
			c.errorf("%s", r)
			continue
		}
		t, err := r.task()
		c.must(err)
		ids[t.ID]++
		if r.header.Get("Idempotency-Replayed") == "" {
			fresh++
		}
	}
	if len(ids) != 1 || fresh != 1 {
		c.errorf("%d tasks, %d answers without Idempotency-Replayed; want one of each: %v", len(ids), fresh, ids)
	}
}

// parallel sends n requests at once.
func (c *C) parallel(n int, build func(i int) request) ([]reply, error) {
	replies, errs := make([]reply, n), make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			replies[i], errs[i] = c.do(build(i))
		})
	}
	close(start)
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("request %d of %d: %w", i+1, n, err)
		}
	}
	return replies, nil
}

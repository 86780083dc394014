package contract

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
)

type fakeTask struct {
	events.Task
	request  string // canonical
	amount   events.Seconds
	sleep    time.Duration
	fail     string
	failures int // how many attempts still fail; below 0: all
	stop     chan struct{}
}

func now() events.Time { return events.Time(time.Now().UnixMilli()) }

func (f *fake) submit(w http.ResponseWriter, r *http.Request, tenant string, quote bool) {
	s, canonical, ok := f.read(w, r, quote)
	if !ok {
		return
	}
	if s.Priority == "" {
		s.Priority = "normal"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	if id, used := f.keys[tenant+"/"+key]; used && key != "" && !quote {
		t := f.tasks[id]
		if t.request != canonical {
			refuse(w, events.IdempotencyConflict, "Another request has this key.")
			return
		}
		w.Header().Set("Idempotency-Replayed", "true")
		w.Header().Set("Location", events.TaskPath(id))
		write(w, 202, events.MediaJSON, t.Task)
		return
	}
	if _, known := fakeClasses[s.Class]; !known {
		refuse(w, events.UnknownClass, "No such class.")
		return
	}
	if s.Priority == "high" || s.Priority == "critical" {
		refuse(w, events.ForbiddenPriority, "Too high.")
		return
	}
	d, bucket := f.decide(s, tenant)
	if quote {
		write(w, 200, events.MediaJSON, events.Quote{Outcome: d.Code, Decision: d})
		return
	}
	if d.Code != events.Accept {
		refuse(w, d.Code, "It cannot be done.", func(p *events.Problem) { p.Decision = &d })
		return
	}
	at := now()
	deadline := at + events.Time(d.Deadline)
	id := fmt.Sprintf("task-%06d-x", len(f.order))
	t := &fakeTask{request: canonical, amount: d.Estimate, sleep: time.Duration(s.Payload.SleepMS) * time.Millisecond, fail: s.Payload.Fail,
		stop: make(chan struct{}), Task: events.Task{ID: id, Class: s.Class, Bucket: bucket, Tenant: tenant, Lane: d.Lane, Priority: s.Priority,
			AtLane: d.Lane, State: events.StateWaiting, SubmittedAt: at, DeadlineAt: deadline, Links: events.LinksOf(id),
			Prediction: events.Prediction{ServiceP50: fakeClasses[s.Class].p50, ServiceP95: d.ServiceP95, Margin: d.Margin,
				StartBy: deadline - events.Time(d.ServiceP95), FinishBy: at + events.Time(d.ServiceP95)}}}
	if t.fail != "" {
		t.failures = -1
		if s.Payload.FailTimes != nil {
			t.failures = *s.Payload.FailTimes
		}
	}
	f.tasks[id] = t
	f.order = append(f.order, id)
	if key != "" {
		f.keys[tenant+"/"+key] = id
	}
	f.work[tenant] += t.amount
	w.Header().Set("Location", events.TaskPath(id))
	write(w, 202, events.MediaJSON, t.Task)
	f.startNext()
}

// startNext starts what may run, two at once for each tenant. The lock is held.
func (f *fake) startNext() {
	for _, id := range f.order {
		t := f.tasks[id]
		if t.State != events.StateWaiting || f.active[t.Tenant] >= 2 {
			continue
		}
		t.State = events.StateRunning
		t.Attempt++
		if t.StartedAt == 0 {
			t.StartedAt = now()
		}
		t.Attempts = append(t.Attempts, events.Attempt{Attempt: t.Attempt, StartedAt: now(), Outcome: events.AttemptRunning, Lane: t.AtLane})
		f.work[t.Tenant] -= t.amount
		f.active[t.Tenant]++
		go f.run(t)
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fake) run(t *fakeTask) {
	timer := time.NewTimer(t.sleep)
	defer timer.Stop()
	stopped := false
	select {
	case <-timer.C:
	case <-t.stop:
		stopped = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active[t.Tenant]--
	a := &t.Attempts[len(t.Attempts)-1]
	a.EndedAt = now()
	switch {
	case stopped:
		t.State, a.Outcome = events.StateCancelled, events.AttemptCancelled
	case t.failures != 0:
		t.failures--
		a.Outcome, a.Signature, a.Error = events.AttemptFailed, "f00d", t.fail
		t.Error = &events.TaskError{Code: "handler_error", Signature: "f00d", Message: t.fail, Retryable: true}
		t.State = events.StateQuarantined
		if t.Attempt < 3 {
			t.State = events.StateWaiting
			f.work[t.Tenant] += t.amount
		}
	default:
		t.State, a.Outcome, t.Error = events.StateSucceeded, events.AttemptSucceeded, nil
	}
	if t.State.Terminal() {
		t.FinishedAt = now()
	}
	f.startNext()
}

func (f *fake) get(w http.ResponseWriter, r *http.Request, tenant, id string) {
	seconds := 0
	if text := r.URL.Query().Get("wait"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 25 {
			invalid(w, []events.FieldError{{Pointer: "query:wait", Detail: "0 to 25"}})
			return
		}
		seconds = n
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tasks[id]
	if t == nil || t.Tenant != tenant {
		refuse(w, events.NotFound, "No such task.")
		return
	}
	timer := time.NewTimer(time.Duration(seconds) * time.Second)
	defer timer.Stop()
	for t.State.Live() && seconds > 0 && f.wait(r, timer.C) {
	}
	if t.State.Live() {
		w.Header().Set("Retry-After", "1")
	}
	write(w, 200, events.MediaJSON, t.Task)
}

func (f *fake) cancel(w http.ResponseWriter, tenant, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tasks[id]
	switch {
	case t == nil || t.Tenant != tenant:
		refuse(w, events.NotFound, "No such task.")
	case t.State == events.StateCancelled:
		write(w, 200, events.MediaJSON, t.Task)
	case t.State.Terminal():
		refuse(w, events.AlreadyFinished, "Too late.")
	case t.State == events.StateRunning:
		if !t.CancelRequested {
			t.CancelRequested = true
			close(t.stop)
		}
		write(w, 202, events.MediaJSON, t.Task)
	default:
		if t.State != events.StateQuarantined {
			f.work[tenant] -= t.amount
		}
		t.State, t.FinishedAt, t.CancelRequested = events.StateCancelled, now(), true
		write(w, 202, events.MediaJSON, t.Task)
		f.startNext()
	}
}

var className = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}(\.[a-z0-9_-]{1,63}){0,8}$`)

func (f *fake) list(w http.ResponseWriter, r *http.Request, tenant string) {
	q := r.URL.Query()
	limit := 50
	var faults []events.FieldError
	fault := func(name string) {
		faults = append(faults, events.FieldError{Pointer: "query:" + name, Detail: "is wrong"})
	}
	for name, values := range q {
		if len(values) > 1 {
			fault(name)
		}
	}
	if text := q.Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > 100 {
			fault("limit")
		}
	}
	after := -1
	if cursor := q.Get("cursor"); cursor != "" {
		if n, err := fmt.Sscanf(cursor, tenant+":%d", &after); n != 1 || err != nil {
			fault("cursor")
		}
	}
	state := events.State(q.Get("state"))
	if state != "" && !slices.Contains(events.States(), state) {
		fault("state")
	}
	if q.Has("class") && !className.MatchString(q.Get("class")) {
		fault("class")
	}
	if len(faults) > 0 {
		invalid(w, faults)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var page events.TaskPage
	for i, id := range f.order {
		t := f.tasks[id]
		if i <= after || t.Tenant != tenant || state != "" && t.State != state || q.Has("class") && t.Class != q.Get("class") {
			continue
		}
		if len(page.Items) == limit {
			page.NextCursor = events.Null(fmt.Sprintf("%s:%d", tenant, after))
			break
		}
		page.Items = append(page.Items, t.Task)
		after = i
	}
	write(w, 200, events.MediaJSON, page)
}

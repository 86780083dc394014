package fair

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/stack"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// system is a stage in real time: the embedded engine, spoken to over HTTP. What ran is
// what its handlers saw, and delays count from before the request was sent.
type system struct {
	*stage
	base   string
	client *http.Client
	begun  map[string]bool // ids
	failed int             // requests that were not answered with 2xx, and the first of them
	first  error
}

// sent is the payload of a task in real time.
type sent struct {
	worker.SleepPayload
	SentMS int64 `json:"sent_ms"` // when, since the stage began
}

// playReal plays a load on an engine of its own in a directory that is removed afterwards.
func playReal(ctx context.Context, cfg *policy.Config, off without, l load) (*stage, error) {
	dir, err := os.MkdirTemp("", "lanekeeper-fair-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s := &system{stage: newStage(1), begun: map[string]bool{}, client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	s.door = s
	mux := worker.New()
	for _, class := range cfg.ClassNames() {
		mux.Handle(class, s.handle)
	}
	engine, err := stack.Start(ctx, stack.Options{Config: cfg, DataDir: dir, Addr: "127.0.0.1:0", Mux: mux, Table: off.table})
	if err != nil {
		return nil, err
	}
	s.base = engine.URL
	l.play(s.stage)
	s.sinceEnd = s.sinceMS()
	s.stop()
	s.wg.Wait()
	s.client.CloseIdleConnections()
	end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := engine.Stop(end); err != nil {
		return nil, err
	}
	if s.failed > 0 {
		s.faults = append(s.faults, fmt.Sprintf("%d requests failed, the first with %v", s.failed, s.first))
	}
	return s.stage, ctx.Err()
}

// handle runs an attempt and notes it.
func (s *system) handle(ctx context.Context, t *worker.Task) (any, error) {
	var p sent
	if err := t.Decode(&p); err != nil {
		return nil, err
	}
	x := &span{t: &task.Task{ID: t.ID, Tenant: t.Tenant, Class: t.Class, Attempt: int64(t.Attempt), AtLane: "work"}, came: p.SentMS, accepted: p.SentMS, service: p.SleepMS}
	if s.ctx.Err() != nil { // the slots of what was cut short go on to others
		return nil, s.ctx.Err()
	}
	s.mu.Lock()
	x.began = s.sinceMS()
	s.spans = append(s.spans, x)
	if !s.begun[t.ID] {
		s.begun[t.ID] = true
		s.waiting[t.Tenant]--
		delete(s.pending, t.ID)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)() // nobody waits for what runs at the end
	result, err := worker.Sleep(ctx, t)
	s.mu.Lock()
	x.ended = s.sinceMS()
	s.mu.Unlock()
	return result, err
}

// enter submits over HTTP. A task counts as waiting from before it is sent.
func (s *system) enter(tenant string, sub intake.Submission) string {
	var p sent
	body := map[string]any{"class": sub.Class, "payload": &p}
	if sub.Priority != "" {
		body["priority"] = sub.Priority
	}
	if sub.OrderingKey != "" {
		body["ordering_key"] = sub.OrderingKey
	}
	err := json.Unmarshal([]byte(sub.Payload), &p)
	s.mu.Lock()
	s.waiting[tenant]++
	p.SentMS = s.sinceMS()
	s.mu.Unlock()
	var answer events.Task
	if err == nil {
		answer, err = s.post(tenant, "/v1/tasks", body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.waiting[tenant]--
		return ""
	case !s.begun[answer.ID]:
		s.pending[answer.ID] = &span{t: &task.Task{ID: answer.ID, Tenant: tenant, Class: sub.Class, AtLane: "work"}, came: p.SentMS, accepted: p.SentMS}
	}
	s.accepted++
	return answer.ID
}

func (s *system) withdraw(tenant, id string) {
	if id == "" {
		return
	}
	answer, err := s.post(tenant, events.TaskPath(id)+"/cancel", nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.pending[id] != nil && answer.State == events.StateCancelled {
		s.waiting[tenant]--
		delete(s.pending, id)
	}
}

// post makes a call with a tenant's key and reads the task it answers with.
func (s *system) post(tenant, path string, body any) (t events.Task, err error) {
	defer func() {
		if err == nil || s.ctx.Err() != nil { // or cut short by the end
			return
		}
		s.mu.Lock()
		if s.failed++; s.failed == 1 {
			s.first = err
		}
		s.mu.Unlock()
		time.Sleep(20 * time.Millisecond) // loads go on at once
	}()
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return t, err
		}
	}
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, s.base+path, bytes.NewReader(text))
	if err != nil {
		return t, err
	}
	req.Header.Set("Authorization", "Bearer secret-"+tenant)
	if body != nil {
		req.Header.Set("Content-Type", events.MediaJSON)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return t, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err = io.ReadAll(resp.Body)
	if resp.StatusCode == http.StatusConflict { // over before it could be cancelled
		return t, err
	}
	if resp.StatusCode/100 != 2 {
		return t, errors.Join(err, fmt.Errorf("%s: status %d: %.200s", path, resp.StatusCode, text))
	}
	err = errors.Join(err, json.Unmarshal(text, &t))
	return t, err
}

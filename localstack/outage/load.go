package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/stack"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

const config = `version: 1
lanes:
  work: {owner: outage, slo: {queue_wait_p95: 5s, oldest_age: 10m}, workers: {max_concurrency: 10}, attempt_timeout: 10s, safety_margin: 0s,
    backlog: {max_work: 8000h}, retry: {max_attempts: 30, backoff_base: 1s, backoff_cap: 10s}, dlq: {max_receives: 5}, brakes: []}
  critical: {owner: outage, slo: {queue_wait_p95: 1s, oldest_age: 10m}, workers: {max_concurrency: 4}, attempt_timeout: 10s, safety_margin: 0s,
    backlog: {max_work: 8000h}, retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []}
  heavy: {owner: outage, slo: {queue_wait_p95: 1h, oldest_age: 2h}, workers: {max_concurrency: 4}, attempt_timeout: 10s, safety_margin: 0s,
    backlog: {max_work: 8000h}, retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []}
  retry: {role: retry, share: 0.2, owner: outage, slo: {queue_wait_p95: 1h, oldest_age: 2h}, attempt_timeout: 10s, safety_margin: 0s,
    backlog: {max_work: 8000h}, retry: {max_attempts: 3}, dlq: {max_receives: 5}, brakes: []}
classes:
  needy: {lane: work, prior: {p50: 300ms, p95: 600ms}, cap: 10s}
  calm: {lane: work, prior: {p50: 200ms, p95: 200ms}, cap: 10s, target: {builtin: sleep}}
  quick: {lane: critical, prior: {p50: 200ms, p95: 200ms}, cap: 10s, target: {builtin: sleep}}
  aside: {lane: heavy, prior: {p50: 200ms, p95: 200ms}, cap: 10s, target: {builtin: sleep}}
tiers: {basic: {max_queued_work: 8000h, max_active: 100}}
priorities: {normal: {max_wait: 336h, max_duration: 336h}}
tenants: {alpha: {tier: basic, keys: [secret-alpha]}}
`

// others is fresh work that does not need the downstream.
var others = []struct {
	class, name string
	every       time.Duration // on average
}{
	{"quick", "lane critical", 100 * time.Millisecond},
	{"aside", "lane heavy", 100 * time.Millisecond},
	{"calm", "its own lane", 300 * time.Millisecond},
}

// state is how the downstream is.
type state int32

const (
	up state = iota
	answers503
	hangs
)

func (s state) String() string { return [...]string{"up", "answers 503", "hangs"}[s] }

// load is what is played.
type load struct {
	outage time.Duration
	tasks  int
}

// result is what a run showed.
type result struct {
	delays              map[string][]int64 // by class, ms
	succeeded, attempts int
}

// warmUp is how long a run goes on before the outage; recovery, at most, how long until the last task that needs the downstream is done.
const (
	warmUp   = 10 * time.Second
	recovery = 10 * time.Minute
)

// play plays the load on a stack of its own.
func (l load) play(ctx context.Context, how state) (result, error) {
	cfg, err := policyfile.Parse("outage.yaml", []byte(config))
	if err != nil {
		return result{}, err
	}
	dir, err := os.MkdirTemp("", "lanekeeper-outage-")
	if err != nil {
		return result{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var now atomic.Int32
	mux := worker.New()
	mux.Handle("needy", func(ctx context.Context, _ *worker.Task) (any, error) { return nil, call(ctx, state(now.Load())) })
	s, err := stack.Start(ctx, stack.Options{Config: cfg, DataDir: dir, Addr: "127.0.0.1:0", Mux: mux})
	if err != nil {
		return result{}, err
	}
	got, err := l.on(ctx, s, how, &now)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return got, errors.Join(err, s.Stop(end))
}

// call is one call of the downstream.
func call(ctx context.Context, how state) error {
	takes := 300 * time.Millisecond
	switch how {
	case answers503:
		takes = 50 * time.Millisecond
	case hangs:
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if err := sleep(ctx, takes); err != nil {
		return err
	}
	if how == answers503 {
		return worker.WithCode("http_503", errors.New("the downstream answered 503"))
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func (l load) on(ctx context.Context, s *stack.Stack, how state, now *atomic.Int32) (result, error) {
	from := clock.System().Add(warmUp)
	out, until := from.Add(l.outage), from.Add(l.outage*3/2)
	var submitting sync.WaitGroup
	var mu sync.Mutex
	var bad error
	submit := func(class string) {
		submitting.Go(func() {
			if err := post(ctx, s.URL, class); err != nil {
				mu.Lock()
				bad = errors.Join(bad, err)
				mu.Unlock()
			}
		})
	}
	for i, o := range others {
		rng := rand.New(rand.NewPCG(uint64(i), 11)) // the same arrivals in every run
		submitting.Go(func() {
			for at := clock.System(); at.Before(until) && sleep(ctx, at.Sub(clock.System())) == nil; at = at.Add(time.Duration(rng.ExpFloat64() * float64(o.every))) {
				submit(o.class)
			}
		})
	}
	_ = sleep(ctx, from.Sub(clock.System()))
	now.Store(int32(how))
	for i := range l.tasks {
		_ = sleep(ctx, from.Add(l.outage*time.Duration(i)/time.Duration(l.tasks)).Sub(clock.System()))
		submit("needy")
	}
	_ = sleep(ctx, out.Sub(clock.System()))
	now.Store(int32(up))
	_ = sleep(ctx, until.Sub(clock.System()))
	submitting.Wait()
	if err := errors.Join(ctx.Err(), bad); err != nil {
		return result{}, err
	}
	for limit := clock.System().Add(recovery); ; {
		got, err := look(ctx, s, from.UnixMilli(), until.UnixMilli())
		if err != nil || got.succeeded == l.tasks || clock.System().After(limit) {
			return got, err
		}
		if err := sleep(ctx, time.Second); err != nil {
			return result{}, err
		}
	}
}

// post submits a task.
func post(ctx context.Context, url, class string) error {
	req, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/tasks", bytes.NewReader(fmt.Appendf(nil, `{"class":%q,"payload":{"sleep_ms":200}}`, class)))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer secret-alpha")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("submitting %s: %d: %s", class, resp.StatusCode, text)
	}
	return err
}

// look reads the rows: start delays of what came between two times, and how what needs the downstream fares.
func look(ctx context.Context, s *stack.Stack, fromMS, toMS int64) (result, error) {
	got := result{delays: map[string][]int64{}}
	var bad error
	err := s.DB().Table().Scan(ctx, "T#", func(row op.Row) bool {
		t, err := taskop.DecodeRow(row.Key, row.Item)
		if err != nil {
			bad = err
			return false
		}
		if t.Class == "needy" {
			got.attempts += int(t.Attempt)
			if t.State == task.Succeeded {
				got.succeeded++
			}
			return true
		}
		if t.SubmittedMS >= fromMS && t.SubmittedMS < toMS && t.StartedMS > 0 {
			got.delays[t.Class] = append(got.delays[t.Class], t.StartedMS-t.SubmittedMS)
		}
		return true
	})
	return got, errors.Join(err, bad)
}

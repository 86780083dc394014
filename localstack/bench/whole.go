package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/stack"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// The whole road is driven twice: as fast as a few clients can, for the number
// of tasks, and at a rate far below, for the times.
const (
	roadSlots   = 16
	roadClients = 16
	floodFor    = 4 * time.Second
	paceFor     = 4 * time.Second
	paceEvery   = 25 * time.Millisecond
)

// journey is what one way of driving saw.
type journey struct {
	acked   []time.Duration // submission to acknowledgement, as the client saw it
	started []time.Duration // submission to first start, as the row says
	refused int
	took    time.Duration
}

// client submits over HTTP.
type client struct {
	http http.Client
	base string
}

func newClient(base string) *client {
	return &client{base: base, http: http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: roadClients}}}
}

// submit returns whether the task was accepted, and how long the answer took.
func (c *client) submit(ctx context.Context, key, body string) (bool, time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/tasks", strings.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	began := now()
	resp, err := c.http.Do(req)
	if err != nil {
		return false, 0, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end below
	text, err := io.ReadAll(resp.Body)
	took := now().Sub(began)
	switch {
	case err != nil:
		return false, 0, err
	case resp.StatusCode == http.StatusAccepted:
		return true, took, nil
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusServiceUnavailable:
		return false, took, nil
	}
	return false, 0, fmt.Errorf("a submission was answered %d: %s", resp.StatusCode, text)
}

// travel runs a stack of its own, lets send submit to it, and waits until all
// that was accepted is done.
func travel(ctx context.Context, dir string, send func(ctx context.Context, c *client, j *journey) error) (*journey, error) {
	cfg, err := lanesOf(roadSlots)
	if err != nil {
		return nil, err
	}
	s, err := stack.Start(ctx, stack.Options{Config: cfg, DataDir: dir, Addr: "127.0.0.1:0"})
	if err != nil {
		return nil, err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = s.Stop(end) // all is done by then, or an error says why not
	}()
	c := newClient(s.URL)
	defer c.http.CloseIdleConnections()
	j := &journey{}
	began := now()
	if err := send(ctx, c, j); err != nil {
		return nil, err
	}
	for {
		if j.started, err = startDelays(ctx, s); err != nil {
			return nil, err
		}
		if len(j.started) >= len(j.acked) {
			break
		}
		if err := until(ctx, now().Add(10*time.Millisecond)); err != nil {
			return nil, fmt.Errorf("%d of %d tasks are done: %w", len(j.started), len(j.acked), err)
		}
	}
	j.took = now().Sub(began)
	return j, nil
}

// startDelays are those of the tasks that succeeded so far.
func startDelays(ctx context.Context, s *stack.Stack) ([]time.Duration, error) {
	var delays []time.Duration
	var bad error
	err := s.DB().Table().Scan(ctx, taskop.RowPartition("", 0)[:2], func(row op.Row) bool {
		var t *task.Task
		if t, bad = taskop.DecodeRow(row.Key, row.Item); bad != nil {
			return false
		}
		if t.State == task.Succeeded {
			delays = append(delays, time.Duration(t.StartedMS-t.SubmittedMS)*time.Millisecond)
		}
		return true
	})
	if err == nil {
		err = bad
	}
	return delays, err
}

// flood submits from all clients at once, each as soon as it was answered.
func flood(ctx context.Context, c *client, j *journey) error {
	var mu sync.Mutex
	var first error
	var wg sync.WaitGroup
	end := now().Add(floodFor)
	for n := range roadClients {
		wg.Go(func() {
			for now().Before(end) {
				ok, took, err := c.submit(ctx, tenantKey(n), submission(0))
				mu.Lock()
				j.count(ok, took)
				if err != nil && first == nil {
					first = err
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return first
}

// pace submits one after another, at a steady rate.
func pace(ctx context.Context, c *client, j *journey) error {
	began := now()
	for i := range int(paceFor / paceEvery) {
		if err := until(ctx, began.Add(time.Duration(i)*paceEvery)); err != nil {
			return err
		}
		ok, took, err := c.submit(ctx, tenantKey(i), submission(0))
		if err != nil {
			return err
		}
		j.count(ok, took)
	}
	return nil
}

func (j *journey) count(accepted bool, took time.Duration) {
	if accepted {
		j.acked = append(j.acked, took)
	} else if took > 0 {
		j.refused++
	}
}

func roadSection(ctx context.Context, r *report, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	paced, err := travel(ctx, filepath.Join(dir, "paced"), pace)
	if err != nil {
		return err
	}
	flooded, err := travel(ctx, filepath.Join(dir, "flooded"), flood)
	if err != nil {
		return err
	}
	r.section(fmt.Sprintf("the whole road on the embedded engine (HTTP to done, tasks of 0 ms, %d slots)", roadSlots))
	show := func(title string, j *journey) {
		r.row(title, fmt.Sprintf("%.0f tasks/s", float64(len(j.started))/j.took.Seconds()), fmt.Sprintf("%d done, %d refused", len(j.started), j.refused))
		r.row("  acknowledgement", spread(j.acked), "")
		r.row("  start delay", spread(j.started), "")
	}
	show(fmt.Sprintf("one client, one task every %s", paceEvery), paced)
	show(fmt.Sprintf("%d clients, as fast as they are answered", roadClients), flooded)
	return nil
}

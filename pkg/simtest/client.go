package simtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// gatewayError is what a client sees whose function died: a 502 or 504.
const gatewayError events.Code = "gateway"

const admissionTimeout = 29 * time.Second

// Client is one user of the API, working one call after another.
type Client struct {
	w      *World
	name   string
	tenant string
	rng    *rand.Rand
	n      int
	ids    []string // tasks it knows
	begins func()   // run on the scheduler when the next call begins
}

// client starts a client's script. On the scheduler.
func (w *World) client(name, tenant string, script func(c *Client)) {
	w.clients++
	c := &Client{w: w, name: name, tenant: tenant, rng: rand.New(rand.NewPCG(w.rng.Uint64(), 3))}
	go func() {
		script(c)
		w.post("end of client "+name, func() { w.clients-- })
	}()
}

// pause waits, not to the same nanosecond as anybody else.
func (c *Client) pause(least, most time.Duration) {
	time.Sleep(least + time.Duration(c.rng.Int64N(int64(most-least)+1)))
}

// enter names the part of a scenario that begins now.
func (c *Client) enter(phase string) {
	c.w.post("phase of "+c.name, func() { c.w.phase = phase })
	c.pause(time.Millisecond, time.Millisecond)
}

// expect holds a task to a state at this moment.
func (c *Client) expect(id string, want task.State) {
	c.w.post("expectation of "+c.name, func() {
		if t := c.w.model.tasks[taskop.RowKey(c.tenant, id)]; t == nil || t.State != want {
			c.w.violate("task %s is not %s: %+v", id, want, t)
		}
	})
	c.pause(time.Millisecond, time.Millisecond)
}

// call runs body in an admission function and returns when it, or the gateway
// in its place, has answered; check is called on the scheduler at that moment.
func (c *Client) call(what string, body func(ctx context.Context, s *intake.Service), check func(ok bool)) {
	w := c.w
	done := make(chan struct{})
	w.post("client "+c.name, func() {
		w.note("client %s: %s", c.name, what)
		if c.begins != nil {
			c.begins()
			c.begins = nil
		}
		w.invoke(Admission, "", admissionTimeout, func(ctx context.Context, in *Instance) { body(ctx, in.intake) }, func(ok bool) {
			check(ok)
			close(done)
		})
	})
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Minute):
			w.mu.Lock()
			ended := w.ended
			w.mu.Unlock()
			if ended {
				runtime.Goexit()
			}
		}
	}
}

// what a handler is to do, as payload.
type work struct {
	Do string `json:"do"` // ok, fail, permanent, panic, continue, deaf, die, broken, useless
	MS int64  `json:"ms"`
	N  int    `json:"n,omitempty"` // how many attempts fail or continue before ok
}

func (c *Client) submission(class string, wk work, key string) intake.Submission {
	c.n++
	payload, err := json.Marshal(wk)
	if err != nil {
		panic(err)
	}
	return intake.Submission{Class: class, Payload: string(payload), IdempotencyKey: key, RequestHash: class + string(payload),
		Traceparent: fmt.Sprintf("%s-%d", c.name, c.n)}
}

// submit submits and returns the id, "" unless it was accepted, and what it was
// refused with.
func (c *Client) submit(sub intake.Submission) (id string, code events.Code) {
	m := c.w.model
	var out intake.Accepted
	var err error
	var told string
	who := intake.Principal{Tenant: c.tenant, Tier: tiers[c.tenant]}
	if sub.IdempotencyKey != "" {
		c.begins = func() { told = get(m.keys, c.tenant+"|"+sub.IdempotencyKey).id }
	}
	c.call("submit "+sub.Traceparent+" "+sub.Class+" "+sub.Payload+" key "+sub.IdempotencyKey, func(ctx context.Context, s *intake.Service) {
		out, err = s.Submit(ctx, who, sub)
	}, func(ok bool) {
		code = codeOf(ok, err)
		if code == "" {
			id = out.Task.ID
		}
		c.w.note("client %s: %s → %s %s", c.name, sub.Traceparent, id, code)
		m.answered(c, sub, told, out, code)
	})
	if id != "" {
		c.ids = append(c.ids, id)
	}
	return id, code
}

func codeOf(ok bool, err error) events.Code {
	var r *intake.Refusal
	switch {
	case !ok:
		return gatewayError
	case errors.As(err, &r):
		return r.Code
	case err != nil:
		return "unknown error: " + events.Code(err.Error())
	}
	return ""
}

// insist submits under a key until it gets a definite answer, as a client
// should.
func (c *Client) insist(sub intake.Submission) (id string, code events.Code) {
	for range 20 {
		if id, code = c.submit(sub); code != events.Unavailable && code != gatewayError {
			return id, code
		}
		c.pause(500*time.Millisecond, 3*time.Second)
		c.n++
		sub.Traceparent = fmt.Sprintf("%s-%d", c.name, c.n)
	}
	return id, code
}

// cancel cancels a task.
func (c *Client) cancel(id string) (code events.Code) {
	m := c.w.model
	var t *task.Task
	var err error
	who := intake.Principal{Tenant: c.tenant, Tier: tiers[c.tenant]}
	c.call("cancel "+id, func(ctx context.Context, s *intake.Service) { t, _, err = s.Cancel(ctx, who, id) }, func(ok bool) {
		code = codeOf(ok, err)
		c.w.note("client %s: cancel %s → %s", c.name, id, code)
		if code == "" {
			m.told(taskop.RowKey(c.tenant, id), t.State == task.Cancelled)
		}
	})
	return code
}

// retry takes up a task again that failed or is quarantined.
func (c *Client) retry(id string) {
	m := c.w.model
	var t *task.Task
	var err error
	who := intake.Principal{Tenant: c.tenant, Tier: tiers[c.tenant]}
	c.call("retry "+id, func(ctx context.Context, s *intake.Service) { t, _, err = s.Retry(ctx, who, id) }, func(ok bool) {
		code := codeOf(ok, err)
		c.w.note("client %s: retry %s → %s", c.name, id, code)
		if code == "" {
			key := taskop.RowKey(c.tenant, t.ID)
			m.promised[key] = true
			if m.tasks[key] == nil {
				c.w.violate("a retry of %s was accepted as %s, which has no row", id, t.ID)
			}
		}
	})
}

func (c *Client) get(id string) {
	var err error
	who := intake.Principal{Tenant: c.tenant, Tier: tiers[c.tenant]}
	c.call("get "+id, func(ctx context.Context, s *intake.Service) { _, err = s.Get(ctx, who, id, 0) }, func(ok bool) {
		if code := codeOf(ok, err); code == events.NotFound && c.w.model.promised[taskop.RowKey(c.tenant, id)] {
			c.w.violate("get: task %s was accepted and is not found", id)
		}
	})
}

// handlers are the users' code in one worker process.
func (w *World) handlers(in *Instance) *worker.Mux {
	mux := worker.New()
	for class := range w.cfg.Classes {
		mux.Handle(class, func(ctx context.Context, t *worker.Task) (any, error) { return in.run(ctx, t) })
	}
	return mux
}

func (in *Instance) run(ctx context.Context, t *worker.Task) (any, error) {
	var p work
	if err := t.Decode(&p); err != nil {
		return nil, err
	}
	in.log(t, func(e *execution) {
		if e.begun {
			in.w.violations = append(in.w.violations, fmt.Sprintf("attempt %d of task %s was executed twice", t.Attempt, t.ID))
		}
		e.begun = true
	})
	b := in.bits()
	d := time.Duration(p.MS)*time.Millisecond + time.Duration(b[0])*time.Microsecond + time.Duration(b[1])
	if p.Do == "deaf" {
		time.Sleep(d)
	} else {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(d):
		}
	}
	more := p.N == 0 || t.Attempt <= p.N
	broken := in.w.isBroken()
	switch {
	case p.Do == "broken" && broken:
		return nil, errors.New("what it needs is out of order")
	case p.Do == "useless" && broken:
		return nil, worker.Permanent(errors.New("what it needs is out of order"))
	case p.Do == "fail" && more:
		return nil, errors.New("it failed")
	case p.Do == "permanent" && more:
		return nil, worker.Permanent(errors.New("it cannot work"))
	case p.Do == "die" && more:
		in.w.post("death of "+in.Name, func() { in.w.kill(in) })
		time.Sleep(time.Second)
	case p.Do == "panic" && more:
		panic("a handler's bug")
	case p.Do == "continue" && t.Attempt <= max(p.N, 1):
		return nil, worker.Continue(map[string]int{"step": t.Attempt})
	}
	in.log(t, func(e *execution) { e.ended, e.ok = true, true })
	return map[string]string{"by": t.ID}, nil
}

// log writes into the users' own journal, unless the process is dead.
func (in *Instance) log(t *worker.Task, f func(e *execution)) {
	in.w.mu.Lock()
	defer in.w.mu.Unlock()
	if in.dead || in.w.ended {
		return
	}
	f(get(in.w.model.journal, attemptID{t.ID, t.Attempt}))
}

package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// gatewayError is what a client sees whose admission died.
const gatewayError events.Code = "gateway"

// told is what clients were told, all of them.
type told struct {
	mu       sync.Mutex
	accepted map[op.Key]bool
	refused  map[string]events.Code // by label
	keys     map[string]string      // id by tenant and idempotency key
	stopped  map[op.Key]bool        // cancelled, not only requested
	codes    map[events.Code]int
	probes   []probe
	steps    int
}

func newTold() *told {
	return &told{accepted: map[op.Key]bool{}, refused: map[string]events.Code{}, keys: map[string]string{}, stopped: map[op.Key]bool{}, codes: map[events.Code]int{}}
}

// client is one user of the API, and one process of the admission behind it.
type client struct {
	s    *system
	told *told
	name string
	who  intake.Principal
	rng  *rand.Rand
	n    int
	ids  []string
	p    *Process
	svc  *intake.Service
}

func (s *system) client(ctx context.Context, told *told, seed uint64, n int) *client {
	tenant := []string{"alpha", "beta", "beta"}[n%3]
	c := &client{s: s, told: told, name: fmt.Sprint("c", n), who: s.rig.Who(tenant), rng: rand.New(rand.NewPCG(seed, 100+uint64(n)))}
	c.p = s.process(ctx, true)
	c.svc = s.admission(c.p)
	return c
}

// call makes one call and says how it was answered: "" is success.
func (c *client) call(ctx context.Context, body func(ctx context.Context) error) events.Code {
	limited, cancel := context.WithTimeout(c.p.ctx, answerTime)
	err := body(limited)
	cancel()
	code := events.Code("")
	var r *intake.Refusal
	switch {
	case c.p.Dead():
		c.p = c.s.replace(ctx)
		c.svc = c.s.admission(c.p)
		code = gatewayError
	case errors.As(err, &r):
		code = r.Code
	case err != nil:
		code = events.Code("unknown error: " + err.Error())
		c.s.t.Errorf("%s: %v", c.name, err)
	}
	c.told.mu.Lock()
	c.told.codes[code]++
	c.told.mu.Unlock()
	return code
}

func (c *client) step(ctx context.Context) {
	c.told.mu.Lock()
	c.told.steps++
	c.told.mu.Unlock()
	u := c.rng.Float64()
	switch {
	case u < 0.45 || len(c.ids) == 0:
		c.submitSomething(ctx)
	case u < 0.55:
		c.retry(ctx, c.ids[c.rng.IntN(len(c.ids))])
	case u < 0.7:
		c.cancel(ctx, c.ids[c.rng.IntN(len(c.ids))])
	case u < 0.8:
		id := c.ids[c.rng.IntN(len(c.ids))]
		code := c.call(ctx, func(ctx context.Context) error { _, err := c.svc.Get(ctx, c.who, id, 0); return err })
		if code == events.NotFound {
			c.s.t.Errorf("%s: task %s was accepted and is not found", c.name, id)
		}
	default:
		for range 5 {
			c.probe()
		}
	}
	time.Sleep(time.Duration(c.rng.IntN(60)) * time.Millisecond)
}

func (c *client) submitSomething(ctx context.Context) {
	kinds := []work{{Do: "ok"}, {Do: "ok"}, {Do: "ok"}, {Do: "fail", N: 1}, {Do: "fail", N: 9}, {Do: "permanent", N: 9}, {Do: "continue", N: 2}, {Do: "panic", N: 1}}
	w := kinds[c.rng.IntN(len(kinds))]
	w.MS = c.rng.Int64N(200)
	class, key := []string{"quick", "plain"}[c.rng.IntN(2)], ""
	if c.rng.IntN(2) == 0 { // shared with the tenant's other clients
		n := c.rng.IntN(25)
		key, class, w = fmt.Sprint("key-", n), "quick", work{Do: "ok", MS: int64(n)}
	}
	payload, err := json.Marshal(w)
	if err != nil {
		panic(err)
	}
	sub := intake.Submission{Class: class, Payload: string(payload), IdempotencyKey: key, RequestHash: class + string(payload), DeadlineMS: 3_600_000}
	if key == "" && c.rng.IntN(4) == 0 {
		sub.OrderingKey = fmt.Sprint("order-", c.rng.IntN(2))
	}
	for range 5 { // a client with a key asks again until it knows
		c.n++
		sub.Traceparent = fmt.Sprint(c.name, "-", c.n)
		if code := c.submit(ctx, sub); key == "" || code != events.Unavailable && code != gatewayError {
			return
		}
	}
}

func (c *client) submit(ctx context.Context, sub intake.Submission) events.Code {
	var out intake.Accepted
	code := c.call(ctx, func(ctx context.Context) (err error) { out, err = c.svc.Submit(ctx, c.who, sub); return err })
	t := c.told
	t.mu.Lock()
	defer t.mu.Unlock()
	switch code {
	case "":
		c.ids = append(c.ids, out.Task.ID)
		t.accepted[taskop.RowKey(c.who.Tenant, out.Task.ID)] = true
		if sub.IdempotencyKey == "" {
			break
		}
		key := c.who.Tenant + "|" + sub.IdempotencyKey
		if was := t.keys[key]; was != "" && was != out.Task.ID {
			c.s.t.Errorf("%s: key %s gave task %s and then %s", c.name, key, was, out.Task.ID)
		}
		t.keys[key] = out.Task.ID
	case events.Unavailable, gatewayError: // who knows
	default:
		t.refused[sub.Traceparent] = code
	}
	return code
}

func (c *client) cancel(ctx context.Context, id string) {
	var x *task.Task
	if c.call(ctx, func(ctx context.Context) (err error) { x, _, err = c.svc.Cancel(ctx, c.who, id); return err }) != "" {
		return
	}
	if x.State == task.Cancelled {
		c.told.mu.Lock()
		c.told.stopped[taskop.RowKey(c.who.Tenant, id)] = true
		c.told.mu.Unlock()
	}
}

func (c *client) retry(ctx context.Context, id string) {
	var x *task.Task
	if c.call(ctx, func(ctx context.Context) (err error) { x, _, err = c.svc.Retry(ctx, c.who, id); return err }) != "" {
		return
	}
	c.told.mu.Lock()
	defer c.told.mu.Unlock()
	c.told.accepted[taskop.RowKey(c.who.Tenant, x.ID)] = true
}

// probe is one bare call to the table and what its caller was told. Its kinds:
// a count that must never be repeated, two counts in one transaction, and a
// claim of an item by name.
type probe struct {
	kind string
	keys []op.Key
	name string
	ok   bool // it was done
	lost bool // another had it
}

// probe makes a bare call that nothing above the adapter would mend.
func (c *client) probe() {
	c.n++
	table := c.s.tableOf(c.p)
	p := probe{name: fmt.Sprint(c.name, "-", c.n)}
	key := func(suffix string) op.Key { return op.Key{PK: "PROBE#" + p.name + suffix, SK: "p"} }
	var err error
	ctx, cancel := context.WithTimeout(c.p.ctx, answerTime)
	defer cancel()
	switch c.rng.IntN(3) {
	case 0:
		p.kind, p.keys = "once", []op.Key{key("")}
		_, err = table.Write(ctx, taskop.AddCounts("probe.once", p.keys[0], map[string]int64{"n": 1}, 0))
	case 1:
		p.kind, p.keys = "both", []op.Key{key("-a"), key("-b")}
		var tx op.Tx
		tx.Name = "probe.both"
		for _, k := range p.keys {
			tx.Writes = append(tx.Writes, op.Write{Name: "probe.count", Key: k, Action: op.Update, Changes: []op.Change{op.Add("n", 1)}})
		}
		err = table.Transact(ctx, tx)
	case 2:
		p.kind, p.keys = "claim", []op.Key{{PK: "PROBE#claim-" + fmt.Sprint(c.n/3), SK: "p"}}
		_, err = table.Write(ctx, op.Write{Name: "probe.claim", Key: p.keys[0], Action: op.Update, Cond: op.Missing{Attr: "who"}, Changes: []op.Change{op.SetS("who", p.name)}})
	}
	p.ok, p.lost = err == nil, op.FailedCond(err) != nil
	if err != nil && !p.lost && !op.IsUnavailable(err) {
		c.s.t.Errorf("probe %s of kind %s: %v is neither a failed condition nor the store's trouble", p.name, p.kind, err)
	}
	c.told.mu.Lock()
	c.told.probes = append(c.told.probes, p)
	c.told.mu.Unlock()
	if c.p.Dead() {
		c.p = c.s.replace(c.s.t.Context())
		c.svc = c.s.admission(c.p)
	}
}

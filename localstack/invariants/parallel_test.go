package invariants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/differential/emulator"
	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/dynamo"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

var tables = map[string]func(t *testing.T) op.Table{
	"embedded": func(t *testing.T) op.Table {
		db, err := embed.Open(filepath.Join(t.TempDir(), "table.db"), embed.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		return db.Table()
	},
	"dynamo": func(t *testing.T) op.Table {
		api, err := emulator.New("tasks")
		if err != nil {
			t.Fatal(err)
		}
		return dynamo.New(api, "tasks", dynamo.Options{})
	},
}

// onBoth runs a test on both tables.
func onBoth(t *testing.T, run func(*testing.T, op.Table)) {
	for name, open := range tables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, open(t))
		})
	}
}

func submission(r *rig.Rig, key, body string) intake.Submission {
	s, refusal := intake.Decode([]byte(body), intake.Header{IdempotencyKey: key, HasIdempotencyKey: key != ""}, r.Config)
	if refusal != nil {
		panic(refusal)
	}
	return s
}

// ran is a journal that handlers keep for themselves.
type ran struct {
	mu       sync.Mutex
	attempts map[string]int // by task and attempt
	success  map[string]int // by task
}

// handler ends in every way there is, by the seed of the task's payload.
func (j *ran) handler(_ context.Context, x *worker.Task) (any, error) {
	var seed uint64
	if err := x.Decode(&seed); err != nil {
		return nil, err
	}
	j.mu.Lock()
	j.attempts[fmt.Sprint(x.ID, "/", x.Attempt)]++
	j.mu.Unlock()
	switch n := rand.New(rand.NewPCG(seed, uint64(x.Attempt))).IntN(20); {
	case n < 3:
		return nil, errors.New("a downstream failed")
	case n < 5:
		return nil, worker.Permanent(errors.New("bad input"))
	case n < 8:
		return nil, worker.Continue(n)
	case n < 9:
		panic("a bug")
	}
	j.mu.Lock()
	j.success[x.ID]++
	j.mu.Unlock()
	return x.Attempt, nil
}

// client is one of several that act at random.
type client struct {
	r    *rig.Rig
	svc  *intake.Service
	rng  *rand.Rand
	who  intake.Principal
	ids  []string
	keys map[string]string // idempotency key → id
	last map[string]task.State
}

func (c *client) step(t *testing.T, n int) {
	ctx := t.Context()
	switch k := c.rng.IntN(10); {
	case k < 5:
		key := ""
		if c.rng.IntN(2) == 0 {
			key = fmt.Sprint(c.who.Tenant, c.rng.IntN(30)) // also others' of the same tenant
		}
		seed := c.rng.IntN(1000)
		if key != "" {
			seed = len(key) * int(key[len(key)-1]) // the same request under the same key
		}
		got, err := c.svc.Submit(ctx, c.who, submission(c.r, key, fmt.Sprintf(`{"class":"short","payload":%d,"deadline_seconds":3600}`, seed)))
		if err != nil {
			var refusal *intake.Refusal
			if !errors.As(err, &refusal) || refusal.Code != events.RejectTenantLimit {
				t.Errorf("step %d: %v", n, err)
			}
			return
		}
		if was, seen := c.keys[key]; key != "" && seen && (was != got.Task.ID || !got.Replayed) {
			t.Errorf("key %s gave %s, now %s (replayed %v)", key, was, got.Task.ID, got.Replayed)
		}
		if key != "" {
			c.keys[key] = got.Task.ID
		}
		c.ids = append(c.ids, got.Task.ID)
	case k < 6 && len(c.ids) > 0:
		id := c.ids[c.rng.IntN(len(c.ids))]
		if _, _, err := c.svc.Cancel(ctx, c.who, id); err != nil {
			var refusal *intake.Refusal
			if !errors.As(err, &refusal) || refusal.Code != events.AlreadyFinished {
				t.Errorf("cancel: %v", err)
			}
		}
	case len(c.ids) > 0:
		id := c.ids[c.rng.IntN(len(c.ids))]
		x, err := c.svc.Get(ctx, c.who, id, 0)
		if err != nil {
			t.Errorf("get: %v", err)
			return
		}
		if was := c.last[id]; was.Terminal() && x.State != was {
			t.Errorf("%s was %s, became %s", id, was, x.State)
		}
		c.last[id] = x.State
	}
}

// TestParallelClientsBreakNothing: budgets are kept at every look, every
// accepted task comes to its end, attempts run once, and at the end all
// ledgers and lanes read zero.
func TestParallelClientsBreakNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, table op.Table) {
		cfg := rig.Config(t,
			"basic: {max_queued_work: 1000h, max_active: 100", "basic: {max_queued_work: 20s, max_active: 1",
			"other: {max_queued_work: 1000h, max_active: 100", "other: {max_queued_work: 20s, max_active: 2",
			"backoff_base: 1s, backoff_cap: 10s", "backoff_base: 1ms, backoff_cap: 2ms")
		r := rig.New(cfg, table, nil)
		journal := &ran{attempts: map[string]int{}, success: map[string]int{}}
		mux := worker.New()
		mux.Handle("short", journal.handler)

		ctx, stop := context.WithCancel(t.Context())
		var background, clients sync.WaitGroup
		background.Go(func() {
			for ctx.Err() == nil {
				if _, err := r.Aggregate().Run(ctx, true); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
		for _, lane := range []string{"standard", "standard", "standard", "retry", "retry"} {
			svc := r.Execute(mux)
			background.Go(func() {
				for ctx.Err() == nil {
					d, ok := r.Queue.Take(lane)
					if !ok {
						time.Sleep(2 * time.Millisecond)
						continue
					}
					if len(rig.Invoke(context.WithoutCancel(ctx), svc, lane, time.Minute, d)) > 0 {
						r.Queue.Return(lane, d)
					}
				}
			})
		}
		for i := range 6 {
			tenant := []string{"alpha", "beta"}[i%2]
			c := &client{r: r, svc: r.Intake(), rng: rand.New(rand.NewPCG(1, uint64(i))), who: r.Who(tenant), keys: map[string]string{}, last: map[string]task.State{}}
			clients.Go(func() {
				for n := range 150 {
					c.step(t, n)
					r.CheckLimits(t, tenant, 1000)
				}
			})
		}
		clients.Wait()
		for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit) && !settled(t, r); {
			time.Sleep(100 * time.Millisecond)
		}
		stop()
		background.Wait()
		r.CheckQuiet(t)

		states := map[task.State]int{}
		for _, x := range r.Tasks(t) {
			states[x.State]++
			if n := journal.success[x.ID]; x.State == task.Succeeded && n != 1 {
				t.Errorf("%s is %s, its handler succeeded %d times", x.ID, x.State, n)
			}
		}
		for name, n := range journal.attempts {
			if n != 1 {
				t.Errorf("attempt %s ran %d times", name, n)
			}
		}
		t.Log(states, len(journal.attempts), "attempts")
		if states[task.Succeeded] < 10 || states[task.Failed] == 0 || states[task.Cancelled] == 0 {
			t.Errorf("too little happened: %v", states)
		}
	})
}

// settled says whether nothing is live and no lane counts anything.
func settled(t *testing.T, r *rig.Rig) bool {
	for _, tenant := range r.Config.TenantNames() {
		if l := r.Ledger(t, tenant); l.WorkMS != 0 || l.Active != 0 {
			return false
		}
	}
	for _, lane := range r.Config.LaneNames() {
		if l := r.Lane(t, lane); !l.Empty() || len(l.Tasks) > 0 {
			return false
		}
	}
	return true
}

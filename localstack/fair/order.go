package fair

import (
	"fmt"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// keyOrder watches the order of each ordering key: a task begins only when all that
// entered its key before it are over.
type keyOrder struct {
	live     map[string]map[string]int64 // per key, the numbers of live tasks by id
	broken   int
	example  string
	replayed int
}

func (o *keyOrder) moved(t *task.Task) {
	key := t.Tenant + "|" + t.OrderingKey
	tasks := o.live[key]
	if tasks == nil {
		tasks = map[string]int64{}
		o.live[key] = tasks
	}
	if !t.State.Live() {
		delete(tasks, t.ID)
		return
	}
	tasks[t.ID] = t.Seq
	if t.State != task.Running {
		return
	}
	for id, n := range tasks {
		if n < t.Seq {
			o.broken++
			o.example = fmt.Sprintf("%s (number %d of %s) began before %s (number %d)", t.ID, t.Seq, key, id, n)
		}
	}
}

// orderLoad is keys with tasks each, of ten tenants. Some fail and are retried, some are
// quarantined and taken up again, some are cancelled.
func orderLoad(keys, tasks int) func(w *world) {
	return func(w *world) {
		for i := range 10 {
			tenant := fmt.Sprintf("t%d", i)
			w.wg.Go(func() {
				for range tasks {
					for k := i; k < keys; k += 10 {
						w.submitOrdered(tenant, fmt.Sprintf("key %d", k))
					}
				}
			})
		}
		doneSince := int64(0)
		for w.sinceMS() < 3_600_000 {
			time.Sleep(100 * time.Millisecond)
			w.mu.Lock()
			done := w.accepted == keys/10*10*tasks && len(w.orders.left()) == 0
			w.mu.Unlock()
			if !done {
				doneSince = w.sinceMS()
			} else if w.sinceMS()-doneSince > 20_000 { // nothing is to be taken up any more
				break
			}
		}
	}
}

// idle finds out how long eligible tasks of the lane work wait beside free slots.
func (w *world) idle(e memtable.Effect) {
	now := w.sinceMS()
	if e.Write.Key == taskop.LaneKey("work") {
		full := e.After.Int("open") >= e.After.Int("slots")
		if full || w.full {
			w.fullMS = now
		}
		w.full = full
		return
	}
	ready := func(it op.Item) bool { return it.Str("rk") == taskop.ReadyPartition("work") }
	switch id := e.Write.Key.SK; {
	case !ready(e.Before) && ready(e.After):
		w.ready[id] = now
	case ready(e.Before) && !ready(e.After):
		if !w.full {
			w.idleMS = max(w.idleMS, now-max(w.ready[id], w.fullMS))
		}
		delete(w.ready, id)
	}
}

func (o *keyOrder) left() (ids []string) {
	for _, tasks := range o.live {
		for id := range tasks {
			ids = append(ids, id)
		}
	}
	return ids
}

// submitOrdered submits a task of a key.
func (w *world) submitOrdered(tenant, key string) {
	fate := w.int64N(100)
	ms := 50 + w.int64N(100)
	payload := fmt.Sprintf(`{"sleep_ms":%d}`, ms)
	switch {
	case fate < 10: // fails once, or until it is quarantined
		payload = fmt.Sprintf(`{"sleep_ms":%d,"fail":%q,"fail_times":1}`, ms, w.word())
	case fate < 15:
		payload = fmt.Sprintf(`{"sleep_ms":%d,"fail":%q,"fail_times":3}`, ms, w.word())
	}
	id := w.submit(tenant, "unit", "", 0, func(s *intake.Submission) { s.OrderingKey, s.Payload = key, payload })
	if id != "" && fate >= 95 {
		w.wg.Go(func() {
			time.Sleep(time.Duration(w.int64N(int64(60 * time.Second))))
			w.cancel(tenant, id)
		})
	}
}

// word is a reason to fail, seldom the same: equal ones would halt the class.
func (w *world) word() string {
	b := make([]byte, 6)
	for i := range b {
		b[i] = 'g' + byte(w.int64N(20))
	}
	return string(b)
}

// takeUp takes a quarantined task up again, once.
func (w *world) takeUp(t *task.Task) {
	w.wg.Go(func() {
		time.Sleep(time.Duration(w.int64N(int64(5 * time.Second))))
		who, _ := w.cfg.Tenant(t.Tenant)
		_, _, _ = w.in.Retry(w.ctx, intake.Principal{Tenant: t.Tenant, Tier: who.Tier}, t.ID)
	})
}

// order: ordering keys keep their order, and slots do not stand idle for it.
func (r *Report) order(t *testing.T, keys, tasks int) {
	w := play(t, config(), without{}, orderLoad(keys, tasks))
	o := &w.orders
	name := fmt.Sprintf("%d keys × %d tasks, failures, retries, cancels, replays", keys, tasks)
	r.line(o.broken == 0 && len(o.left()) == 0 && o.replayed > 0, name+": order broken", fmt.Sprintf("%d times", o.broken),
		fmt.Sprintf("0 (%d attempts, %d replays, %d left)", len(w.spans), o.replayed, len(o.left())), o.example)
	r.line(w.idleMS <= 3000, name+": longest idle slot", seconds(w.idleMS), "<= 3 s (a tick) beside eligible work", "")
}

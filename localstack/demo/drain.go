package demo

import (
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/events"
)

// all lists what has been submitted so far.
func (b *burst) all() []*sent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*sent(nil), b.sent...)
}

// drain: (7) everything accepted ends well, nothing is left reserved, and what was refused is accepted now.
func (b *burst) drain(ctx context.Context, s *step) {
	ended := 0
	for _, t := range b.all() {
		if !t.accepted() {
			continue
		}
		b.await(ctx, s, t)
		if t.stray {
			continue
		}
		ended++
		if t.task.State != events.StateSucceeded {
			s.errorf("a task of %s (%s) ended %s", t.tenant.name, t.request.Class, t.task.State)
		}
	}
	b.empty(ctx, s)
	b.say("      drained: %d accepted tasks have ended, lanes and ledgers are empty", ended)
	if b.tight == nil {
		s.fatalf("there is nothing to submit again")
	}
	for _, again := range []struct {
		who tenant
		request
	}{{tenantB, *b.tight}, {tenantA, shortTask(ample)}} {
		t, err := b.submit(ctx, again.who, again.request)
		s.must(err)
		if !t.accepted() {
			s.fatalf("what was refused in the burst is still refused on an empty pool: %s (%s)", t.problem.Code, t.problem.Detail)
		}
		ended++
		b.say("      %s, a deadline of %s s: accepted, to wait %s s", again.who.name, again.Within, t.task.Prediction.Wait)
		b.inTime(ctx, s, t)
	}
	b.empty(ctx, s)
	b.nothingElse(ctx, s)
	s.note("%d tasks succeeded, ledgers read zero, what was refused is accepted", ended)
}

// empty waits until lanes and ledgers show nothing.
func (b *burst) empty(ctx context.Context, s *step) {
	b.eventually(ctx, s, "an empty pool", func() (bool, string) {
		l, err := b.client.lane(ctx, tenantA.key, pool)
		s.must(err)
		return l.Running+l.Queued+l.Waiting == 0 && l.QueuedWork == 0 && l.PredictedWait == 0, fmt.Sprintf("%+v", l)
	})
	b.eventually(ctx, s, "zero ledgers", func() (bool, string) {
		m, err := b.client.metrics(ctx)
		s.must(err)
		for _, name := range []string{"lanekeeper_ledger_work_ms", "lanekeeper_ledger_active"} {
			f := m[name]
			if f == nil || len(f.Samples) < 2 {
				return false, name + " is missing"
			}
			for _, sample := range f.Samples {
				if sample.Value != 0 {
					return false, fmt.Sprintf("%s%v is %g", name, sample.Labels, sample.Value)
				}
			}
		}
		return true, ""
	})
}

// nothingElse checks that the tenants have the accepted tasks and no others: a refusal leaves nothing behind.
func (b *burst) nothingElse(ctx context.Context, s *step) {
	known := map[string]bool{}
	for _, t := range b.all() {
		if t.accepted() {
			known[t.task.ID] = true
		}
	}
	for _, who := range []tenant{tenantA, tenantB} {
		ids, err := b.client.ids(ctx, who.key)
		s.must(err)
		for _, id := range ids {
			if !known[id] {
				s.errorf("%s has a task %s that was never accepted", who.name, id)
			}
			delete(known, id)
		}
	}
	if len(known) > 0 {
		s.errorf("%d accepted tasks are not listed", len(known))
	}
}

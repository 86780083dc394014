package demo

import (
	"context"
	"sync"

	"github.com/lanekeeper/lanekeeper/events"
)

// The burst: more of A's than its budget holds, fewer of B's than that.
const (
	burstA = 16
	burstB = 6
	// atOnce is how many submissions of one tenant are under way at a time.
	atOnce = 4
	// mostA bounds how many more of A's it may take to fill the budget.
	mostA = 200
)

func shortTask(within events.Seconds) request {
	return request{Class: short, Payload: payload{shortSleep.Milliseconds()}, Within: within}
}

// pool: (1) there is a lane with two slots, and nothing in it.
func (b *burst) pool(ctx context.Context, s *step) {
	l, err := b.client.lane(ctx, tenantA.key, pool)
	s.must(err)
	if l.Slots != slots || l.Paused {
		s.errorf("%d slots (paused: %t), want %d", l.Slots, l.Paused, slots)
	}
	if l.Running+l.Queued+l.Waiting != 0 || l.PredictedWait != 0 {
		s.errorf("it is in use already: %+v", l)
	}
	for _, who := range []tenant{tenantA, tenantB} {
		q, err := b.client.quote(ctx, who.key, shortTask(ample).body())
		s.must(err)
		if q.Outcome != events.Accept || q.Decision.Slots != slots || q.Decision.PredictedWait != 0 {
			s.errorf("the quote for %s is %s with %d slots and a wait of %s s", who.name, q.Outcome, q.Decision.Slots, q.Decision.PredictedWait)
		}
	}
	s.note("%d slots, nothing waits", l.Slots)
}

// longTasks: (2) two long tasks of A hold both slots at the same time.
func (b *burst) longTasks(ctx context.Context, s *step) {
	for range slots {
		t, err := b.submit(ctx, tenantA, request{Class: long, Payload: payload{longSleep.Milliseconds()}, Within: ample})
		s.must(err)
		if !t.accepted() {
			s.fatalf("refused: %s", t.problem.Code)
		}
		b.longs = append(b.longs, t)
		b.eventually(ctx, s, "its start", func() (bool, string) {
			s.must(b.refresh(ctx, t, 0))
			return t.task.StartedAt != 0, "it is " + string(t.task.State)
		})
	}
	first, second := b.longs[0].task, b.longs[1].task
	if apart := int64(second.StartedAt - first.StartedAt); apart >= longSleep.Milliseconds() {
		s.errorf("the second started %d ms after the first, which takes %v: they never ran at the same time", apart, longSleep)
	}
	b.say("      both slots are taken for %v", longSleep)
	s.note("both slots taken for %v", longSleep)
}

// shortTasks: (3) both tenants submit at once. Each answer is an acceptance with its prediction, or A's budget.
func (b *burst) shortTasks(ctx context.Context, s *step) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs []error
	counts := map[string]int{}
	one := func(who tenant) {
		t, err := b.submit(ctx, who, shortTask(ample))
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			errs = append(errs, err)
		case t.accepted():
			counts[who.name]++
		case who == tenantA && t.problem.Code == events.RejectTenantLimit:
			counts["over budget"]++
			if b.budgets == nil {
				b.budgets = t
			}
		default:
			s.errorf("one of %s was refused: %s (%s)", who.name, t.problem.Code, t.problem.Detail)
		}
	}
	for who, n := range map[tenant]int{tenantA: burstA, tenantB: burstB} {
		left := make(chan struct{}, n)
		for range n {
			left <- struct{}{}
		}
		close(left)
		for range atOnce {
			wg.Go(func() {
				for range left {
					one(who)
				}
			})
		}
	}
	wg.Wait()
	for _, err := range errs {
		s.errorf("%v", err)
	}
	if counts["a"] == 0 || counts["b"] == 0 {
		s.errorf("accepted: %d of A, %d of B", counts["a"], counts["b"])
	}
	b.say("      accepted: %d of A's %d, %d of B's %d", counts["a"], burstA, counts["b"], burstB)
	s.note("accepted %d of A's %d and %d of B's %d", counts["a"], burstA, counts["b"], burstB)
}

// budget: (4) A submits until its budget says no; then B is still served.
func (b *burst) budget(ctx context.Context, s *step) {
	for n := 0; b.budgets == nil; n++ {
		t, err := b.submit(ctx, tenantA, shortTask(ample))
		s.must(err)
		if !t.accepted() {
			b.budgets = t
		} else if n == mostA {
			s.fatalf("%d more tasks of A are accepted: there is no budget", n)
		}
	}
	p, d := b.budgets.problem, b.budgets.problem.Decision
	if p.Code != events.RejectTenantLimit || b.budgets.status != events.RejectTenantLimit.Status() || d == nil {
		s.fatalf("A's refusal is %d %s (decision %+v)", b.budgets.status, p.Code, d)
	}
	if d.BindingLimit != "tenant_queued_work" || d.TenantQueuedWork > d.TenantLimit || d.TenantQueuedWork+d.Estimate <= d.TenantLimit {
		s.errorf("A's refusal: limit %q, %s s queued and %s s more, of %s s", d.BindingLimit, d.TenantQueuedWork, d.Estimate, d.TenantLimit)
	}
	if p.RetryAfterSeconds < 1 {
		s.errorf("A's refusal gives no guidance")
	}
	t, err := b.submit(ctx, tenantB, shortTask(ample))
	s.must(err)
	if !t.accepted() {
		s.fatalf("B is refused too: %s", t.problem.Code)
	}
	b.say("      A: %s with %s of %s s queued; B: accepted, to wait %s s", p.Code, d.TenantQueuedWork, d.TenantLimit, t.task.Prediction.Wait)
	s.note("A is refused at %s of %s s (%s), B is accepted", d.TenantQueuedWork, d.TenantLimit, p.Code)
}

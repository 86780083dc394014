package demo

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
)

// refuse: (5) B asks for half of the wait that the server predicts, and is refused with the figures.
func (b *burst) refuse(ctx context.Context, s *step) {
	q, err := b.client.quote(ctx, tenantB.key, shortTask(ample).body())
	s.must(err)
	d := q.Decision
	b.say("      predicted wait %s s", d.PredictedWait)
	// Not so short that not even an empty lane could keep it: that would be another refusal.
	tight := shortTask(max(d.PredictedWait/2, d.ServiceP95+d.Margin+1000))
	b.tight = &tight
	if tight.Within >= d.PredictedWait {
		s.errorf("behind two running tasks of %v and the burst, the predicted wait is %s s", longSleep, d.PredictedWait)
	}
	t, err := b.submit(ctx, tenantB, tight)
	s.must(err)
	if t.accepted() {
		t.stray = true
		s.fatalf("a deadline of %s s was accepted with a predicted wait of %s s", tight.Within, t.task.Prediction.Wait)
	}
	s.checkRefusal(t)
	b.refusal = t
	d = *t.problem.Decision
	b.say("      a deadline of %s s is refused: %s, %s", d.Deadline, t.problem.Code, t.problem.Detail)
}

// checkRefusal holds a refusal for the deadline to its own figures. Without a decision the step ends.
func (s *step) checkRefusal(t *sent) {
	p, d := t.problem, t.problem.Decision
	if p.Code != events.RejectDeadline || t.status != events.RejectDeadline.Status() || d == nil {
		s.fatalf("the refusal is %d %s (decision %+v)", t.status, p.Code, d)
	}
	if d.Code != p.Code || d.BindingLimit != "lane_deadline" || d.Lane != pool || d.Slots != slots || d.Deadline != t.request.Within {
		s.errorf("the decision is %s by %q in lane %s with %d slots for a deadline of %s s", d.Code, d.BindingLimit, d.Lane, d.Slots, d.Deadline)
	}
	if d.PredictedWait+d.ServiceP95+d.Margin < d.Deadline {
		s.errorf("by its own figures it fits: wait %s + p95 %s + margin %s < %s s", d.PredictedWait, d.ServiceP95, d.Margin, d.Deadline)
	}
	if d.Estimate <= 0 || d.ServiceP95 <= 0 || d.PredictedWait <= 0 || d.TenantLimit <= 0 {
		s.errorf("figures are missing: %+v", *d)
	}
}

// hindsight: (5) the refused task would have waited about as long as was predicted, and would not have made it.
func (b *burst) hindsight(_ context.Context, s *step) {
	for _, t := range b.sent {
		if t.stray {
			s.errorf("that task ended %s", t.task.State)
		}
	}
	if b.refusal == nil {
		return
	}
	d := b.refusal.problem.Decision
	free, ok := b.freeAfter(b.refusal.answeredMS)
	if !ok {
		s.fatalf("the tasks ahead of it never started")
	}
	predicted, actual := int64(d.PredictedWait), free-b.refusal.answeredMS
	off := max(predicted-actual, actual-predicted)
	if off > max(2000, actual/2) {
		s.errorf("predicted wait %d ms, but a slot was free for it after %d ms", predicted, actual)
	}
	if needs := actual + shortSleep.Milliseconds(); needs < int64(d.Deadline) {
		s.errorf("refused at a deadline of %s s, but it could have ended after %d ms", d.Deadline, needs)
	}
	s.note("deadline %s s, predicted wait %s s, a slot was really free after %s s", d.Deadline, d.PredictedWait, events.Seconds(actual))
}

// freeAfter is when a slot became free for one more task submitted at a time, behind all that came before it: when
// all those had started and one of the slots was not taken any more. Unix milliseconds.
func (b *burst) freeAfter(atMS int64) (int64, bool) {
	var ahead []events.Task
	last := events.Time(atMS)
	for _, t := range b.sent {
		if !t.accepted() || int64(t.task.SubmittedAt) > atMS || t.stray {
			continue
		}
		if t.task.StartedAt == 0 || t.task.FinishedAt == 0 {
			return 0, false
		}
		ahead = append(ahead, t.task)
		last = max(last, t.task.StartedAt)
	}
	running, firstEnd := 0, events.Time(0)
	for _, t := range ahead {
		if t.FinishedAt <= last {
			continue
		}
		running++
		if firstEnd == 0 || t.FinishedAt < firstEnd {
			firstEnd = t.FinishedAt
		}
	}
	if running < slots {
		return int64(last), true
	}
	return int64(firstEnd), true
}

// obey: (6) the same submission gets the same code; who waits as long as he is told is accepted and served in time.
func (b *burst) obey(ctx context.Context, s *step) {
	if b.refusal == nil {
		s.fatalf("there is no refusal whose guidance could be obeyed")
	}
	again, err := b.submit(ctx, tenantB, *b.tight)
	s.must(err)
	if again.accepted() {
		again.stray = true
		s.fatalf("the same submission is accepted a moment later")
	}
	if again.problem.Code != b.refusal.problem.Code || again.status != b.refusal.status || again.problem.Type != b.refusal.problem.Type {
		s.fatalf("the code was %s, now it is %s", b.refusal.problem.Code, again.problem.Code)
	}
	s.checkRefusal(again)
	s.guidance(b.refusal)
	for last, tries := again, 1; ; tries++ {
		seconds := s.guidance(last)
		b.say("      %s again; Retry-After: %d s, obeying", last.problem.Code, seconds)
		s.pause(ctx, time.Duration(seconds)*time.Second)
		next, err := b.submit(ctx, tenantB, *b.tight)
		s.must(err)
		if next.accepted() {
			b.say("      accepted, to wait %s s of %s s", next.task.Prediction.Wait, next.request.Within)
			b.inTime(ctx, s, next)
			s.note("%s, Retry-After %d s, then accepted and done %s s before its deadline", last.problem.Code, seconds,
				events.Seconds(next.task.DeadlineAt-next.task.FinishedAt))
			return
		}
		s.checkRefusal(next)
		// Guidance rests on estimates. Where the machine takes longer than they say, and only there, it may be short.
		missing, late := shortfall(next.problem.Decision), b.latest(ctx, s)
		if tries == 3 || late < missing {
			s.fatalf("refused again after waiting for %d s as told: %d ms are missing, and tasks start at most %d ms later than predicted", seconds, missing, late)
		}
		b.say("      tasks start up to %d ms later than predicted here: once more", late)
		last = next
	}
}

// shortfall is by how much a predicted wait is too long for the deadline, in milliseconds.
func shortfall(d *events.Decision) int64 {
	return int64(d.PredictedWait - (d.Deadline - d.ServiceP95 - d.Margin - 1))
}

// guidance checks that Retry-After says when the level will fit: computed from the refusal's own figures, rounded up
// to whole seconds, and at most a fifth more.
func (s *step) guidance(t *sent) int64 {
	told := t.problem.RetryAfterSeconds
	if h := t.header.Get("Retry-After"); h != strconv.FormatInt(told, 10) {
		s.errorf("Retry-After is %q, retry_after_seconds %d", h, told)
	}
	least := max((shortfall(t.problem.Decision)+999)/1000, 1)
	if told < least || told > least+least/5 {
		s.fatalf("told to wait for %d s; by the figures it is %d to %d s", told, least, least+least/5)
	}
	return told
}

// inTime follows an accepted task to its end, which must come before its deadline.
func (b *burst) inTime(ctx context.Context, s *step, t *sent) {
	if loc := t.header.Get("Location"); t.status != http.StatusAccepted || loc != events.TaskPath(t.task.ID) {
		s.errorf("accepted with status %d, Location %q", t.status, loc)
	}
	b.await(ctx, s, t)
	if t.task.State != events.StateSucceeded || t.task.FinishedAt > t.task.DeadlineAt {
		s.fatalf("the accepted task ended %s at %s, its deadline was %s", t.task.State, t.task.FinishedAt, t.task.DeadlineAt)
	}
}

// latest is by how much a short task started later than predicted at most, in milliseconds.
func (b *burst) latest(ctx context.Context, s *step) int64 {
	var most int64
	for _, t := range b.all() {
		if !t.accepted() || t.request.Class != short {
			continue
		}
		s.must(b.refresh(ctx, t, 0))
		if t.task.StartedAt != 0 {
			most = max(most, int64(t.task.StartedAt-t.task.SubmittedAt)-int64(t.task.Prediction.Wait))
		}
	}
	return most
}

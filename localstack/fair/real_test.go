package fair

import (
	"context"
	"strings"
	"testing"
	"time"
)

// behindAHog is one task of a quiet tenant behind a hog's backlog.
type behindAHog struct {
	tasks    int
	id       string
	overtook int // tasks of the hog that began after the quiet one was accepted and before it began
}

func (l *behindAHog) play(s *stage) {
	for range 4 {
		s.backlog(forever, l.tasks, "t0", func() { s.submit("t0", "unit", "", 400*time.Millisecond) })
	}
	s.awaitBacklog("t0", l.tasks)
	l.id = s.submit("t1", "unit", "", time.Millisecond)
	accepted := len(s.log(func(*span) bool { return true }))
	for s.ctx.Err() == nil {
		for i, x := range s.log(func(*span) bool { return true }) {
			if x.t.ID == l.id {
				l.overtook = i - accepted
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// On the embedded engine a quiet tenant's task is next, and without the mechanism it is last.
func TestRealTimeGoesWithAndWithoutTheMechanism(t *testing.T) {
	t.Parallel()
	const tasks = 100
	run := func(off without) (*behindAHog, *stage) {
		l := &behindAHog{tasks: tasks}
		s, err := playReal(t.Context(), realConfig(400*time.Millisecond), off, l)
		if err != nil || len(s.faults) > 0 || l.id == "" {
			t.Fatalf("%v, faults %q, id %q", err, s.faults, l.id)
		}
		return l, s
	}
	with, s := run(without{})
	none, _ := run(inOrder)
	// A few hand-overs were under way; a slow answer lets the backlog shrink meanwhile.
	if with.overtook > tasks/10 || none.overtook < tasks/5 {
		t.Errorf("%d tasks of the hog came before the quiet one, %d without the mechanism", with.overtook, none.overtook)
	}
	for _, x := range s.log(of("t1")) {
		if d := s.delays(0, forever, "t1"); len(d) != 1 || d[0] != x.delay() || x.ended < x.began || x.began < x.came {
			t.Errorf("the quiet task %+v, delays %v", x, d)
		}
	}
}

// fullThenCancelled fills all slots for good and cancels what another tenant has waiting behind them.
type fullThenCancelled struct{}

func (fullThenCancelled) play(s *stage) {
	share(10, 10, func(int) { s.submit("t0", "unit", "", time.Minute) })
	for len(s.log(of("t0"))) < 10 && s.ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	for range 20 {
		s.cancel("t1", s.submit("t1", "unit", "", time.Second))
	}
	s.submit("t1", "unit", "", time.Second)
}

// What is cancelled is not in the log of what waits, what goes on waiting is.
func TestRealTimeForgetsWhatIsCancelled(t *testing.T) {
	t.Parallel()
	s, err := playReal(t.Context(), realConfig(time.Second), without{}, fullThenCancelled{})
	if err != nil || len(s.faults) > 0 {
		t.Fatalf("%v, faults %q", err, s.faults)
	}
	if begun := len(s.log(of("t1"))); begun != 0 || len(s.pending) != 1 || s.waiting["t1"] != 1 || len(s.delays(0, forever, "t1")) != 1 {
		t.Errorf("%d begun, %d pending, waiting %v, delays %v", begun, len(s.pending), s.waiting, s.delays(0, forever))
	}
}

// What could not be played is said, and figures in real time are not counted.
func TestRealTimeIsNotJudged(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	r := &Report{Out: &out}
	r.realTime(ctx, minutes)
	if r.Passed != 0 || r.Failed != 0 || strings.Count(out.String(), "not taken") != 5 || strings.Count(out.String(), "but: ") < 4 {
		t.Errorf("%d passed, %d failed:\n%s", r.Passed, r.Failed, out.String())
	}
}

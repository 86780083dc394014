package demo

import (
	"net/http"
	"testing"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

func ran(submitted, started, finished int64) *sent {
	return &sent{request: shortTask(ample), task: events.Task{State: events.StateSucceeded, SubmittedAt: events.Time(submitted),
		StartedAt: events.Time(started), FinishedAt: events.Time(finished)}}
}

func TestFreeAfter(t *testing.T) {
	t.Parallel()
	const at = 1000
	for name, c := range map[string]struct {
		sent []*sent
		want int64
		ok   bool
	}{
		"nothing ahead":           {nil, at, true},
		"one slot taken":          {[]*sent{ran(900, 950, 3000)}, at, true},
		"both taken":              {[]*sent{ran(900, 950, 3000), ran(900, 950, 2000)}, 2000, true},
		"one waits":               {[]*sent{ran(900, 950, 3000), ran(900, 950, 2000), ran(990, 2010, 2700)}, 2700, true},
		"the last runs alone":     {[]*sent{ran(900, 950, 2000), ran(900, 950, 2000), ran(990, 2010, 2700)}, 2010, true},
		"later ones do not count": {[]*sent{ran(900, 950, 3000), ran(900, 950, 2000), ran(1100, 2010, 9000)}, 2000, true},
		"one never started":       {[]*sent{ran(900, 950, 3000), ran(900, 0, 0)}, 0, false},
		"refusals and strays are nobody": {[]*sent{{problem: &events.Problem{}, task: events.Task{SubmittedAt: 900}},
			{stray: true, task: events.Task{SubmittedAt: 900}}}, at, true},
	} {
		b := &burst{sent: c.sent}
		if got, ok := b.freeAfter(at); got != c.want || ok != c.ok {
			t.Errorf("%s: %d, %t; want %d, %t", name, got, ok, c.want, c.ok)
		}
	}
}

func TestRefusedIsJudgedByItsNeighbour(t *testing.T) {
	t.Parallel()
	refusal := func(code events.Code, within events.Seconds, at int64) *sent {
		return &sent{request: shortTask(within), answeredMS: at, problem: &events.Problem{Code: code}}
	}
	failed := ran(2010, 2010, 2020)
	failed.task.State = events.StateFailed
	b := &burst{sent: []*sent{ran(1000, 1000, 1700), ran(2000, 7000, 7700), failed,
		refusal(events.RejectDeadline, 5000, 1300), // its neighbour took 700 ms
		refusal(events.RejectDeadline, 5000, 2010), // its neighbour took 5.7 s
		refusal(events.RejectTenantLimit, 5000, 1300),
	}}
	if byDeadline, made, byBudget := b.refused(); byDeadline != 2 || made != 1 || byBudget != 1 {
		t.Errorf("%d by deadline, %d of them would have made it, %d by budget", byDeadline, made, byBudget)
	}
	if missed, accepted := b.missed(); missed != 3 || accepted != 3 { // these have no deadline: 0
		t.Errorf("%d of %d missed", missed, accepted)
	}
	for _, s := range b.sent[:3] {
		s.task.DeadlineAt = s.task.FinishedAt
	}
	if missed, _ := b.missed(); missed != 1 {
		t.Errorf("%d missed, want the failed one", missed)
	}
}

func TestGuidance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header string
		told   int64
		wait   events.Seconds
		right  bool
	}{
		{"10", 10, 13_000, true}, // 13 s − (5 − 1 − 0.5 s − 1 ms) = 9.501 s
		{"12", 12, 13_000, true}, // a fifth later
		{"9", 9, 13_000, false},
		{"13", 13, 13_000, false},
		{"10", 11, 13_000, false},
		{"", 10, 13_000, false},
		{"1", 1, 3_600, true},
		{"2", 2, 3_600, false},
	} {
		s := &step{}
		x := &sent{header: http.Header{"Retry-After": {c.header}}, problem: &events.Problem{RetryAfterSeconds: c.told,
			Decision: &events.Decision{PredictedWait: c.wait, Deadline: 5000, ServiceP95: 1000, Margin: 500}}}
		func() {
			defer func() { _ = recover() }()
			s.guidance(x)
		}()
		if (len(s.faults) == 0) != c.right {
			t.Errorf("told %d (%q) for a wait of %s s: %q", c.told, c.header, c.wait, s.faults)
		}
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var list []int64
	for i := range int64(20) {
		list = append(list, i+1)
	}
	for percent, want := range map[int]int64{1: 1, 5: 1, 6: 2, 50: 10, 95: 19, 96: 20, 100: 20} {
		if got := percentile(list, percent); got != want {
			t.Errorf("p%d is %d, want %d", percent, got, want)
		}
	}
	if got := percentile(list[:1], 50); got != 1 {
		t.Errorf("of one: %d", got)
	}
}

// What the steps take for granted about the configuration.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	cfg, err := policyfile.Parse("demo.yaml", Configuration())
	if err != nil {
		t.Fatal(err)
	}
	tier, _ := cfg.Tier("demo")
	if cfg.Workers(pool) != slots || tier.MaxActive <= slots {
		t.Errorf("%d workers, max_active %d", cfg.Workers(pool), tier.MaxActive)
	}
	longOne, _ := cfg.Class(long)
	shortOne, _ := cfg.Class(short)
	if longOne.Prior.P50.Std() < longSleep || shortOne.Prior.P50.Std() < shortSleep {
		t.Errorf("priors %v and %v are below what the tasks sleep", longOne.Prior.P50, shortOne.Prior.P50)
	}
	budget := tier.MaxQueuedWork.Std()
	if budget < longOne.Prior.P95.Std() {
		t.Errorf("the budget %v holds no long task", budget)
	}
	if p50 := shortOne.Prior.P50.Std(); budget > burstA*p50 || budget < (burstB+2)*shortOne.Prior.P95.Std() {
		t.Errorf("the budget %v is not between %d and %d tasks of %v", budget, burstB+2, burstA, p50)
	}
}

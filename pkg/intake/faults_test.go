package intake_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// failing is one way in which the store or the queue fails during a submission.
type failing struct {
	name  string
	table func(rig.Call) rig.Fault
	queue func(int) rig.Fault
}

// failures lists a fault at each of a submission's first calls, once and from
// then on, and the queue's.
func failures(calls int) []failing {
	var out []failing
	for _, f := range rig.Faults() {
		for n := 1; n <= calls; n++ {
			out = append(out,
				failing{fmt.Sprintf("call %d %s", n, f), at(f, func(c rig.Call) bool { return c.N == n }), nil},
				failing{fmt.Sprintf("calls from %d on %s", n, f), at(f, func(c rig.Call) bool { return c.N >= n }), nil})
		}
		for _, most := range []int{1, 2, 9} {
			queue := func(n int) rig.Fault {
				if n <= most {
					return f
				}
				return rig.None
			}
			out = append(out, failing{fmt.Sprintf("%d sends %s", most, f), nil, queue},
				failing{fmt.Sprintf("%d sends %s, and no withdrawal", most, f), at(f, func(c rig.Call) bool { return c.Name == "withdraw" }), queue},
				failing{fmt.Sprintf("%d sends %s, and the lane not given back", most, f), at(f, func(c rig.Call) bool { return c.Name == "lane.leave_slot" }), queue})
		}
	}
	return out
}

func at(f rig.Fault, when func(rig.Call) bool) func(rig.Call) rig.Fault {
	return func(c rig.Call) rig.Fault {
		if when(c) {
			return f
		}
		return rig.None
	}
}

// submitCalls is how many calls a submission makes in a lane as prepared.
func submitCalls(t *testing.T, prepare func(context.Context, *rig.Rig)) int {
	r := rig.New(config, memtable.New(memtable.Options{}), nil)
	prepare(t.Context(), r)
	r.Table.Fail(nil)
	if _, err := r.Intake().Submit(t.Context(), r.Who("alpha"), submission(t, r, "k", hour)); err != nil {
		t.Fatal(err)
	}
	return r.Table.Calls()
}

var situations = map[string]func(context.Context, *rig.Rig){
	"an empty table": func(context.Context, *rig.Rig) {},
	"a free slot": func(ctx context.Context, r *rig.Rig) {
		fill(ctx, r, 1)
	},
	"no slot": func(ctx context.Context, r *rig.Rig) { fill(ctx, r, 3) },
}

// fill submits tasks of another tenant.
func fill(ctx context.Context, r *rig.Rig, n int) {
	for range n {
		sub, _ := intake.Decode([]byte(hour), intake.Header{}, r.Config)
		if _, err := r.Intake().Submit(ctx, r.Who("beta"), sub); err != nil {
			panic(err)
		}
	}
}

// TestAFailingStoreFailsClosedAndLeavesNothingHalfDone: whatever call fails and
// however, the answer is an acceptance or 503 with Retry-After; rows and
// ledgers agree; the same submission succeeds afterwards under the same key, as
// one task; and everything comes to its end with all counts at zero.
func TestAFailingStoreFailsClosedAndLeavesNothingHalfDone(t *testing.T) {
	for situation, prepare := range situations {
		calls := submitCalls(t, prepare)
		if calls < 3 {
			t.Fatalf("a submission makes %d calls", calls)
		}
		refused := 0
		for _, f := range failures(calls + 2) {
			synctest.Test(t, func(t *testing.T) {
				fault := func(format string, a ...any) { t.Errorf(situation+", "+f.name+": "+format, a...) }
				r := rig.New(config, memtable.New(memtable.Options{}), nil)
				prepare(t.Context(), r)
				before := len(r.Tasks(t))
				r.Table.Fail(f.table)
				r.Queue.Fail(f.queue)
				first, err := r.Intake().Submit(t.Context(), r.Who("alpha"), submission(t, r, "k", hour))
				r.Table.Fail(nil)
				r.Queue.Fail(nil)
				if err != nil {
					refused++
					if got := refusalOf(t, err); got.Code != events.Unavailable || got.RetryAfterSeconds < 1 {
						fault("%+v", got)
					}
				}
				r.CheckHoldings(t)
				r.CheckLanes(t, false)
				again, err := r.Intake().Submit(t.Context(), r.Who("alpha"), submission(t, r, "k", hour))
				if err != nil || first.Task != nil && (!again.Replayed || again.Task.ID != first.Task.ID) {
					fault("first %+v, again %+v, %v", first, again, err)
				}
				if n := len(r.Tasks(t)); n != before+1 {
					fault("%d rows, expected %d", n, before+1)
				}
				r.CheckHoldings(t)
				r.CheckLanes(t, false)
				finishAll(t, r)
				if x := r.Task(t, "alpha", again.Task.ID); x.State != task.Succeeded || x.Attempt != 1 {
					fault("ended as %s after %d attempts", x.State, x.Attempt)
				}
				r.CheckQuiet(t)
				if t.Failed() {
					t.Logf("that was: %s, %s", situation, f.name)
				}
			})
		}
		if refused == 0 {
			t.Errorf("%s: no fault led to a refusal", situation)
		}
	}
}

// finishAll lets workers and aggregator run for a few minutes.
func finishAll(t *testing.T, r *rig.Rig) {
	mux := worker.New()
	for _, class := range r.Config.ClassNames() {
		mux.Handle(class, func(context.Context, *worker.Task) (any, error) { return nil, nil })
	}
	svc := r.Execute(mux)
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := r.Aggregate().Run(ctx, true); err != nil {
			t.Error(err)
		}
	}()
	for range 30 {
		for _, lane := range r.Config.LaneNames() {
			r.Deliver(ctx, svc, lane, time.Minute)
		}
		time.Sleep(5 * time.Second)
	}
	stop()
	<-done
}

// TestFaultsOfOtherCallsAreUnavailable: what only reads says so too.
func TestFaultsOfOtherCallsAreUnavailable(t *testing.T) {
	for _, f := range rig.Faults() {
		r, _ := setup(t)
		svc := r.Intake()
		accepted, err := svc.Submit(t.Context(), r.Who("alpha"), submission(t, r, "", hour))
		if err != nil {
			t.Fatal(err)
		}
		r.Table.Fail(func(rig.Call) rig.Fault { return f })
		who, id := r.Who("alpha"), accepted.Task.ID
		for name, call := range map[string]func(context.Context) error{
			"get":    func(ctx context.Context) error { _, err := svc.Get(ctx, who, id, 0); return err },
			"list":   func(ctx context.Context) error { _, _, err := svc.List(ctx, who, intake.Filter{Limit: 10}); return err },
			"cancel": func(ctx context.Context) error { _, _, err := svc.Cancel(ctx, who, id); return err },
			"quote": func(ctx context.Context) error {
				_, err := r.Intake().Quote(ctx, who, submission(t, r, "", hour))
				return err
			},
			"lanes":        func(ctx context.Context) error { _, err := svc.Lanes(ctx); return err },
			"authenticate": func(ctx context.Context) error { _, err := svc.Authenticate(ctx, "key-alpha"); return err },
		} {
			if got := refusalOf(t, call(t.Context())); got.Code != events.Unavailable || got.RetryAfterSeconds < 1 {
				t.Errorf("%s, %s: %+v", f, name, got)
			}
		}
		r.CheckHoldings(t)
	}
}

// TestAnInternalErrorNeverReachesAClient.
func TestAnInternalErrorNeverReachesAClient(t *testing.T) {
	r, _ := setup(t)
	r.Table.Fail(func(rig.Call) rig.Fault { return rig.Broken })
	_, err := r.Intake().Submit(t.Context(), r.Who("alpha"), submission(t, r, "", hour))
	if got := refusalOf(t, err); got.Detail != refusalOf(t, intake.Unavailable(t.Context(), "testing", &op.Unavailable{Name: "secret"})).Detail {
		t.Errorf("the client sees %q", got.Detail)
	}
}

// TestAnAcceptanceThatCannotBeSentIsWithdrawn: nobody would run the task in
// time. One failed send is made good at once.
func TestAnAcceptanceThatCannotBeSentIsWithdrawn(t *testing.T) {
	for name, c := range map[string]struct {
		fails int
		fault rig.Fault
		body  string
		ok    bool
	}{
		"one send":                {1, rig.Broken, hour, true},
		"both":                    {2, rig.Broken, hour, false},
		"both, but they got away": {2, rig.Applied, hour, false},
		"a large payload":         {2, rig.Broken, `{"class":"short","deadline_seconds":3600,"payload":"` + strings.Repeat("x", 1000) + `"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := setup(t)
			r.Queue.Fail(func(n int) rig.Fault {
				if n <= c.fails {
					return c.fault
				}
				return rig.None
			})
			got, err := r.Intake().Submit(t.Context(), r.Who("alpha"), submission(t, r, "k", c.body))
			if c.ok {
				if err != nil || r.Queue.Len("standard") != 1 {
					t.Errorf("%v, %d messages", err, r.Queue.Len("standard"))
				}
				return
			}
			if err == nil || refusalOf(t, err).Code != events.Unavailable {
				t.Fatalf("%+v, %v", got, err)
			}
			if n := len(r.Tasks(t)); n != 0 {
				t.Errorf("%d rows are left", n)
			}
			if l := r.Ledger(t, "alpha"); l.WorkMS != 0 {
				t.Errorf("%d ms of work are left", l.WorkMS)
			}
			r.CheckQuiet(t)
			r.Deliver(t.Context(), r.Execute(worker.New()), "standard", time.Minute)
			if n := r.Queue.Len("standard"); n != 0 {
				t.Errorf("%d messages of it come again", n)
			}
			r.Queue.Fail(nil)
			if _, err := r.Intake().Submit(t.Context(), r.Who("alpha"), submission(t, r, "k", c.body)); err != nil {
				t.Error(err)
			}
			r.CheckHoldings(t)
			r.CheckLanes(t, true)
		})
	}
}

package bench

import (
	"maps"
	"slices"
	"testing"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/meter"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// setup is a road on which nothing moves by itself.
func setup(t *testing.T, slots int) *road {
	t.Helper()
	cfg, err := lanesOf(slots)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRoad(t.Context(), cfg, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// accept submits a task and expects it in a state.
func (r *road) accept(t *testing.T, want events.State) {
	t.Helper()
	if got, err := r.submit(t.Context(), tenantKey(0), submission(0)); err != nil || got != want {
		t.Fatalf("accepted as %q, want %q: %v", got, want, err)
	}
}

// deliver hands the next message to a worker.
func (r *road) deliver(t *testing.T) {
	t.Helper()
	got, err := r.db.Queues().Receive(t.Context(), laneName, 1, time.Second, 0)
	if err != nil || len(got) != 1 {
		t.Fatalf("%d messages: %v", len(got), err)
	}
	resp, err := r.work(t.Context(), lambdaevents.SQSEvent{Records: []lambdaevents.SQSMessage{{MessageId: got[0].ID, Body: got[0].Body,
		Attributes: map[string]string{"ApproximateReceiveCount": "1"}}}})
	if err != nil || len(resp.BatchItemFailures) > 0 {
		t.Fatalf("%+v: %v", resp, err)
	}
}

func compare(t *testing.T, r *road, want map[string]meter.Usage) {
	t.Helper()
	got := r.meter.Report()
	sum := meter.Usage{}
	for _, name := range slices.Sorted(maps.Keys(got.ByName)) {
		if u := got.ByName[name]; u != want[name] {
			t.Errorf("%s: %+v, by hand %+v", name, u, want[name])
		}
	}
	for name, u := range want {
		if _, metered := got.ByName[name]; !metered {
			t.Errorf("%s was never asked for", name)
		}
		sum.Requests += u.Requests
		sum.TableWrite += u.TableWrite
		sum.IndexWrite += u.IndexWrite
		sum.Read += u.Read
	}
	if got.Total != sum {
		t.Errorf("in all %+v, by hand %+v", got.Total, sum)
	}
}

// What each step of a task costs, counted from the rules: all items are below
// 1 KB (written) and 4 KB (read), so a write is 1 and 2 in a transaction, a strong
// read 1, an eventual or index read a half, an index entry that comes or goes 1.
var (
	write      = meter.Usage{Requests: 1, TableWrite: 1}
	read       = meter.Usage{Requests: 1, Read: 1}
	staleRead  = meter.Usage{Requests: 1, Read: 0.5}
	rowLedger  = 2.0 + 2.0
	noIndexKey = meter.Usage{Requests: 1, TableWrite: rowLedger}
	oneKey     = meter.Usage{Requests: 1, TableWrite: rowLedger, IndexWrite: 1} // due comes or goes, or ready goes
	twoKeys    = meter.Usage{Requests: 1, TableWrite: rowLedger, IndexWrite: 2} // due and ready come
)

func times(n int, u meter.Usage) meter.Usage {
	return meter.Usage{Requests: n * u.Requests, TableWrite: float64(n) * u.TableWrite, IndexWrite: float64(n) * u.IndexWrite, Read: float64(n) * u.Read}
}

func TestUnitsOfOneTaskByHand(t *testing.T) {
	t.Parallel()
	r := setup(t, 8)
	r.accept(t, events.StateQueued)
	r.deliver(t)
	r.flush(t.Context())
	first := oneKey
	ledger, err := r.past.Get(t.Context(), taskop.LedgerKey("tenant-0"), true)
	if err != nil {
		t.Fatal(err)
	}
	if ledger.Has("dk") && ledger.Has("ds") {
		first.IndexWrite++ // a tenant's first accept lists its ledger, once and for all
	}
	compare(t, r, map[string]meter.Usage{
		"admission get K":           staleRead, // the credential, then its tenant
		"admission get E":           staleRead,
		"admission batch get N":     {Requests: 1, Read: 4}, // lane, ledger, estimates and margins, the last three missing
		"admission lane.enter_slot": write,
		"admission accept":          first,
		"worker get T":              read,
		"worker claim":              noIndexKey, // the due time is early enough already
		"worker lane.begin_run":     write,
		"worker finish_succeed":     oneKey,
		"worker get N":              read, // does anybody wait?
		"worker lane.end_run":       write,
		"admission tally":           write,           // the decision
		"worker tally":              times(4, write), // start, lane, class, bins
	})
	if got := r.meter.Report().Total.Write() - 5 - (first.IndexWrite - 1); got != 17 {
		t.Errorf("%v write units without statistics and the listing, by hand 17", got)
	}
}

func TestUnitsOfATaskThatWaitedByHand(t *testing.T) {
	t.Parallel()
	r := setup(t, 2)
	r.accept(t, events.StateQueued)
	r.accept(t, events.StateQueued)
	r.meter.Reset() // what the first two are charged is known from above
	r.accept(t, events.StateWaiting)
	compare(t, r, map[string]meter.Usage{"admission lane.enter_ready": write, "admission accept": twoKeys})
	r.meter.Reset()
	r.deliver(t) // the first task, and by hand-over the third
	compare(t, r, map[string]meter.Usage{
		"worker get T":          times(2, read),
		"worker claim":          noIndexKey,
		"worker lane.begin_run": write,
		"worker finish_succeed": times(2, oneKey),
		"worker get N":          times(2, read),
		"worker query ready":    staleRead,
		"worker hand_over":      oneKey,
		"worker lane.hand_over": write,
		"worker lane.end_run":   write,
	})
	r.meter.Reset()
	r.deliver(t) // the second task finds nobody waiting
	compare(t, r, map[string]meter.Usage{
		"worker get T": read, "worker claim": noIndexKey, "worker lane.begin_run": write,
		"worker finish_succeed": oneKey, "worker get N": read, "worker lane.end_run": write,
	})
}

func TestAuditNoticesATaskThatIsNotDone(t *testing.T) {
	t.Parallel()
	r := setup(t, 2)
	r.accept(t, events.StateQueued)
	if err := r.audit(t.Context(), &bill{tasks: 1}); err == nil {
		t.Error("a queued task passes for done")
	}
	r.deliver(t)
	if err := r.audit(t.Context(), &bill{tasks: 1}); err != nil {
		t.Error(err)
	}
	if err := r.audit(t.Context(), &bill{tasks: 2}); err == nil {
		t.Error("a lost task is not missed")
	}
}

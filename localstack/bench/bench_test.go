package bench

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/admission"
	"github.com/lanekeeper/lanekeeper/pkg/meter"
)

func TestDecisionMeetsManyCodesWithoutAllocations(t *testing.T) {
	w, err := newWorld()
	if err != nil {
		t.Fatal(err)
	}
	codes := map[admission.Code]int{}
	for i := range 3 * worldClasses {
		codes[w.decide(i).Code]++
	}
	for _, code := range []admission.Code{admission.Accept, admission.RejectDeadline, admission.RejectLaneBacklog, admission.DeadlineInfeasible} {
		if codes[code] == 0 {
			t.Errorf("never %s: %v", code, codes)
		}
	}
	i := 0
	if n := testing.AllocsPerRun(1000, func() { w.decide(i); i++ }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestStubbedHandlerGoesOnAccepting(t *testing.T) {
	t.Parallel()
	h, s, err := newStubbed()
	if err != nil {
		t.Fatal(err)
	}
	req := event(tenantKey(0), submission(20))
	const n = 5_000 // seconds of the stub's clock, in which copies age and are read again
	for i := range n {
		if resp, err := h.Handle(t.Context(), req); err != nil || resp.StatusCode != http.StatusAccepted {
			t.Fatalf("submission %d: %d %s: %v", i, resp.StatusCode, resp.Body, err)
		}
	}
	if s.rows != n {
		t.Errorf("%d rows of %d accepted submissions", s.rows, n)
	}
}

func TestQuantileIsTheNearestRank(t *testing.T) {
	t.Parallel()
	var values []time.Duration
	for i := 100; i > 0; i-- {
		values = append(values, time.Duration(i))
	}
	for p, want := range map[float64]time.Duration{0.5: 50, 0.99: 99, 1: 100, 0.001: 1} {
		if got := quantile(values, p); got != want {
			t.Errorf("p%v = %d, want %d", 100*p, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("of nothing: %d", got)
	}
}

func TestLineDividesByTasks(t *testing.T) {
	t.Parallel()
	b := &bill{tasks: 4, Report: meter.Report{Total: meter.Usage{Requests: 42, TableWrite: 60, IndexWrite: 9, Read: 11}}}
	if got, want := b.line(), "wru_per_task=17.25  rru_per_task=2.75  requests_per_task=10.50"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestUnknownSectionIsAnError(t *testing.T) {
	t.Parallel()
	if err := Run(t.Context(), io.Discard, []string{"nonsense"}); err == nil {
		t.Error("it ran")
	}
}

// BenchmarkHandler is one accepted submission through the admission handler, its store stubbed.
func BenchmarkHandler(b *testing.B) {
	h, _, err := newStubbed()
	if err != nil {
		b.Fatal(err)
	}
	req := event(tenantKey(0), submission(20))
	b.ReportAllocs()
	for b.Loop() {
		if resp, err := h.Handle(b.Context(), req); err != nil || resp.StatusCode != http.StatusAccepted {
			b.Fatalf("%d %s: %v", resp.StatusCode, resp.Body, err)
		}
	}
}

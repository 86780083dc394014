package admission

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/estimate"
)

func TestProbeLeavesOutTheServiceTimeAndNothingElse(t *testing.T) {
	req, lane, tenant := open()
	req.P95MS, req.Probe = 10_000_000, true
	d := Decide(req, lane, tenant)
	want := Guard{LaneEnteredMaxMS: 500_000 + 56_000 - 20_000, TenantEnteredMaxMS: 90_000 + 57_000 - 6_000,
		TenantWorkMaxMS: 9_000, DayWorkMaxMS: 79_000}
	if !d.Accepted() || !d.Probe || d.ServiceP95MS != 10_000_000 || d.Guard != want {
		t.Fatalf("%+v", d)
	}
	for _, c := range []struct {
		binding Binding
		change  func(*Request, *LaneView, *TenantView)
	}{
		{BindingLanePaused, func(_ *Request, l *LaneView, _ *TenantView) { l.Paused = true }},
		{BindingTenantRate, func(_ *Request, _ *LaneView, v *TenantView) { v.RateWaitMS = 1 }},
		{BindingTenantQueuedWork, func(_ *Request, _ *LaneView, v *TenantView) { v.LimitMS = 6_999 }},
		{BindingTenantDailyWork, func(_ *Request, _ *LaneView, v *TenantView) { v.DayLimitMS = 50_999 }},
		{BindingLaneMaxWork, func(_ *Request, l *LaneView, _ *TenantView) { l.MaxWorkMS = 20_999 }},
		{BindingLaneMaxWait, func(r *Request, _ *LaneView, _ *TenantView) { r.MaxWaitMS = 11_999 }},
		{BindingLaneDeadline, func(r *Request, _ *LaneView, _ *TenantView) { r.DeadlineMS = 12_500 }},
		{BindingServiceTime, func(r *Request, _ *LaneView, _ *TenantView) { r.DeadlineMS = 500 }},
	} {
		req, lane, tenant := open()
		req.P95MS, req.Probe = 10_000_000, true
		c.change(&req, lane, tenant)
		if d := Decide(req, lane, tenant); d.Accepted() || d.Binding != c.binding {
			t.Errorf("%s: %+v", c.binding, d)
		}
	}
}

// A probe is decided as a task that takes no time: under the same guard, and refused for the same reason.
func TestProbeIsATaskThatTakesNoTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, req := drawState(t), drawRequest(t)
		probe, instant := req, req
		probe.Probe, instant.Probe, instant.P95MS = true, false, 0
		a, b := Decide(probe, &s.lane, &s.tenant), Decide(instant, &s.lane, &s.tenant)
		if a.Code != b.Code || a.Binding != b.Binding || a.Guard != b.Guard || a.RetryAfterMS != b.RetryAfterMS {
			t.Fatalf("probe %+v\nwithout service time %+v", a, b)
		}
		// What a plain request is given, a probe is given too: no limit but that of its own time is lifted or added.
		plain := probe
		plain.Probe = false
		if c := Decide(plain, &s.lane, &s.tenant); c.Accepted() && !a.Accepted() {
			t.Fatalf("a probe is refused where a plain request is accepted: %+v", a)
		}
	})
}

func TestOnlyARefusalForAnUnprovenEstimateIsProbeable(t *testing.T) {
	for _, c := range []struct {
		d    Decision
		want bool
	}{
		{Decision{Code: DeadlineInfeasible}, true},
		{Decision{Code: RejectDeadline, Samples: estimate.EnoughSamples - 1}, true},
		{Decision{Code: RejectDeadline, Samples: estimate.EnoughSamples}, false},
		{Decision{Code: DeadlineInfeasible, Probe: true}, false},
		{Decision{Code: Accept}, false},
		{Decision{Code: RejectTenantLimit}, false},
		{Decision{Code: RejectRateLimit}, false},
		{Decision{Code: RejectLaneBacklog}, false},
		{Decision{Code: RejectLanePaused}, false},
		{Decision{Code: RejectDependency}, false},
	} {
		if got := c.d.Probeable(); got != c.want {
			t.Errorf("%+v: %v", c.d, got)
		}
	}
}

func TestPatienceEndsAfterEnoughRefusalsOverEnoughTime(t *testing.T) {
	var p Patience
	now := int64(1_700_000_000_000)
	begin := now
	for n := range 3 * ProbeRefusals { // often, but not for long
		if p.Refuse(now) {
			t.Fatalf("a probe after %d refusals in %d ms", n+1, now-begin)
		}
		now += 1000
	}
	if p.Refuse(begin + ProbeAfterMS - 1) {
		t.Fatal("a probe a millisecond too early")
	}
	if !p.Refuse(begin + ProbeAfterMS) {
		t.Fatal("no probe when it was time")
	}
	now = begin + ProbeAfterMS + ProbeForgetMS + 1 // nobody asked for long: from the beginning
	for n := range ProbeRefusals {
		if got := p.Refuse(now); got != (n == ProbeRefusals-1) {
			t.Fatalf("refusal %d after a pause: %v", n+1, got)
		}
		now += ProbeAfterMS // seldom, for long
	}
}

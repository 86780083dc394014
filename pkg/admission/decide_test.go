package admission

import (
	"fmt"
	"math"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/wait"
)

func ExampleDecide() {
	// Two workers have just taken tasks of a minute; nothing is queued.
	lane := &LaneView{
		Name: "standard", Workers: 2, MaxWorkMS: 600_000,
		Free: wait.Slots(nil, []int64{60_000, 60_000}, 2),
	}
	tenant := &TenantView{LimitMS: 120_000, Free: wait.Slots(nil, nil, 2)}
	req := Request{AmountMS: 1_000, P95MS: 2_000, MarginMS: 500, DeadlineMS: 30_000, MaxWaitMS: 300_000}
	d := Decide(req, lane, tenant)
	fmt.Println(d.Code, d.Binding, d.PredictedWaitMS, d.RatioWaitMS, d.RetryAfterMS)
	req.DeadlineMS = 90_000
	d = Decide(req, lane, tenant)
	fmt.Println(d.Code, d.Guard.LaneEnteredMaxMS)
	// Output:
	// reject_deadline lane_deadline 60000 0 32501
	// accept 54998
}

// open returns a request, a lane and a tenant for which everything fits; tests change one thing.
func open() (Request, *LaneView, *TenantView) {
	return Request{AmountMS: 1_000, P95MS: 2_000, MarginMS: 500, DeadlineMS: 60_000, MaxWaitMS: 30_000, Samples: 9},
		&LaneView{Name: "standard", Workers: 2, Slots: 2, WorkMS: 20_000, EnteredMS: 500_000, MaxWorkMS: 100_000,
			Free: []int64{0, 4_000}, CopyAgeMS: 120},
		&TenantView{WorkMS: 6_000, EnteredMS: 90_000, LimitMS: 10_000, Free: []int64{0, 3_000},
			DayWorkMS: 50_000, DayLimitMS: 80_000, DayResetMS: 7_000_000}
}

func TestAcceptCarriesItsFigures(t *testing.T) {
	req, lane, tenant := open()
	want := Decision{
		Code: Accept, Lane: "standard", EstimateMS: 1_000, Samples: 9,
		PredictedWaitMS: 12_000, LaneWaitMS: 12_000, TenantWaitMS: 4_500, RatioWaitMS: 10_000,
		ServiceP95MS: 2_000, MarginMS: 500, DeadlineMS: 60_000, QueuedWorkMS: 20_000, Slots: 2,
		TenantQueuedWorkMS: 6_000, TenantLimitMS: 10_000, CopyAgeMS: 120,
		Guard: Guard{
			LaneEnteredMaxMS:   500_000 + 56_000 - 20_000, // room for a level of 30 s: 30 s + 26 s
			TenantEnteredMaxMS: 90_000 + 57_000 - 6_000,
			TenantWorkMaxMS:    9_000, DayWorkMaxMS: 79_000,
		},
	}
	if got := Decide(req, lane, tenant); got != want {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
	lane.MaxWorkMS = 40_000 // now max_work is the narrower
	if got := Decide(req, lane, tenant).Guard.LaneEnteredMaxMS; got != 500_000+39_000-20_000 {
		t.Fatalf("guard %d", got)
	}
}

func TestEachRule(t *testing.T) {
	busy := []int64{40_000, 50_000}
	for _, c := range []struct {
		name    string
		change  func(*Request, *LaneView, *TenantView)
		code    Code
		binding Binding
		retryMS int64
	}{
		{"p95 and margin reach the deadline", func(r *Request, l *LaneView, _ *TenantView) {
			r.DeadlineMS, l.Paused = 2_500, true
		}, DeadlineInfeasible, BindingServiceTime, 0},
		{"no deadline left at all", func(r *Request, _ *LaneView, _ *TenantView) { r.DeadlineMS = -1 },
			DeadlineInfeasible, BindingServiceTime, 0},
		{"paused before anything of the tenant", func(_ *Request, l *LaneView, v *TenantView) {
			l.Paused, v.RateWaitMS = true, 5
		}, RejectLanePaused, BindingLanePaused, PausedRetryMS},
		{"rate before work", func(_ *Request, _ *LaneView, v *TenantView) { v.RateWaitMS, v.LimitMS = 350, 0 },
			RejectRateLimit, BindingTenantRate, 350},
		// 1 s too much. The tenant's own slots drain it in 1 s; in the lane it is 20/6 of a second of mixed work.
		{"tenant work", func(_ *Request, _ *LaneView, v *TenantView) { v.LimitMS = 6_000 },
			RejectTenantLimit, BindingTenantQueuedWork, 3_334},
		{"tenant work, all its slots busy", func(_ *Request, _ *LaneView, v *TenantView) {
			v.LimitMS, v.Free = 6_000, []int64{9_000, 9_500}
		}, RejectTenantLimit, BindingTenantQueuedWork, 9_750},
		{"tenant work, nothing of it in this lane", func(_ *Request, l *LaneView, v *TenantView) {
			v.LimitMS, l.WorkMS, l.Free = 6_000, 0, []int64{25_000}
		}, RejectTenantLimit, BindingTenantQueuedWork, 25_000},
		{"the amount alone is over the tenant's limit", func(_ *Request, _ *LaneView, v *TenantView) { v.LimitMS = 999 },
			RejectTenantLimit, BindingTenantQueuedWork, NeverFitsRetryMS},
		{"daily work", func(_ *Request, _ *LaneView, v *TenantView) { v.DayWorkMS = 79_001 },
			RejectTenantLimit, BindingTenantDailyWork, 7_000_000},
		{"the amount alone is over the daily limit", func(_ *Request, _ *LaneView, v *TenantView) {
			v.DayLimitMS, v.DayResetMS = 900, 5
		}, RejectTenantLimit, BindingTenantDailyWork, NeverFitsRetryMS},
		{"who obeys the queue's guidance is not stopped by the day's", func(_ *Request, _ *LaneView, v *TenantView) {
			v.LimitMS, v.DayWorkMS = 6_000, 79_001
		}, RejectTenantLimit, BindingTenantQueuedWork, 7_000_000},
		{"lane work", func(_ *Request, l *LaneView, _ *TenantView) { l.MaxWorkMS = 15_000 }, // 6 s too much
			RejectLaneBacklog, BindingLaneMaxWork, 5_000},
		{"the amount alone is over the lane's limit", func(_ *Request, l *LaneView, _ *TenantView) { l.MaxWorkMS = 999 },
			RejectLaneBacklog, BindingLaneMaxWork, NeverFitsRetryMS},
		{"lane level over max_wait", func(r *Request, _ *LaneView, _ *TenantView) { r.MaxWaitMS = 11_999 },
			RejectLaneBacklog, BindingLaneMaxWait, 1},
		{"max_wait is refused, guidance knows the deadline too", func(r *Request, _ *LaneView, _ *TenantView) {
			r.MaxWaitMS, r.DeadlineMS = 11_000, 10_000
		}, RejectLaneBacklog, BindingLaneMaxWait, 12_000 - 7_499},
		{"tenant level over max_wait", func(_ *Request, _ *LaneView, v *TenantView) { v.Free = busy },
			RejectTenantLimit, BindingTenantMaxWait, 46_000 - 30_000},
		{"lane level over the deadline", func(r *Request, _ *LaneView, _ *TenantView) { r.DeadlineMS = 14_500 },
			RejectDeadline, BindingLaneDeadline, 1},
		{"tenant level over the deadline", func(r *Request, _ *LaneView, v *TenantView) {
			r.MaxWaitMS, r.DeadlineMS, v.Free = 90_000, 40_000, busy
		}, RejectDeadline, BindingTenantDeadline, 46_000 - 37_499},
		{"equal levels are the lane's", func(r *Request, l *LaneView, v *TenantView) {
			r.MaxWaitMS, v.WorkMS, v.Free, v.LimitMS = 11_000, l.WorkMS, l.Free, 50_000
		}, RejectLaneBacklog, BindingLaneMaxWait, 1_000},
		{"a limit that would wrap around", func(_ *Request, _ *LaneView, v *TenantView) { v.LimitMS = math.MinInt64 },
			RejectTenantLimit, BindingTenantQueuedWork, NeverFitsRetryMS},
		{"a lane without slots", func(_ *Request, l *LaneView, _ *TenantView) { l.Workers, l.Free = 0, nil },
			RejectLaneBacklog, BindingLaneMaxWait, PausedRetryMS},
		{"a lane without slots and no limit of time", func(r *Request, l *LaneView, _ *TenantView) {
			l.Workers, l.Free, r.MaxWaitMS, r.DeadlineMS = 0, nil, math.MaxInt64, math.MaxInt64
		}, RejectDeadline, BindingLaneDeadline, PausedRetryMS},
		{"a tenant without slots", func(_ *Request, _ *LaneView, v *TenantView) { v.Free = nil },
			RejectTenantLimit, BindingTenantMaxWait, PausedRetryMS},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, lane, tenant := open()
			c.change(&req, lane, tenant)
			d := Decide(req, lane, tenant)
			if d.Code != c.code || d.Binding != c.binding || d.RetryAfterMS != c.retryMS {
				t.Errorf("got %s %s, retry after %d", d.Code, d.Binding, d.RetryAfterMS)
			}
			if d.Guard != (Guard{-1, -1, -1, -1}) || d.Accepted() {
				t.Errorf("a rejection has a guard that can pass: %+v", d.Guard)
			}
		})
	}
}

func TestLimitsAreInclusive(t *testing.T) {
	req, lane, tenant := open()
	tenant.LimitMS, tenant.DayWorkMS, lane.MaxWorkMS = 7_000, 79_000, 21_000
	req.MaxWaitMS, req.DeadlineMS = 12_000, 14_501
	if d := Decide(req, lane, tenant); !d.Accepted() {
		t.Fatalf("%+v", d)
	}
}

// One long task must not make a tenant wait that has another slot free.
func TestTenantLevelIsNotADivision(t *testing.T) {
	req, lane, tenant := open()
	tenant.WorkMS, tenant.Free = 0, []int64{0, 3_600_000}
	if d := Decide(req, lane, tenant); d.TenantWaitMS != 0 || !d.Accepted() {
		t.Fatalf("%+v", d)
	}
}

func TestNoDailyLimitLeavesTheDayOpen(t *testing.T) {
	req, lane, tenant := open()
	tenant.DayLimitMS, tenant.DayWorkMS = 0, math.MaxInt64
	if d := Decide(req, lane, tenant); !d.Accepted() || d.Guard.DayWorkMaxMS != math.MaxInt64 {
		t.Fatalf("%+v", d)
	}
}

func TestMulDivSaturates(t *testing.T) {
	for _, c := range []struct{ a, b, c, want int64 }{
		{7, 3, 2, 11}, {math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64}, {math.MaxInt64, 6, 3, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64, 1, math.MaxInt64}, {0, 5, 3, 0}, {math.MaxInt64, 2, 4, 1 << 62},
	} {
		if got := mulDiv(c.a, c.b, c.c); got != c.want {
			t.Errorf("%d·%d/%d = %d, want %d", c.a, c.b, c.c, got, c.want)
		}
	}
}

func TestRetryAfterSeconds(t *testing.T) {
	for _, c := range []struct {
		ms   int64
		u    float64
		want int64
	}{
		{0, 0, 1}, {-7, 0.99, 1}, {1, 0.99, 1}, {1_000, 0, 1}, {1_001, 0, 2}, {4_500, 0.999, 6}, {4_500, 0.3, 5},
		{100_000, 0, 100}, {100_000, 0.5, 110}, {100_000, 0.9999, 120}, {100_000, 1, 120}, {100_000, 7, 120},
		{100_000, math.NaN(), 100}, {100_000, -1, 100}, {86_400_000, 0, 86_400}, {80_000_000, 0.9999, 86_400},
		{math.MaxInt64, 0.5, 86_400},
	} {
		if got := RetryAfterSeconds(c.ms, c.u); got != c.want {
			t.Errorf("RetryAfterSeconds(%d, %v) = %d, want %d", c.ms, c.u, got, c.want)
		}
	}
}

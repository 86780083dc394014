package simtest

import "time"

// Faults are the chances, per call unless said otherwise, of what goes wrong.
// The zero value is a perfect world whose calls take 0.2 to 10 ms.
type Faults struct {
	Throttle, Conflict, Lost, AppliedLost, AppliedError float64

	Kill   float64 // of the instance, before or after the call
	Freeze float64 // of the instance, for 36 to 60 s: longer than a lease

	Slow     float64 // the call takes up to SlowMost
	SlowMost time.Duration
	Late     float64 // of abandoned writes: applied all the same
	Echo     float64 // of writes that were applied and may be repeated: they arrive a second time, up to 30 s later

	Lag                         float64 // per index change
	LagMost                     time.Duration
	ShortPage, EmptyPage, Stale float64 // per page or eventual read

	MessageLost, MessageTwice float64 // per message sent
	Throttled                 float64 // per batch: received, but not run
	EarlyVisible              float64 // per batch: its visibility ends in the middle
	DeleteFails               float64 // per message handled
	Skew                      time.Duration
	InitFails                 float64 // per batch: no worker comes up for it
	// Outage: a lane's workers do not start for 5 to 60 s. Garbage: a body that is no
	// message. Moved: an operator moves dead letters back. All per lane, every few seconds.
	Outage, Garbage, Moved float64
	// WakeLost: the asynchronous invocation of the aggregator does not happen.
	WakeLost float64
}

// AllFaults is everything at once, each rare enough that work still gets done.
func AllFaults() Faults {
	return Faults{
		Throttle: 0.01, Conflict: 0.01, Lost: 0.01, AppliedLost: 0.01, AppliedError: 0.01,
		Kill: 0.01, Freeze: 0.002, Slow: 0.02, SlowMost: 8 * time.Second, Late: 0.3, Echo: 0.03,
		Lag: 0.5, LagMost: 2 * time.Second, ShortPage: 0.2, EmptyPage: 0.1, Stale: 0.3,
		MessageLost: 0.05, MessageTwice: 0.1, Throttled: 0.05, EarlyVisible: 0.1, DeleteFails: 0.1, Skew: 500 * time.Millisecond, WakeLost: 0.2,
		InitFails: 0.05, Outage: 0.2, Garbage: 0.03, Moved: 0.05,
	}
}

// Prompt is the faults without those that make a call take longer than the
// lanes' checks allow for: then no lane may count too little at any moment.
func (f Faults) Prompt() Faults {
	f.Slow, f.Freeze, f.Late, f.Echo, f.Skew = 0, 0, 0, 0, 0
	return f
}

// chances lists all chances, for drawing and shrinking.
func (f *Faults) chances() []*float64 {
	return []*float64{&f.Throttle, &f.Conflict, &f.Lost, &f.AppliedLost, &f.AppliedError, &f.Kill, &f.Freeze, &f.Slow, &f.Late, &f.Echo, &f.Lag,
		&f.ShortPage, &f.EmptyPage, &f.Stale, &f.MessageLost, &f.MessageTwice, &f.Throttled, &f.EarlyVisible, &f.DeleteFails, &f.WakeLost, &f.InitFails, &f.Outage, &f.Garbage, &f.Moved}
}

// fate draws what becomes of a call.
func (w *World) fate(c *Call) Fate {
	if w.opts.Plan != nil {
		return w.opts.Plan(c)
	}
	f := &w.faults
	if *f == (Faults{}) {
		return Fine
	}
	u := w.rng.Float64()
	for _, o := range [...]struct {
		p    float64
		fate Fate
		ok   bool
	}{
		{f.Throttle, Throttle, true}, {f.Conflict, Conflict, c.Kind == Transact}, {f.Lost, Lost, true},
		{f.AppliedLost, AppliedLost, c.Kind != Read}, {f.AppliedError, AppliedError, c.Kind != Read},
		{f.Kill / 2, KillBefore, true}, {f.Kill / 2, KillAfter, true},
		{f.Freeze / 2, FreezeBefore, true}, {f.Freeze / 2, FreezeAfter, true},
	} {
		if u < o.p {
			if o.ok {
				return o.fate
			}
			return Fine
		}
		u -= o.p
	}
	return Fine
}

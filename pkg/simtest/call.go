package simtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// Kind is what a call does.
type Kind uint8

// The kinds of calls.
const (
	Read Kind = iota
	Write
	Transact
	Send
	internal // no call: something handed to the scheduler
)

// Call is one outside call of an instance.
type Call struct {
	In    *Instance
	Kind  Kind
	Name  string // the operation
	Where string // what it touches
	N     int    // its number among all granted calls, from 1

	do        func() error
	repeats   func() error // the same without an answer, if it may arrive twice
	done      chan struct{}
	err       error
	came      time.Time
	abandoned bool // the caller's context ended
	knew      bool // its worker had seen its lane paused
	answered  bool
}

// String names the call for traces.
func (c *Call) String() string {
	if c.In == nil {
		return c.Name
	}
	return fmt.Sprintf("%s %s %s", c.In.Name, c.Name, c.Where)
}

func (c *Call) order() string { return c.String() }

// Fate is what becomes of a call.
type Fate uint8

// The fates.
const (
	Fine         Fate = iota
	Throttle          // refused by the store without effect
	Conflict          // a transaction that kept colliding, without effect
	Lost              // never arrived; the answer is a time-out
	AppliedLost       // applied, but the answer is a time-out
	AppliedError      // applied, but the answer is an error of the store
	KillBefore        // the instance dies before the call
	KillAfter         // the call is applied and the instance dies before the answer
	FreezeBefore      // the instance is paused for long before the call
	FreezeAfter       // and after it
)

var fateNames = [...]string{"", "throttled", "conflict", "lost", "applied, answer lost", "applied, answered with an error",
	"KILLED BEFORE", "KILLED AFTER", "FROZEN BEFORE", "FROZEN AFTER"}

var errInjected = errors.New("simtest: injected")

// call hands an outside call in and waits for its answer. A dead instance's
// goroutines end here.
func (in *Instance) call(ctx context.Context, kind Kind, name, where string, do func() error) error {
	return in.send(ctx, &Call{In: in, Kind: kind, Name: name, Where: where, do: do})
}

func (in *Instance) send(ctx context.Context, c *Call) error {
	w := in.w
	c.done = make(chan struct{})
	w.mu.Lock()
	if in.dead || w.ended {
		w.mu.Unlock()
		runtime.Goexit()
	}
	w.arrive(c)
	w.mu.Unlock()
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	for { // a paused instance does not even notice that its time is over
		w.mu.Lock()
		pause := in.frozenUntil.Sub(w.now())
		w.mu.Unlock()
		if pause <= 0 {
			break
		}
		time.Sleep(pause)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if in.dead || w.ended {
		runtime.Goexit()
	}
	if c.answered {
		return c.err
	}
	c.abandoned = true
	return &op.Unavailable{Name: c.Name, Reason: op.Timeout, Err: context.Cause(ctx)}
}

// admit gives a call that came in its time.
func (w *World) admit(c *Call) {
	if c.Kind == internal {
		_ = c.do()
		return
	}
	w.open[c], c.came, c.knew = true, w.now(), c.In.sawPause
	d := w.between(200*time.Microsecond, 10*time.Millisecond)
	if w.hit(w.faults.Slow) {
		d = w.between(100*time.Millisecond, w.faults.SlowMost)
	}
	if w.opts.Takes != nil {
		d = max(d, w.opts.Takes(c))
	}
	w.after(d, func() { w.grant(c) })
}

// grant lets a call happen.
func (w *World) grant(c *Call) {
	if !w.open[c] {
		return // its instance died
	}
	in := c.In
	if in.frozenUntil.After(w.now()) {
		w.at(in.frozenUntil.Add(w.between(1, time.Millisecond)), func() { w.grant(c) })
		return
	}
	if c.abandoned {
		delete(w.open, c)
		if c.Kind != Read && w.hit(w.faults.Late) {
			w.note("%v: applied after its caller gave up", c)
			_ = w.apply(c)
		}
		return
	}
	w.calls++
	c.N = w.calls
	fate := w.fate(c)
	if fate == Fine {
		w.note("%v", c)
	} else {
		w.note("%v: %s", c, fateNames[fate])
	}
	unavailable := func(r op.Reason) error { return &op.Unavailable{Name: c.Name, Reason: r, Err: errInjected} }
	switch fate {
	case Throttle:
		w.answer(c, unavailable(op.Throttled))
	case Conflict:
		w.answer(c, unavailable(op.Conflict))
	case Lost:
		w.answer(c, unavailable(op.Timeout))
	case AppliedLost, AppliedError:
		reason := op.Timeout
		if fate == AppliedError {
			reason = op.Internal
		}
		if err := w.apply(c); err == nil {
			w.answer(c, unavailable(reason))
		} else {
			w.answer(c, err)
		}
	case KillBefore:
		w.kill(in)
	case KillAfter:
		_ = w.apply(c)
		w.kill(in)
	case FreezeBefore:
		w.freeze(in)
		w.at(in.frozenUntil.Add(w.between(1, time.Millisecond)), func() { w.grant(c) })
	case FreezeAfter:
		err := w.apply(c)
		w.freeze(in)
		w.at(in.frozenUntil.Add(w.between(1, time.Millisecond)), func() { w.answer(c, err) })
	default:
		w.answer(c, w.apply(c))
	}
}

func (w *World) apply(c *Call) error {
	w.current = c
	w.granting.Store(true)
	err := c.do()
	w.granting.Store(false)
	w.current = nil
	if err == nil && c.repeats != nil && w.hit(w.faults.Echo) {
		w.after(w.between(0, 30*time.Second), func() {
			w.note("%v: arrives again", c)
			w.current, w.echo = c, true
			if err := c.repeats(); err != nil {
				w.note("    → %v", err)
			}
			w.current, w.echo = nil, false
		})
	}
	if err != nil {
		w.note("    → %v", err)
	} else if c.Kind == Read {
		w.model.ops.read(c)
	}
	return err
}

func (w *World) answer(c *Call, err error) {
	if !w.open[c] {
		return
	}
	delete(w.open, c)
	w.mu.Lock()
	c.err, c.answered = err, true
	w.mu.Unlock()
	close(c.done)
}

func (w *World) freeze(in *Instance) {
	d := w.between(36*time.Second, 60*time.Second)
	w.mu.Lock()
	in.frozenUntil = w.now().Add(d)
	w.mu.Unlock()
}

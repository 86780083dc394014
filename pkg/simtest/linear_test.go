package simtest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// ledger is the sequential specification: a tenant's work and active attempts.
type ledger struct{ work, active int64 }

// ledgerOp is one operation on it as somebody saw it from outside.
type ledgerOp struct {
	what         string
	work, active int64 // what it adds when it takes effect
}

type ledgerOutcome string

const (
	done      ledgerOutcome = "done"
	overLimit ledgerOutcome = "over the limit"
	full      ledgerOutcome = "at max_active"
	unknown   ledgerOutcome = "unknown" // it may have taken effect, at any time from its start on
)

// ledgerModel says what a ledger with these limits may answer.
func ledgerModel(workMax, activeMax int64) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{ledger{}} },
		Step: func(state, input, output any) []any {
			s, in := state.(ledger), input.(ledgerOp)
			next := ledger{s.work + in.work, s.active + in.active}
			may := next.work >= 0 && next.active >= 0 && next.active <= activeMax && (in.what != "submit" || next.work <= workMax)
			switch out := output.(ledgerOutcome); {
			case out == done && may:
				return []any{next}
			case out == unknown && may:
				return []any{s, next}
			case out == unknown:
				return []any{s}
			case out == overLimit && s.work+in.work > workMax, out == full && s.active >= activeMax:
				return []any{s}
			}
			return nil
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %v", input, output) },
	}
	return m.ToModel()
}

// history collects what the callers of one tenant's ledger saw.
type history struct {
	sync.Mutex
	tenant string
	ops    []porcupine.Operation
}

const never = int64(1) << 60

func (h *history) add(in ledgerOp, out ledgerOutcome, began, ended time.Time) {
	h.Lock()
	defer h.Unlock()
	o := porcupine.Operation{ClientId: len(h.ops), Input: in, Call: began.UnixNano(), Output: out, Return: ended.UnixNano()}
	if out == unknown {
		o.Return = never
	}
	h.ops = append(h.ops, o)
}

// watch takes down every transaction but the submissions', which are seen as
// their clients see them.
func (h *history) watch(tx op.Tx, began, ended time.Time, err error) {
	if tx.Name == "accept" {
		return
	}
	in, here := ledgerOp{what: tx.Name}, false
	for _, w := range tx.Writes {
		if w.Key != taskop.LedgerKey(h.tenant) {
			continue
		}
		here = true
		s := Sample{Write: w}
		in.work, in.active = s.added("work"), s.added("active")
	}
	out := done
	if ce := op.FailedCond(err); ce != nil {
		_, onRow := ce.On(taskop.OnRow)
		if out = full; onRow || in.active <= 0 {
			return // the row had moved on: nothing was asked of the ledger
		}
	} else if err != nil {
		out = unknown
	}
	if here {
		h.add(in, out, began, ended)
	}
}

func (h *history) submit(c *Client, class string, amountMS int64) {
	began := c.w.now()
	_, code := c.submit(c.submission(class, work{Do: "ok", MS: c.rng.Int64N(800)}, ""))
	in, ended := ledgerOp{what: "submit", work: amountMS}, c.w.now()
	switch code {
	case "":
		h.add(in, done, began, ended)
	case events.RejectTenantLimit:
		h.add(in, overLimit, began, ended)
	case events.Unavailable, gatewayError:
		h.add(in, unknown, began, ended)
	}
}

// unlearned keeps what is published empty, so that every submission asks for what the prior says.
func unlearned(w op.Write) op.Write {
	if w.Name == "publish" {
		w.Item = w.Item.Clone()
		w.Item["v"] = op.B([]byte("[]"))
	}
	return w
}

// TestLedgerIsLinearizable: whatever clients, workers and the aggregator saw of
// one tenant's ledger can be explained by operations that took effect one at a
// time, each between its call and its answer.
func TestLedgerIsLinearizable(t *testing.T) {
	cfg, err := Config()
	if err != nil {
		t.Fatal(err)
	}
	tier, _ := cfg.Tier(tiers["alpha"])
	model := ledgerModel(tier.MaxQueuedWork.MS(), int64(tier.MaxActive))
	ops, limited, unknowns := 0, 0, 0
	for seed := range uint64(60) {
		h := &history{tenant: "alpha"}
		faults := Faults{Throttle: 0.01, Conflict: 0.02, AppliedLost: 0.01, AppliedError: 0.01, Kill: 0.004, Lag: 0.5, LagMost: time.Second}
		res := Run(t, Options{Seed: seed, Config: cfg, Faults: faults, Watch: h.watch, Cold: true, Mutate: unlearned}, func(w *World) {
			w.schedule(w.between(0, 3*time.Second))
			for i := range 4 {
				w.client(fmt.Sprintf("c%d", i), "alpha", func(c *Client) {
					for range 3 {
						c.pause(0, 1500*time.Millisecond)
						h.submit(c, "plain", 1250)
					}
				})
			}
		})
		if len(res.Violations) > 0 {
			t.Fatalf("seed %d: %s", seed, strings.Join(res.Violations, "\n\t"))
		}
		for _, o := range h.ops {
			switch o.Output {
			case overLimit:
				limited++
			case unknown:
				unknowns++
			}
		}
		ops += len(h.ops)
		if got := porcupine.CheckOperationsTimeout(model, h.ops, 20*time.Second); got != porcupine.Ok {
			t.Fatalf("seed %d: %d operations on the ledger: %v", seed, len(h.ops), got)
		}
	}
	if limited == 0 || unknowns == 0 {
		t.Errorf("%d operations, of which %d met the limit and %d were unknown: the histories show too little", ops, limited, unknowns)
	}
}

// TestLedgerModelSeesABadHistory: two accepts of which only one fits.
func TestLedgerModelSeesABadHistory(t *testing.T) {
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	h := &history{}
	h.add(ledgerOp{"submit", 3, 0}, done, at(1), at(3))
	h.add(ledgerOp{"submit", 3, 0}, done, at(2), at(4))
	if got := porcupine.CheckOperationsTimeout(ledgerModel(5, 1), h.ops, time.Second); got != porcupine.Illegal {
		t.Errorf("got %v, want an illegal history", got)
	}
	h.ops[1].Output = overLimit
	if got := porcupine.CheckOperationsTimeout(ledgerModel(5, 1), h.ops, time.Second); got != porcupine.Ok {
		t.Errorf("got %v, want a legal history", got)
	}
}

package intake

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/admission"
	"github.com/lanekeeper/lanekeeper/pkg/belief"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// probing is what an instance remembers of a (class, bucket) that it refuses for its estimate.
type probing struct {
	admission.Patience
	quietMS int64 // the store need not be asked before, unix ms
}

// probeBusy is how long a class whose probe is still under way is not asked about again.
const probeBusy = 10 * time.Second

// probe turns a refusal for the class's own estimate into an acceptance as a probe, where
// it is time for one. What stands against it in the store, or a store that does not
// answer, leaves the refusal as it is.
func (a *attempt) probe(ctx context.Context, v *view, d *admission.Decision, now time.Time) {
	if !a.Probes || !d.Probeable() || a.again != nil || v.lane.Halts(a.p.Class) || !a.patienceEnds(now) {
		return
	}
	a.p.probe = true
	probe := a.decide(a.p, v, now)
	if probe.Accepted() && a.takeProbe(ctx, now) {
		*d = probe
		return
	}
	a.p.probe = false
}

// kind is what the submission's estimate is of.
func (p *prepared) kind() belief.Kind { return belief.Kind{Class: p.Class, Bucket: p.bucket} }

// patienceEnds notes a refusal of the (class, bucket), and says whether it is time to let one in.
func (a *attempt) patienceEnds(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.probing[a.p.kind()]
	if p == nil { // as many as the configuration has buckets
		p = &probing{}
		a.probing[a.p.kind()] = p
	}
	return p.Refuse(now.UnixMilli()) && now.UnixMilli() >= p.quietMS
}

// observed forgets the refusals of a (class, bucket) of which a task was accepted: it is not locked
// out. Another bucket of the class may still be.
func (s *Service) observed(k belief.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.probing, k)
}

// takeProbe makes the submission its class's probe, unless one is under way or was just let in.
func (a *attempt) takeProbe(ctx context.Context, now time.Time) bool {
	quietMS, taken, err := a.tryProbe(ctx, now.UnixMilli())
	if err != nil {
		slog.WarnContext(ctx, "a class was not probed; it will be later", "class", a.p.Class, "error", err)
		quietMS = now.Add(probeBusy).UnixMilli()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.probing[a.p.kind()]; p != nil {
		p.quietMS = quietMS
	}
	return taken
}

func (a *attempt) tryProbe(ctx context.Context, nowMS int64) (quietMS int64, taken bool, err error) {
	busyMS := nowMS + probeBusy.Milliseconds()
	if a.p.IdempotencyKey != "" { // what was accepted before is no probe
		item, err := a.Table.Get(ctx, taskop.RowKey(a.p.who.Tenant, a.p.id), true)
		if err != nil || item != nil {
			return 0, false, err
		}
	}
	item, err := a.Table.Get(ctx, taskop.ProbeKey(a.p.Class), true)
	if err != nil {
		return busyMS, false, err
	}
	was := taskop.DecodeProbe(item)
	if was.UntilMS > nowMS {
		return was.UntilMS, false, nil
	}
	if was.ID != "" {
		t, err := a.read(ctx, was.Tenant, was.ID)
		if err != nil || t != nil && t.State.Live() {
			return busyMS, false, err
		}
	}
	is := taskop.Probe{Tenant: a.p.who.Tenant, ID: a.p.id, UntilMS: nowMS + admission.ProbeEveryMS}
	if _, err := a.Table.Write(ctx, taskop.TakeProbe(a.p.Class, was, is)); err != nil {
		if op.FailedCond(err) != nil {
			err = nil // another instance was quicker
		}
		return busyMS, false, err
	}
	return is.UntilMS, true, nil
}

// settleProbe ends what probe began: a probe that was not accepted after all gives its turn
// back. Where the outcome is unknown the row decides, in time.
func (a *attempt) settleProbe(ctx context.Context, out Accepted, err error) {
	refused := (*Refusal)(nil)
	switch {
	case err == nil && !out.Replayed && !a.p.probe:
		a.observed(a.p.kind())
	case err == nil && !out.Replayed:
		a.Tally.Count(a.Clock(), a.p.lane.Name, "probes", 1)
		slog.InfoContext(ctx, "a task was let in as a probe of its class", "class", a.p.Class, "task", out.Task.ID, "lane", a.p.lane.Name)
	case a.p.probe && (err == nil || errors.As(err, &refused) || errors.Is(err, errChainMoved)):
		ctx, cancel := cleanup(ctx)
		defer cancel()
		if _, err := a.Table.Write(ctx, taskop.ReturnProbe(a.p.Class, a.p.id)); err != nil && op.FailedCond(err) == nil {
			slog.WarnContext(ctx, "a probe's turn was not given back; it ends by itself", "class", a.p.Class, "error", err)
		}
	}
}

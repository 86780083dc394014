package aggregate

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// Ledgers and rows change in one transaction, so a ledger can only be wrong
// because of a mistake of ours, a restored table or somebody's hand. It is
// measured all the time all the same: a few ledgers at a time are held against
// the live rows of their tenants.
const (
	driftEvery     = 10 * time.Second
	ledgersAtOnce  = 10
	maxLiveCounted = 2000 // a tenant with more live tasks is not at rest, and not measured
)

// drift is what the measurement remembers within a run.
type drift struct {
	at       time.Time
	from     string             // where the round of all ledgers goes on
	suspects map[string]suspect // seen once to differ
}

// suspect is a difference, to be confirmed by the next measurement.
type suspect struct{ ledger, found holding }

// holding is what a tenant has reserved.
type holding struct{ workMS, active, enteredMS int64 }

func held(l taskop.Ledger) holding { return holding{l.WorkMS, l.Active, l.EnteredMS} }

// checkLedgers measures the next few ledgers, and those under suspicion again.
func (r *run) checkLedgers(ctx context.Context) error {
	now := r.Clock()
	d := &r.drift
	if now.Sub(d.at) < driftEvery {
		return nil
	}
	d.at = now
	if d.suspects == nil {
		d.suspects = map[string]suspect{}
	}
	tenants, err := r.nextLedgers(ctx)
	if err != nil || len(tenants) == 0 {
		return err
	}
	before, err := r.readLedgers(ctx, tenants)
	if err != nil {
		return err
	}
	found, err := r.countLive(ctx, tenants)
	if err != nil {
		return err
	}
	after, err := r.readLedgers(ctx, tenants)
	if err != nil {
		return err
	}
	var errs []error
	for i, tenant := range tenants {
		n, counted := found[tenant]
		l := after[i]
		// entered only grows, and only what grows it raises work again: equal figures
		// around the count mean that the ledger did not change during it.
		if !counted || held(before[i]) != held(l) || n.workMS == l.WorkMS && n.active == l.Active {
			delete(d.suspects, tenant)
			continue
		}
		now, last := suspect{held(l), n}, d.suspects[tenant]
		if d.suspects[tenant] = now; last != now {
			continue // the index may lag: once more, later
		}
		errs = append(errs, r.repairLedger(ctx, tenant, l))
		delete(d.suspects, tenant)
	}
	return errors.Join(errs...)
}

// nextLedgers are the tenants to measure now.
func (r *run) nextLedgers(ctx context.Context) ([]string, error) {
	var tenants []string
	for _, tenant := range slices.Sorted(maps.Keys(r.drift.suspects)) {
		if len(tenants) < ledgersAtOnce {
			tenants = append(tenants, tenant)
		}
	}
	q := op.Query{Index: op.IndexDue, PK: taskop.LedgerList, From: r.drift.from, Limit: ledgersAtOnce}
	page, err := q.First(ctx, r.Table)
	if err != nil {
		return nil, err
	}
	for _, row := range page.Rows {
		tenant := row.Item.Str("ds")
		r.drift.from = tenant + "\x00"
		if _, known := r.drift.suspects[tenant]; !known {
			tenants = append(tenants, tenant)
		}
	}
	if page.Cursor == "" {
		r.drift.from = ""
	}
	return tenants, nil
}

func (r *run) readLedgers(ctx context.Context, tenants []string) ([]taskop.Ledger, error) {
	keys := make([]op.Key, len(tenants))
	for i, tenant := range tenants {
		keys[i] = taskop.LedgerKey(tenant)
	}
	items, err := r.Table.BatchGet(ctx, keys, true)
	if err != nil {
		return nil, err
	}
	out := make([]taskop.Ledger, len(items))
	for i, item := range items {
		out[i] = taskop.DecodeLedger(item)
	}
	return out, nil
}

// countLive counts what the live rows of tenants hold: found through the due
// index, in which every live row stands, read from the rows themselves. A tenant
// with too many is left out.
func (r *run) countLive(ctx context.Context, tenants []string) (map[string]holding, error) {
	keys := map[string][]op.Key{}
	for _, tenant := range tenants {
		keys[tenant] = nil
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs []error
	gate := make(chan struct{}, shardsAtOnce)
	for shard := range taskop.DueShards {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			err := op.Query{Index: op.IndexDue, PK: taskop.DuePartition(shard)}.All(ctx, r.Table, func(row op.Row) bool {
				tenant, _, ok := taskop.ParseRowKey(row.Key)
				mu.Lock()
				defer mu.Unlock()
				if list, wanted := keys[tenant]; ok && wanted && len(list) <= maxLiveCounted {
					keys[tenant] = append(list, row.Key)
				}
				return true
			})
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	found := map[string]holding{}
	for _, tenant := range tenants {
		list := keys[tenant]
		if len(list) > maxLiveCounted {
			continue
		}
		slices.SortFunc(list, func(a, b op.Key) int { return strings.Compare(a.PK+a.SK, b.PK+b.SK) }) // the same run, the same order
		var n holding
		for len(list) > 0 {
			part := list[:min(len(list), op.MaxBatchGet)]
			items, err := r.Table.BatchGet(ctx, part, true)
			if err != nil {
				return nil, err
			}
			for i, item := range items {
				if err := n.add(part[i], item); err != nil {
					return nil, err
				}
			}
			list = list[len(part):]
		}
		found[tenant] = n
	}
	return found, nil
}

// add adds what one row holds.
func (n *holding) add(key op.Key, item op.Item) error {
	if item == nil {
		return nil
	}
	t, err := taskop.DecodeRow(key, item)
	if err != nil {
		return err
	}
	switch {
	case t.State == task.Running:
		n.active++
	case t.State.Live():
		n.workMS += t.AmountMS
	}
	return nil
}

// repairLedger counts a tenant's rows once more, all of them and consistently,
// and corrects a ledger that is still as it was read.
func (r *run) repairLedger(ctx context.Context, tenant string, l taskop.Ledger) error {
	var n holding
	var bad error
	for shard := range taskop.TaskShards {
		err := op.Query{PK: taskop.RowPartition(tenant, shard), Consistent: true}.All(ctx, r.Table, func(row op.Row) bool {
			bad = n.add(row.Key, row.Item)
			return bad == nil
		})
		if err := errors.Join(err, bad); err != nil {
			return err
		}
	}
	if n.workMS == l.WorkMS && n.active == l.Active {
		return nil // the index was behind, not the ledger
	}
	if _, err := r.Table.Write(ctx, taskop.RepairLedger(tenant, l, n.workMS, n.active)); err != nil {
		if op.FailedCond(err) != nil {
			return nil // it changed meanwhile: measured again in time
		}
		return err
	}
	slog.ErrorContext(ctx, "a ledger had drifted and was repaired", "tenant", tenant, "work_ms", l.WorkMS, "active", l.Active,
		"counted_work_ms", n.workMS, "counted_active", n.active)
	r.Tally.Drift(r.Clock(), l.WorkMS-n.workMS, l.Active-n.active)
	return nil
}

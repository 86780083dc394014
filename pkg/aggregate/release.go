package aggregate

import (
	"context"
	"errors"
	"slices"

	"github.com/lanekeeper/lanekeeper/pkg/fair"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

const (
	releasesPerTick = 200
	releaseBatch    = 25
	unparksPerTick  = 50
	passesPerTick   = 5000
	passBatch       = 500
)

// release gives free slots to waiting tasks: those that are kept for low priority to it,
// the others in order, the rest to whom there is.
func (r *run) release(ctx context.Context, l *taskop.Lane) error {
	if kept := int64(r.Config.LowSlots(l.Name, int(l.Slots)) - l.LowHeld()); kept > 0 {
		kept = min(kept, l.Slots-l.Open)
		if err := r.releaseFrom(ctx, l, taskop.LowPartition(l.Name), int(kept)); err != nil {
			return err
		}
	}
	if err := r.releaseFrom(ctx, l, taskop.ReadyPartition(l.Name), releasesPerTick); err != nil {
		return err
	}
	return r.releaseFrom(ctx, l, taskop.LowPartition(l.Name), releasesPerTick)
}

// releaseFrom gives up to so many free slots to tasks of one part of the order. Those that
// turn out to have been elsewhere, too late, or not allowed to run get none and count for none.
func (r *run) releaseFrom(ctx context.Context, l *taskop.Lane, partition string, most int) error {
	q := op.Query{Index: op.IndexReady, PK: partition}
	passed := 0 // entries of lanes that hold their part already: they cost no reads of rows
	given, looked := 0, 0
	for given < most && looked < releasesPerTick && passed < passesPerTick && l.Ready > 0 && l.Open < l.Slots && !l.Paused {
		q.Limit = min(int(l.Slots-l.Open)+2, releaseBatch, releasesPerTick-looked)
		if passed > 0 {
			q.Limit = passBatch
		}
		page, err := r.Table.Query(ctx, q)
		if err != nil {
			return err
		}
		rows := page.Rows
		if r.Config.RetryLane() == l.Name {
			rows = slices.DeleteFunc(rows, func(row op.Row) bool {
				e, err := taskop.ParseReadySort(row.Item.Str("rs"))
				return err == nil && l.OriginFull(e.Origin)
			})
			passed += len(page.Rows) - len(rows)
		}
		for len(rows) > 0 {
			n := min(len(rows), releaseBatch)
			got, err := r.releaseRows(ctx, l, rows[:n], most-given)
			given, looked = given+got, looked+n
			if err != nil {
				if errors.Is(err, errMoved) {
					return nil // no slot left
				}
				return err
			}
			rows = rows[n:]
			if l.Open >= l.Slots || given >= most {
				return nil
			}
		}
		if page.Cursor == "" {
			return nil
		}
		q.Cursor = page.Cursor
	}
	return nil
}

// releaseRows releases what of these rows still waits, up to so many, and parks those whose
// tenant is at max_active. It says how many it released.
func (r *run) releaseRows(ctx context.Context, l *taskop.Lane, rows []op.Row, most int) (given int, err error) {
	tasks, ledgers, err := r.rowsAndLedgers(ctx, rows)
	if err != nil {
		return 0, err
	}
	for _, t := range tasks {
		if given >= most {
			break
		}
		if t.State != task.Waiting || t.AtLane != l.Name || t.Parked {
			continue
		}
		if t.TooLate(r.Clock().UnixMilli()) {
			if err := r.expire(ctx, t, map[string]*taskop.Lane{l.Name: l}); err != nil && !moved(err) {
				return given, err
			}
			continue
		}
		if l.Halts(t.Class) {
			if err := r.halt(ctx, t, l); err != nil && !moved(err) {
				return given, err
			}
			continue
		}
		ledger := ledgers[t.Tenant]
		if ledger.Active >= ledger.MaxActive {
			if err := r.park(ctx, t, l); err != nil && !moved(err) {
				return given, err
			}
			continue
		}
		if l.OriginFull(taskop.OpenOf(t, 0).Origin) {
			continue
		}
		if err := r.releaseOne(ctx, t, l, false); err != nil {
			return given, err
		}
		given++
		ledger.Active++ // it will be, soon
	}
	return given, nil
}

func (r *run) releaseOne(ctx context.Context, t *task.Task, l *taskop.Lane, parked bool) error {
	nowMS := r.Clock().UnixMilli()
	o := taskop.OpenOf(t, nowMS)
	virtual, seen := fair.Virtual(t.Tag, t.ShiftMS), l.Virtual
	err := r.writeLane(ctx, taskop.Advance(taskop.ReleaseSlotOf(l, o, parked), seen, virtual), l)
	if moved(err) && virtual > seen && l.Virtual > virtual { // the lane was beyond it
		err = r.writeLane(ctx, taskop.ReleaseSlotOf(l, o, parked), l)
	}
	if err != nil {
		return err
	}
	due := r.notAfterStartBy(t, nowMS+r.Config.Tasks.ResendAfter.MS())
	if _, err := r.Table.Write(ctx, taskop.ReleaseRow(t, due)); err != nil {
		if op.FailedCond(err) == nil {
			return err // it may be released: the slot stays taken until checked
		}
		if back := r.writeLane(ctx, taskop.UnreleaseSlot(l.Name, o, parked), l); back != nil && !moved(back) {
			return back
		}
		return nil
	}
	sent := *t
	sent.State = task.Queued
	return r.Queue.Send(ctx, l.Name, queue.Wakeup(&sent))
}

func (r *run) park(ctx context.Context, t *task.Task, l *taskop.Lane) error {
	due := r.notAfterStartBy(t, r.Clock().UnixMilli()+r.Config.Tasks.ResendAfter.MS())
	if _, err := r.Table.Write(ctx, taskop.ParkRow(t, due)); err != nil {
		return err
	}
	return r.writeLane(ctx, taskop.ParkReady(l.Name), l)
}

// rowsAndLedgers reads the rows of index entries, in their order, and the
// ledgers of their tenants.
func (r *run) rowsAndLedgers(ctx context.Context, entries []op.Row) ([]*task.Task, map[string]*taskop.Ledger, error) {
	keys := make([]op.Key, 0, 2*len(entries))
	for _, e := range entries {
		keys = append(keys, e.Key)
	}
	ledgers := map[string]*taskop.Ledger{}
	for _, e := range entries {
		tenant, _, ok := taskop.ParseRowKey(e.Key)
		if ok && ledgers[tenant] == nil {
			ledgers[tenant] = &taskop.Ledger{}
			keys = append(keys, taskop.LedgerKey(tenant))
		}
	}
	items, err := r.Table.BatchGet(ctx, keys, true)
	if err != nil {
		return nil, nil, err
	}
	var tasks []*task.Task
	for i, item := range items {
		if i >= len(entries) {
			*ledgers[keys[i].PK[len(taskop.LedgerPrefix):]] = taskop.DecodeLedger(item)
			continue
		}
		if item == nil {
			continue
		}
		t, err := taskop.DecodeRow(keys[i], item)
		if err != nil {
			return nil, nil, err
		}
		tasks = append(tasks, t)
	}
	return tasks, ledgers, nil
}

// unpark puts parked tasks back into the order where their tenants have room
// again, going round the tenants from where it stopped last.
func (r *run) unpark(ctx context.Context, l *taskop.Lane) error {
	if l.Parked <= 0 {
		return nil
	}
	from, wrapped := r.parkedFrom[l.Name], false
	for left := unparksPerTick; left > 0; {
		head, err := r.parkedHead(ctx, l.Name, from)
		if err != nil {
			return err
		}
		if head.Tenant == "" {
			if wrapped || from == "" {
				break
			}
			from, wrapped = "", true
			continue
		}
		if class, halted := taskop.HaltedClass(head.Tenant); halted && l.Halts(class) || head.Tenant == taskop.HeldOwner() {
			_, from = taskop.ParkedRange(head.Tenant)
			continue // the circuit's to release, or their ordering key's
		}
		n, err := r.unparkTenant(ctx, l, head.Tenant, left)
		if err != nil {
			return err
		}
		left -= n + 1
		_, from = taskop.ParkedRange(head.Tenant)
	}
	r.parkedFrom[l.Name] = from
	return nil
}

func (r *run) parkedHead(ctx context.Context, lane, from string) (taskop.ReadyEntry, error) {
	page, err := op.Query{Index: op.IndexReady, PK: taskop.ParkedPartition(lane), From: from, Limit: 1}.First(ctx, r.Table)
	if err != nil || len(page.Rows) == 0 {
		return taskop.ReadyEntry{}, err
	}
	return taskop.ParseReadySort(page.Rows[0].Item.Str("rs"))
}

// unparkTenant unparks as many of a tenant's tasks as it may run more.
func (r *run) unparkTenant(ctx context.Context, l *taskop.Lane, tenant string, most int) (int, error) {
	from, to := taskop.ParkedRange(tenant)
	page, err := op.Query{Index: op.IndexReady, PK: taskop.ParkedPartition(l.Name), From: from, To: to, Limit: min(most, releaseBatch)}.First(ctx, r.Table)
	if err != nil || len(page.Rows) == 0 {
		return 0, err
	}
	tasks, ledgers, err := r.rowsAndLedgers(ctx, page.Rows)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, t := range tasks {
		ledger := ledgers[t.Tenant]
		if ledger.Active+int64(n) >= ledger.MaxActive && t.Tenant == tenant {
			break
		}
		if t.State != task.Waiting || !t.Parked || t.AtLane != l.Name {
			continue
		}
		if err := r.writeLane(ctx, taskop.Unpark(l.Name), l); errors.Is(err, errMoved) {
			return n, nil // the lane has not been told yet that it is parked
		} else if err != nil {
			return n, err
		}
		if _, err := r.Table.Write(ctx, taskop.UnparkRow(t)); err != nil {
			if op.FailedCond(err) == nil {
				return n, err
			}
			if back := r.writeLane(ctx, taskop.ParkReady(l.Name), l); back != nil && !moved(back) {
				return n, back
			}
			continue
		}
		n++
	}
	return n, nil
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/meter"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// load is what a road is given to do.
type load struct {
	slots   int
	tasks   int
	sleepMS int           // of a task on average; they vary by half of it, so that they do not end in step
	every   time.Duration // between submissions; 0 is as fast as they are taken
}

// The loads bring about 25 tasks a second to an end, so that each pays the same
// share of a tick. A task that waits is one of a burst of many times the slots;
// so many slots that nobody waits cost nothing while they are free.
var (
	trickle = load{slots: 32, tasks: 200, sleepMS: 20, every: 40 * time.Millisecond}
	burst   = load{slots: 8, tasks: 208, sleepMS: 300}
	wide    = load{slots: 32, tasks: 132, sleepMS: 1200}
)

// sleep is how long task i takes, in ms.
func (l load) sleep(i int) int { return l.sleepMS/2 + i*7919%(l.sleepMS+1) }

// bill is what a load cost in all.
type bill struct {
	meter.Report
	tasks, waited int
	sends         int64
	took          time.Duration
	rowMean       int // bytes of a finished row
	rowMax        int
	laneMax       int // bytes of the lane item, the most that was seen
}

// per is a figure per task.
func (b *bill) per(total float64) float64 { return total / float64(b.tasks) }

// line is the machine-readable form of a bill.
func (b *bill) line() string {
	return fmt.Sprintf("wru_per_task=%.2f  rru_per_task=%.2f  requests_per_task=%.2f",
		b.per(b.Total.Write()), b.per(b.Total.Read), b.per(float64(b.Total.Requests)))
}

// breakdown lists the operations, per task, the dearest first.
func (b *bill) breakdown() string {
	names := make([]string, 0, len(b.ByName))
	for name := range b.ByName {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		x, y := b.ByName[names[i]], b.ByName[names[j]]
		if x.Write() != y.Write() {
			return x.Write() > y.Write()
		}
		return x.Read > y.Read || x.Read == y.Read && names[i] < names[j]
	})
	var out strings.Builder
	line := func(name string, u meter.Usage) {
		fmt.Fprintf(&out, "%-34s %9.3f %9.3f %9.3f %9.3f\n", name, b.per(float64(u.Requests)), b.per(u.TableWrite), b.per(u.IndexWrite), b.per(u.Read))
	}
	fmt.Fprintf(&out, "%-34s %9s %9s %9s %9s\n", "per task", "requests", "table WRU", "index WRU", "RRU")
	for _, name := range names {
		line(name, b.ByName[name])
	}
	for _, who := range []string{byAdmission, byWorker, byAggregator} {
		line("all of the "+who, b.of(who))
	}
	line("total", b.Total)
	return out.String()
}

// of is what one function's requests cost.
func (b *bill) of(who string) meter.Usage {
	var sum meter.Usage
	for name, u := range b.ByName {
		if strings.HasPrefix(name, who+" ") {
			sum.Requests += u.Requests
			sum.TableWrite += u.TableWrite
			sum.IndexWrite += u.IndexWrite
			sum.Read += u.Read
		}
	}
	return sum
}

// drive sends a load down a new road, waits until all is done and reads the
// meter. Nothing is metered before the first submission, everything until the
// last instance has flushed.
func drive(ctx context.Context, l load, dir string) (*bill, error) {
	cfg, err := lanesOf(l.slots)
	if err != nil {
		return nil, err
	}
	r, err := newRoad(ctx, cfg, dir)
	if err != nil {
		return nil, err
	}
	b, err := r.drive(ctx, l)
	return b, errors.Join(err, r.db.Close())
}

func (r *road) drive(ctx context.Context, l load) (*bill, error) {
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	b := &bill{tasks: l.tasks}
	began := now()
	err := func() error {
		for i := range l.tasks {
			if err := until(ctx, began.Add(time.Duration(i)*l.every)); err != nil {
				return err
			}
			state, err := r.submit(ctx, tenantKey(i), submission(l.sleep(i)))
			if err != nil {
				return err
			}
			if state == events.StateWaiting {
				b.waited++
			}
		}
		return r.drained(ctx, b)
	}()
	b.took = now().Sub(began)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := errors.Join(err, r.stop(end)); err != nil {
		return nil, err
	}
	b.Report, b.sends = r.meter.Report(), r.sent.n.Load()
	return b, r.audit(ctx, b)
}

// drained waits until nothing is open or waiting.
func (r *road) drained(ctx context.Context, b *bill) error {
	for {
		item, err := r.past.Get(ctx, taskop.LaneKey(laneName), true)
		if err != nil {
			return err
		}
		lane, err := taskop.DecodeLane(laneName, item)
		if err != nil {
			return err
		}
		b.laneMax = max(b.laneMax, op.Size(taskop.LaneKey(laneName), item))
		if lane.Empty() {
			return nil
		}
		if err := until(ctx, now().Add(20*time.Millisecond)); err != nil {
			return fmt.Errorf("not drained: %+v: %w", lane.Counts(), err)
		}
	}
}

// audit makes sure that the bill is for what was ordered: every task succeeded
// at its first attempt and all ledgers read zero.
func (r *road) audit(ctx context.Context, b *bill) error {
	var sizes []int
	for _, tenant := range r.cfg.TenantNames() {
		item, err := r.past.Get(ctx, taskop.LedgerKey(tenant), true)
		if err != nil {
			return err
		}
		if l := taskop.DecodeLedger(item); l.WorkMS != 0 || l.Active != 0 {
			return fmt.Errorf("the ledger of %s still holds %d ms and %d attempts", tenant, l.WorkMS, l.Active)
		}
		for shard := range taskop.TaskShards {
			var bad error
			err := op.Query{PK: taskop.RowPartition(tenant, shard), Consistent: true}.All(ctx, r.past, func(row op.Row) bool {
				t, err := taskop.DecodeRow(row.Key, row.Item)
				if err == nil && (t.State != task.Succeeded || t.Attempt != 1) {
					err = fmt.Errorf("task %s is %s after %d attempts", t.ID, t.State, t.Attempt)
				}
				bad = errors.Join(bad, err)
				sizes = append(sizes, op.Size(row.Key, row.Item))
				return bad == nil
			})
			if err := errors.Join(err, bad); err != nil {
				return err
			}
		}
	}
	if len(sizes) != b.tasks {
		return fmt.Errorf("%d tasks were accepted, %d are there", b.tasks, len(sizes))
	}
	sum := 0
	for _, n := range sizes {
		sum += n
	}
	b.rowMean, b.rowMax = sum/len(sizes), slices.Max(sizes)
	return nil
}

// What a task may cost, in write units.
const (
	goalAtOnce = 18
	goalWaited = 21
)

func unitsSection(ctx context.Context, r *report, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var bills []*bill
	for i, l := range []load{trickle, burst, wide} {
		b, err := drive(ctx, l, filepath.Join(dir, fmt.Sprint("units-", i)))
		if err != nil {
			return err
		}
		bills = append(bills, b)
	}
	atOnce, waited, crowd := bills[0], bills[1], bills[2]
	r.section("DynamoDB units per task, payloads of 150 bytes (metered requests, indexes, ticks and statistics included)")
	show := func(title string, l load, b *bill, goals string) {
		r.row(title, fmt.Sprintf("%.2f WRU  %.2f RRU  %.2f requests", b.per(b.Total.Write()), b.per(b.Total.Read), b.per(float64(b.Total.Requests))), goals)
		r.row("  load", fmt.Sprintf("%d tasks, %d waited, %.0f/s", b.tasks, b.waited, float64(b.tasks)/b.took.Seconds()), fmt.Sprintf("%d slots", l.slots))
		r.row("  messages sent per task", fmt.Sprintf("%.2f", b.per(float64(b.sends))), "")
		if again := b.ByName[byAdmission+" accept"].Requests - b.tasks; again > 0 {
			r.row("  accepts written again, per task", fmt.Sprintf("%.2f", b.per(float64(again))), "4 WRU each")
		}
		if lost := b.ByName[byWorker+" hand_over"].Requests - b.waited; lost > 0 {
			r.row("  races for the next task lost, per task", fmt.Sprintf("%.2f", b.per(float64(lost))), "4 WRU each")
		}
		ticks, seconds := b.of(byAggregator), b.took.Seconds()
		r.row("  aggregator, per second", fmt.Sprintf("%.2f WRU  %.2f RRU", ticks.Write()/seconds, ticks.Read/seconds), "")
		r.row("  row when done, lane item at its largest", fmt.Sprintf("%d bytes (%d at most), %d bytes", b.rowMean, b.rowMax, b.laneMax), "")
	}
	show("a task that did not wait", trickle, atOnce, goal(fmt.Sprintf("≤ %d WRU", goalAtOnce), atOnce.per(atOnce.Total.Write()) <= goalAtOnce && atOnce.waited == 0))
	r.text(atOnce.breakdown())
	show("a task that waited (hand-over)", burst, waited, goal(fmt.Sprintf("≤ %d WRU", goalWaited), waited.per(waited.Total.Write()) <= goalWaited))
	r.text(waited.breakdown())
	show("the same in a lane of many slots", wide, crowd, "")
	_, err := fmt.Fprintf(r.out, "\nwaited: %s\n%s\n", waited.line(), atOnce.line())
	return err
}

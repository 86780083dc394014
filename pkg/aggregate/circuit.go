package aggregate

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// One signature failing across many tasks of a class is a fault of what they
// have in common, not of each of them. Their attempts would be used up for
// nothing, so the class is halted: its tasks wait, a canary is let through now
// and then, and when canaries succeed the class is let go in growing steps.
const (
	circuitTasks  = 20 // tasks with one signature, within two windows, and
	circuitShare  = 80 // percent of the class's outcomes in that time
	circuitPause  = int64(5000)
	circuitLongMS = int64(60_000) // between canaries at most; and without any, the class is let go
	circuitSteps  = int64(16)     // a step of so many that all succeed ends it
	circuitEvery  = 5 * time.Second
	haltedRetryMS = 5000 // a halted class's retries are looked at again
	actor         = "aggregator"
)

// circuits are the classes that are halted, and the notes on those that were
// lately.
type circuits struct {
	loaded bool
	at     time.Time
	body   string // as it was stored last
	notes  map[string]*note
	oks    map[string][]sample // of classes of which something failed lately
	failed map[string]int64    // by class and digits, as of the last look
}

// sample is how many successes of a class had been counted at a time.
type sample struct{ atMS, n int64 }

// note is what is known of one class.
type note struct {
	Digits  string   `json:"d"`           // of the signature
	SinceMS int64    `json:"s"`           // halted since
	EndedMS int64    `json:"e,omitempty"` // let go at; what failed before does not count again
	NextMS  int64    `json:"n"`           // no canary before
	PauseMS int64    `json:"p"`
	Step    int64    `json:"k"`           // canaries at once
	Out     []op.Key `json:"o,omitempty"` // those under way
	LastMS  int64    `json:"l"`           // when a canary was there last
}

func (n *note) halted() bool { return n.EndedMS == 0 }

// circuit detects, and carries the halted classes on. live says whether there are any.
func (r *run) circuit(ctx context.Context, lanes map[string]*taskop.Lane) (live bool, err error) {
	c := &r.circuits
	now := r.Clock()
	if !c.loaded {
		if err := r.loadCircuits(ctx); err != nil {
			return false, err
		}
	}
	if now.Sub(c.at) >= circuitEvery {
		c.at = now
		if err := r.detect(ctx, now.UnixMilli()); err != nil {
			return false, err
		}
	}
	if err := r.markLanes(ctx, lanes); err != nil {
		return true, err
	}
	for _, class := range slices.Sorted(maps.Keys(c.notes)) {
		if n := c.notes[class]; n.halted() {
			live = true
			if err := r.step(ctx, class, n, lanes, now.UnixMilli()); err != nil && !moved(err) {
				return live, err
			}
		}
	}
	return live, r.storeCircuits(ctx)
}

func (r *run) loadCircuits(ctx context.Context) error {
	item, err := r.Table.Get(ctx, taskop.CircuitsKey(), true)
	if err != nil {
		return err
	}
	c := &r.circuits
	c.notes = map[string]*note{}
	if body, _ := taskop.Published(item); len(body) > 0 {
		if err := json.Unmarshal(body, &c.notes); err != nil {
			return err
		}
		c.body = string(body)
	}
	c.loaded = true
	return nil
}

func (r *run) storeCircuits(ctx context.Context) error {
	c := &r.circuits
	body, err := json.Marshal(c.notes)
	if err != nil || string(body) == c.body || c.body == "" && len(c.notes) == 0 {
		return err
	}
	if _, err := r.Table.Write(ctx, taskop.PutCircuits(body, r.lease.Epoch)); err != nil {
		if op.FailedCond(err) != nil {
			return nil // a later run keeps them now
		}
		return err
	}
	c.body = string(body)
	return nil
}

// detect halts classes in which one signature has failed across many tasks.
func (r *run) detect(ctx context.Context, nowMS int64) error {
	items, err := r.Table.BatchGet(ctx, []op.Key{tally.SignaturesKey(nowMS), tally.SignaturesKey(nowMS - tally.SignatureWindowMS)}, false)
	if err != nil {
		return err
	}
	failed, all := map[string]int64{}, map[string]int64{} // by class|digits, by class
	for _, item := range items {
		for attr, n := range taskop.Counts(item) {
			if class, _, ok := strings.Cut(attr, "|"); ok {
				failed[attr] += n
				all[class] += n
			}
		}
	}
	known, err := r.successes(ctx, all, nowMS)
	if err != nil {
		return err
	}
	c := &r.circuits
	for class, n := range c.notes {
		if !n.halted() && nowMS-n.EndedMS > 2*tally.SignatureWindowMS {
			delete(c.notes, class)
		}
	}
	for _, attr := range slices.Sorted(maps.Keys(failed)) {
		class, digits, _ := strings.Cut(attr, "|")
		n := failed[attr]
		if n <= c.failed[attr] {
			continue // it fails no more
		}
		if !known[class] || c.notes[class] != nil || n < circuitTasks || n*100 < circuitShare*all[class] {
			continue
		}
		c.notes[class] = &note{Digits: digits, SinceMS: nowMS, NextMS: nowMS + circuitPause, PauseMS: circuitPause, Step: 1, LastMS: nowMS}
		r.noteAct(ctx, "class.halt", class, "signatures "+digits+"… failed across tasks")
	}
	c.failed = failed
	return nil
}

// successes adds to all what succeeded of the classes in it within the time that
// failures are counted for, as far as this run has looked. It returns for which
// classes that is known: those that were looked at before, too.
func (r *run) successes(ctx context.Context, all map[string]int64, nowMS int64) (known map[string]bool, err error) {
	c, now := &r.circuits, map[string][]sample{}
	known = map[string]bool{}
	for _, class := range slices.Sorted(maps.Keys(all)) {
		var keys []op.Key
		for _, b := range r.Config.Buckets(class) {
			for back := range int64(2) {
				keys = append(keys, taskop.BinsKey(class, b.Name, nowMS/tally.WindowMS-back))
			}
		}
		if len(keys) == 0 {
			continue // not of this configuration any more
		}
		items, err := r.Table.BatchGet(ctx, keys, false)
		if err != nil {
			return nil, err
		}
		var n int64
		for _, item := range items {
			for attr, count := range taskop.Counts(item) {
				if series, _, ok := taskop.ParseBinAttr(attr); ok && series == tally.SeriesSuccess {
					n += count
				}
			}
		}
		list := slices.DeleteFunc(c.oks[class], func(s sample) bool { return nowMS-s.atMS > 2*tally.SignatureWindowMS })
		if len(list) > 0 {
			known[class] = true
			all[class] += max(n-list[0].n, 0)
		}
		now[class] = append(list, sample{nowMS, n})
	}
	c.oks = now
	return known, nil
}

// noteAct writes to the audit what the aggregator did by itself.
func (r *run) noteAct(ctx context.Context, act, class, why string) {
	slog.ErrorContext(ctx, act, "class", class, "reason", why)
	e := taskop.AuditEntry{AtMS: r.Clock().UnixMilli(), Who: actor, Act: act, On: class, Detail: why}
	if _, err := r.Table.Write(ctx, taskop.Audit(e, r.NewID())); err != nil {
		slog.WarnContext(ctx, "the audit misses an entry", "act", act, "class", class, "error", err)
	}
}

// lanesOf are the lanes that may hold tasks of a class: those that it is admitted to and
// the retry lane.
func (r *run) lanesOf(class string) []string {
	return append(slices.Clone(r.Config.LanesOf(class)), r.Config.RetryLane())
}

// markLanes makes the lane items say which classes are halted, which is where
// workers and admission see it.
func (r *run) markLanes(ctx context.Context, lanes map[string]*taskop.Lane) error {
	want := map[string][]string{}
	for class, n := range r.circuits.notes {
		if n.halted() {
			for _, lane := range r.lanesOf(class) {
				want[lane] = append(want[lane], class)
			}
		}
	}
	for _, name := range r.Config.LaneNames() {
		slices.Sort(want[name])
		if l := lanes[name]; !slices.Equal(l.Halted, want[name]) {
			if err := r.writeLane(ctx, taskop.HaltClasses(l, want[name]), l); err != nil && !moved(err) {
				return err
			}
		}
	}
	return nil
}

// halt takes a waiting task of a halted class out of the order.
func (r *run) halt(ctx context.Context, t *task.Task, l *taskop.Lane) error {
	due := r.notAfterStartBy(t, r.Clock().UnixMilli()+r.Config.Tasks.ResendAfter.MS())
	if _, err := r.Table.Write(ctx, taskop.HaltRow(t, due)); err != nil {
		return err
	}
	return r.writeLane(ctx, taskop.ParkReady(l.Name), l)
}

// step judges the canaries that are out, and lets the next ones go.
func (r *run) step(ctx context.Context, class string, n *note, lanes map[string]*taskop.Lane, nowMS int64) error {
	good, bad, err := r.judge(ctx, n)
	if err != nil {
		return err
	}
	switch {
	case bad:
		n.PauseMS = min(2*n.PauseMS, circuitLongMS)
		n.Step, n.NextMS, n.Out = 1, nowMS+n.PauseMS, nil
	case len(n.Out) > 0:
		return nil // still under way
	case good && n.Step >= circuitSteps:
		r.letGo(ctx, class, n, nowMS, "canaries succeed")
		return nil
	case good:
		n.Step, n.PauseMS, n.NextMS = 2*n.Step, circuitPause, nowMS
	}
	if nowMS < n.NextMS {
		return nil
	}
	for _, name := range r.lanesOf(class) {
		if err := r.canaries(ctx, class, n, lanes[name]); err != nil {
			return err
		}
	}
	if len(n.Out) > 0 {
		n.LastMS = nowMS
	} else if nowMS-n.LastMS >= circuitLongMS {
		r.letGo(ctx, class, n, nowMS, "nothing of it waits")
	}
	return nil
}

func (r *run) letGo(ctx context.Context, class string, n *note, nowMS int64, why string) {
	n.EndedMS, n.Out = nowMS, nil
	r.noteAct(ctx, "class.resume", class, why)
}

// judge looks how the canaries fare. Those that are settled leave the list, and those
// that wait again: they are let go like any other that is held back.
func (r *run) judge(ctx context.Context, n *note) (good, bad bool, err error) {
	if len(n.Out) == 0 {
		return false, false, nil
	}
	items, err := r.Table.BatchGet(ctx, n.Out, true)
	if err != nil {
		return false, false, err
	}
	var pending []op.Key
	for i, item := range items {
		if item == nil {
			continue
		}
		t, err := taskop.DecodeRow(n.Out[i], item)
		if err != nil {
			return false, false, err
		}
		switch t.State {
		case task.Succeeded:
			good = true
		case task.RetryWait, task.Quarantined:
			bad = true
		case task.Failed: // for good: by the same fault, or by one of its own
			bad = bad || t.Error != nil && strings.HasPrefix(t.Error.Signature, n.Digits)
		case task.Queued, task.Running:
			pending = append(pending, n.Out[i])
		}
	}
	n.Out = pending
	return good, bad, nil
}

// canaries lets tasks of a halted class through, up to the step's number.
func (r *run) canaries(ctx context.Context, class string, n *note, l *taskop.Lane) error {
	left := min(int(n.Step)-len(n.Out), int(l.Slots-l.Open))
	if left <= 0 || l.Paused || l.Parked <= 0 {
		return nil
	}
	from, to := taskop.ParkedRange(taskop.HaltedOwner(class))
	page, err := op.Query{Index: op.IndexReady, PK: taskop.ParkedPartition(l.Name), From: from, To: to, Limit: 2 * left}.First(ctx, r.Table)
	if err != nil || len(page.Rows) == 0 {
		return err
	}
	tasks, ledgers, err := r.rowsAndLedgers(ctx, page.Rows)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		ledger := ledgers[t.Tenant]
		if left == 0 || t.State != task.Waiting || !t.Parked || t.AtLane != l.Name || ledger.Active >= ledger.MaxActive || l.OriginFull(taskop.OpenOf(t, 0).Origin) {
			continue
		}
		if err := r.releaseOne(ctx, t, l, true); err != nil {
			return err
		}
		n.Out = append(n.Out, taskop.RowKey(t.Tenant, t.ID))
		left--
	}
	return nil
}

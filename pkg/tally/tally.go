// Package tally merges what happened in memory and flushes it to counters in
// the store, so that statistics cost a fraction of a write per task. What is
// not yet flushed when an instance freezes or dies is lost; that is accepted
// of statistics, no budget rests on them.
package tally

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/hist"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// Flush when this many observations were merged or this much time has passed.
const (
	FlushAfter    = 20
	FlushInterval = 5 * time.Second
)

// WindowMS is the length of an outcome window; estimates are learned from the
// current and the one before it.
const WindowMS = 30 * 60 * 1000

// Series of outcome bins in a (class, bucket)'s window.
const (
	SeriesSuccess   = "s" // service time of successes, ms
	SeriesOccupancy = "o" // slot occupancy of every attempt, ms
)

// Bounds are the upper bounds, in ms, of the cumulative histograms kept per
// class for metrics.
var Bounds = []int64{10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000}

// Recorder merges observations. It is safe for concurrent use.
type Recorder struct {
	mu    sync.Mutex
	items map[op.Key]map[string]int64
	gone  map[op.Key]int64 // from when on what belongs to a window may go, unix ms
	n     int
	since time.Time
	lost  atomic.Int64
}

// New makes an empty recorder.
func New() *Recorder {
	return &Recorder{items: map[op.Key]map[string]int64{}, gone: map[op.Key]int64{}}
}

func (r *Recorder) add(key op.Key, attr string, n int64) {
	m := r.items[key]
	if m == nil {
		m = map[string]int64{}
		r.items[key] = m
	}
	m[attr] += n
}

func (r *Recorder) observe(now time.Time, f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == 0 {
		r.since = now
	}
	r.n++
	f()
}

// Groups of counters.
const (
	GroupAdmission = "admission" // per class: decision|tier
	GroupStart     = "start"     // per lane|class: start delay histogram, prediction errors
	GroupClass     = "class"     // per class: service time histogram
	GroupLane      = "lane"      // per lane: starts, retries, misses …
	GroupSystem    = "system"    // of the whole: drift of ledgers, learned lanes
)

// Group is the counter item of a class or lane.
func Group(group, name string) op.Key { return taskop.CountersKey(group + "#" + name) }

// Decision counts a decision of the admission.
func (r *Recorder) Decision(now time.Time, code, class, tier string) {
	r.observe(now, func() { r.add(Group(GroupAdmission, class), code+"|"+tier, 1) })
}

// Start is a task's first start.
type Start struct {
	Class, Bucket, Lane       string
	DelayMS, WaitMS, RatioMS  int64 // actual, predicted by the level, predicted by Q/c
	AfterStartBy, AfterFinish bool
	Probe                     bool // let in to learn what its class costs: no promise was made
}

// MissOf names the counter of a task that did not start or finish in time. That of a probe
// breaks no promise and is counted apart.
func MissOf(probe bool, stage string) string {
	if probe {
		return "probe.missed"
	}
	return "miss." + stage
}

// Started counts a task's first start: its delay and how wrong both
// predictions were.
func (r *Recorder) Started(now time.Time, s Start) {
	r.observe(now, func() {
		key := Group(GroupStart, s.Lane+"|"+s.Class)
		r.bounds(key, "d", s.DelayMS)
		r.add(key, "err.level", abs(s.DelayMS-s.WaitMS))
		r.add(key, "err.ratio", abs(s.DelayMS-s.RatioMS))
		r.add(key, "err.n", 1)
		r.late(now, s.Class, s.Bucket, s.Lane, s.DelayMS-s.WaitMS)
		lane := Group(GroupLane, s.Lane)
		r.bounds(lane, "d", s.DelayMS)
		if s.AfterStartBy && !s.Probe { // a probe's lateness is counted at its end
			r.add(lane, MissOf(false, "start"), 1)
		}
	})
}

// End is the end of one attempt.
type End struct {
	Class, Bucket, Lane, Outcome string
	ServiceMS                    int64
	Success, Missed              bool // Missed: finished after its deadline
	Retried, Quarantined         bool
	Probe                        bool
	// Signature is that of a failure, the first in a row of its task with it; else "".
	Signature string
}

// Ended counts an attempt's end.
func (r *Recorder) Ended(now time.Time, e End) {
	r.observe(now, func() {
		bins := taskop.BinsKey(e.Class, e.Bucket, now.UnixMilli()/WindowMS)
		r.gone[bins] = now.UnixMilli() + taskop.BinsKeptMS
		i := hist.Index(e.ServiceMS)
		r.add(bins, taskop.BinAttr(SeriesOccupancy, i), 1)
		if e.Success {
			r.add(bins, taskop.BinAttr(SeriesSuccess, i), 1)
			r.bounds(Group(GroupClass, e.Class), "s", e.ServiceMS)
		}
		if len(e.Signature) >= 2 {
			failed := SignaturesKey(now.UnixMilli())
			r.gone[failed] = now.UnixMilli() + taskop.SignaturesKeptMS
			r.add(failed, e.Class+"|"+e.Signature[:2], 1)
		}
		lane := Group(GroupLane, e.Lane)
		r.add(lane, "end."+e.Outcome, 1)
		r.bounds(lane, "s", e.ServiceMS)
		if e.Missed {
			r.add(lane, MissOf(e.Probe, "finish"), 1)
		}
		if e.Retried {
			r.add(lane, "retries", 1)
		}
		if e.Quarantined {
			r.add(lane, "quarantined", 1)
		}
	})
}

// SignatureWindowMS is how long failures by signature are counted in one item.
const SignatureWindowMS = 60_000

// SignaturesKey is the item that counts, by class and the first two digits of
// their signature, the tasks that failed in the window of a time. Two digits keep
// it small however many signatures there are; while nothing fails it is not written.
func SignaturesKey(nowMS int64) op.Key {
	return taskop.CountersKey("signature#" + strconv.FormatInt(nowMS/SignatureWindowMS, 10))
}

// Ledgers names the counters of ledgers in GroupSystem.
const Ledgers = "ledgers"

// Drift counts a ledger that did not say what its tenant's rows hold, and was
// corrected: by how much work (ms) and how many active attempts it was off.
func (r *Recorder) Drift(now time.Time, workMS, active int64) {
	r.observe(now, func() {
		key := Group(GroupSystem, Ledgers)
		r.add(key, "repaired", 1)
		r.add(key, "drift_ms", abs(workMS))
		r.add(key, "drift_active", abs(active))
	})
}

// Places names the counters of learned lanes in GroupSystem: how many (class,
// bucket)s moved, and how many ought to and have no lane to.
const (
	Places  = "places"
	Moved   = "moved"
	Blocked = "blocked"
)

// Placed counts a (class, bucket) that moved, or cannot.
func (r *Recorder) Placed(now time.Time, what string) {
	r.observe(now, func() { r.add(Group(GroupSystem, Places), what, 1) })
}

// Count adds to a lane's counter.
func (r *Recorder) Count(now time.Time, lane, what string, n int64) {
	r.observe(now, func() { r.add(Group(GroupLane, lane), what, n) })
}

// bounds adds to a histogram with Bounds: one count in its bin, and the sum.
func (r *Recorder) bounds(key op.Key, series string, ms int64) {
	i := 0
	for i < len(Bounds) && ms > Bounds[i] {
		i++
	}
	r.add(key, taskop.BinAttr(series, i), 1)
	r.add(key, series+".sum", ms)
}

// Due says whether a flush is due.
func (r *Recorder) Due(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n >= FlushAfter || r.n > 0 && now.Sub(r.since) >= FlushInterval
}

// FlushDue flushes if it is due.
func (r *Recorder) FlushDue(ctx context.Context, now time.Time, table op.Table) {
	if r.Due(now) {
		r.Flush(ctx, table)
	}
}

// Flush writes everything merged so far. What the store did not clearly take
// is given up and counted as lost: repeating it might count it twice.
func (r *Recorder) Flush(ctx context.Context, table op.Table) {
	r.mu.Lock()
	items, gone := r.items, r.gone
	r.items, r.gone, r.n = map[op.Key]map[string]int64{}, map[op.Key]int64{}, 0
	r.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(items), func(a, b op.Key) int { return cmp.Or(strings.Compare(a.PK, b.PK), strings.Compare(a.SK, b.SK)) })
	for _, key := range keys { // in one order, so that a run can be replayed
		counts := items[key]
		if _, err := table.Write(ctx, taskop.AddCounts("tally", key, counts, gone[key])); err != nil {
			r.lost.Add(1)
			slog.WarnContext(ctx, "statistics lost", "item", key.PK, "error", err)
		}
	}
}

// Lost is how many counter items were given up since the start.
func (r *Recorder) Lost() int64 { return r.lost.Load() }

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}

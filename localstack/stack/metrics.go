package stack

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/prom"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// metrics fills a scrape from the store: what the functions have flushed, the
// lanes and the ledgers as they stand.
func (s *Stack) metrics(r *http.Request, set *prom.Set) error {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	if err := set.Process(); err != nil {
		return err
	}
	if err := s.ledgerMetrics(ctx, set); err != nil {
		return err
	}
	if err := s.laneMetrics(ctx, set); err != nil {
		return err
	}
	return s.counterMetrics(ctx, set)
}

// ledgerMetrics shows every tenant's ledger. A tenant is a label only here, on one
// machine; on AWS it never is.
func (s *Stack) ledgerMetrics(ctx context.Context, set *prom.Set) error {
	ledgers := map[string]taskop.Ledger{}
	for _, tenant := range s.opts.Config.TenantNames() {
		ledgers[tenant] = taskop.Ledger{}
	}
	err := s.db.Table().Scan(ctx, taskop.LedgerPrefix, func(row op.Row) bool {
		ledgers[row.Key.PK[len(taskop.LedgerPrefix):]] = taskop.DecodeLedger(row.Item)
		return true
	})
	work := set.Gauge("lanekeeper_ledger_work_ms", "Work a tenant has reserved and not begun, in milliseconds.")
	active := set.Gauge("lanekeeper_ledger_active", "Attempts of a tenant that run.")
	for tenant, l := range ledgers {
		work.Add(float64(l.WorkMS), prom.L("tenant", tenant)...)
		active.Add(float64(l.Active), prom.L("tenant", tenant)...)
	}
	return err
}

func (s *Stack) laneMetrics(ctx context.Context, set *prom.Set) error {
	work := set.Gauge("agent_queue_estimated_work_seconds", "Work queued in a lane.")
	oldest := set.Gauge("agent_queue_oldest_age_seconds", "Age of the oldest task of a lane that has not started.")
	inflight := set.Gauge("inflight_count", "Attempts of a lane that run.")
	busy := set.Gauge("worker_busy_ratio", "Running attempts by slots.")
	waiting := set.Gauge("lanekeeper_waiting", "Tasks of a lane that wait for a slot, parked ones included.")
	dlq := set.Gauge("dlq_count", "Messages in a lane's dead-letter queue.")
	now := time.Now().UnixMilli() //nolint:forbidigo // a scrape is about now
	for _, name := range s.opts.Config.LaneNames() {
		item, err := s.db.Table().Get(ctx, taskop.LaneKey(name), true)
		if err != nil {
			return err
		}
		l, err := taskop.DecodeLane(name, item)
		if err != nil {
			return err
		}
		label := prom.L("lane", name)
		running, first := 0, int64(0)
		for _, o := range l.Tasks {
			if o.Running {
				running++
			} else if first == 0 || o.SinceMS < first {
				first = o.SinceMS
			}
		}
		page, err := s.db.Table().Query(ctx, op.Query{Index: op.IndexReady, PK: taskop.ReadyPartition(name), Limit: 1})
		if err != nil {
			return err
		}
		for _, row := range page.Rows {
			if e, err := taskop.ParseReadySort(row.Item.Str("rs")); err == nil && (first == 0 || e.SubmittedMS < first) {
				first = e.SubmittedMS
			}
		}
		age := 0.0
		if first > 0 {
			age = float64(max(now-first, 0)) / 1000
		}
		work.Add(float64(l.WorkMS)/1000, label...)
		oldest.Add(age, label...)
		inflight.Add(float64(running), label...)
		busy.Add(float64(running)/float64(max(l.Slots, 1)), label...)
		waiting.Add(float64(l.Ready+l.Parked), label...)
		counts, err := s.db.Queues().Counts(ctx, DeadLetters(name))
		if err != nil {
			return err
		}
		dlq.Add(float64(counts.Visible+counts.InFlight+counts.Delayed), label...)
	}
	return nil
}

func (s *Stack) counterMetrics(ctx context.Context, set *prom.Set) error {
	admitted := set.Counter("agent_admission_total", "Decisions of the admission.")
	misses := set.Counter("agent_deadline_miss_total", "Accepted tasks that could not start (stage start) or did not finish (stage finish) in time.")
	retries := set.Counter("retry_count", "Attempts that ended in a retry.")
	quarantined := set.Counter("quarantine_inflow", "Tasks that went to quarantine.")
	dead := set.Counter("dlq_inflow", "Wake-ups that ended in a dead-letter queue, unreadable ones included.")
	drift := set.Counter("ledger_drift", "Corrections of tenants' ledgers that did not agree with their tasks.")
	moves := set.Counter("lane_moves", "Classes and buckets that moved to another lane by what was learned of them.")
	blocked := set.Counter("lane_moves_blocked", "Classes and buckets found too slow for their lane that have none to move to.")
	repaired := set.Counter("lanekeeper_lane_repairs_total", "Corrections of a lane's item by the aggregator.")
	resent := set.Counter("lanekeeper_resent_total", "Messages sent again because nobody had claimed their task.")
	errLevel := set.Counter("lanekeeper_prediction_error_seconds_total", "Absolute error of the predicted wait, summed over starts, by method.")
	started := set.Counter("lanekeeper_started_total", "First starts of tasks.")
	probes := set.Counter("lanekeeper_probes_total", "Tasks let in to learn what their class costs.")
	probesMissed := set.Counter("lanekeeper_probes_missed_total", "Probes that did not start or finish in time; they are in no other count of misses.")
	var lateStart, lateFinish int64
	err := s.db.Table().Scan(ctx, "M#", func(row op.Row) bool {
		group, name, _ := strings.Cut(strings.TrimPrefix(row.Key.PK, "M#"), "#")
		counts := taskop.Counts(row.Item)
		switch group {
		case tally.GroupAdmission:
			for attr, n := range counts {
				decision, tier, _ := strings.Cut(attr, "|")
				admitted.Add(float64(n), prom.L("decision", decision, "task_class", name, "tenant_tier", tier)...)
			}
		case tally.GroupStart:
			lane, class, _ := strings.Cut(name, "|")
			label := prom.L("lane", lane, "task_class", class)
			histogram(set, "agent_task_start_delay_seconds", "Time from submission to first start.", counts, "d", 1000, label)
			started.Add(float64(counts["err.n"]), label...)
			errLevel.Add(float64(counts["err.level"])/1000, append(prom.L("method", "water_level"), label...)...)
			errLevel.Add(float64(counts["err.ratio"])/1000, append(prom.L("method", "queue_by_slots"), label...)...)
		case tally.GroupClass:
			histogram(set, "agent_service_seconds", "Service time of successful attempts.", counts, "s", 1000, prom.L("task_class", name))
		case tally.GroupSystem:
			drift.Add(float64(counts["repaired"]))
			moves.Add(float64(counts[tally.Moved]))
			blocked.Add(float64(counts[tally.Blocked]))
		case tally.GroupLane:
			label := prom.L("lane", name)
			histogram(set, "queue_wait_ms", "Time from submission to first start, in milliseconds.", counts, "d", 1, label)
			histogram(set, "process_ms", "Duration of attempts, in milliseconds.", counts, "s", 1, label)
			retries.Add(float64(counts["retries"]), label...)
			quarantined.Add(float64(counts["quarantined"]), label...)
			dead.Add(float64(counts["dead"]+counts["dead.unreadable"]), label...)
			repaired.Add(float64(counts["repaired"]), label...)
			resent.Add(float64(counts["resent"]), label...)
			probes.Add(float64(counts["probes"]), label...)
			probesMissed.Add(float64(counts["probe.missed"]), label...)
			lateStart += counts["miss.start"]
			lateFinish += counts["miss.finish"]
		}
		return true
	})
	misses.Add(float64(lateStart), prom.L("stage", "start")...)
	misses.Add(float64(lateFinish), prom.L("stage", "finish")...)
	return err
}

// histogram renders a tally histogram, its bounds divided by unit.
func histogram(set *prom.Set, name, help string, counts map[string]int64, series string, unit float64, labels []prom.Label) {
	var buckets []prom.Point
	var total int64
	for i := 0; i <= len(tally.Bounds); i++ {
		total += counts[series+"."+strconv.Itoa(i)]
		if i < len(tally.Bounds) {
			buckets = append(buckets, prom.Point{At: float64(tally.Bounds[i]) / unit, Value: float64(total)})
		}
	}
	if total > 0 {
		set.Histogram(name, help, buckets, float64(counts[series+".sum"])/unit, uint64(total), labels...)
	}
}

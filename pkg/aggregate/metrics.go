package aggregate

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

const (
	minuteMS = 60_000
	// maxAged bounds how many waiting tasks of a lane are looked at for their ages.
	maxAged = 10_000
	// usualWeight is that of one minute in the usual start delay: a half-life of about an hour of minutes with starts.
	usualWeight = 0.0115
)

// reported is what was last reported: the counters' values, in which their rise is seen, and the lanes' usual delays.
type reported struct {
	Counts map[string]map[string]int64 `json:"c"` // by item, then counter
	Usual  map[string]float64          `json:"u"` // ms, by lane
}

// metrics reports once in each minute of the clock, whichever run comes first.
// It takes the turn before it reports: a minute may go missing, none comes twice.
func (r *run) metrics(ctx context.Context, lanes map[string]*taskop.Lane) error {
	nowMS := r.Clock().UnixMilli()
	if r.Metrics == nil || nowMS/minuteMS == r.reportedMS/minuteMS {
		return nil
	}
	item, err := r.Table.Get(ctx, taskop.MetricsKey(), true)
	if err != nil {
		return err
	}
	body, lastMS := taskop.Reported(item)
	r.reportedMS = lastMS
	if nowMS/minuteMS <= lastMS/minuteMS {
		return nil
	}
	last, err := decodeReported(body)
	if err != nil {
		return err
	}
	m := Minute{AtMS: nowMS}
	if lastMS > 0 {
		m.LatenessMS = max(0, nowMS-lastMS-minuteMS)
	}
	r.Tally.Flush(ctx, r.Table) // its own counters, too
	next, err := r.counters(ctx)
	if err != nil {
		return err
	}
	m.Counts = rise(last.Counts, next)
	state := reported{Counts: next, Usual: r.usual(last.Usual, m.Counts[tally.GroupLane])}
	for _, name := range r.Config.LaneNames() {
		l, err := r.laneNow(ctx, lanes[name], nowMS)
		if err != nil {
			return err
		}
		l.TargetMS, l.UsualMS = r.Config.Lanes[name].SLO.QueueWaitP95.MS(), int64(last.Usual[name])
		m.Lanes = append(m.Lanes, l)
	}
	if body, err = state.encode(); err != nil {
		return err
	}
	if _, err := r.Table.Write(ctx, taskop.Report(body, lastMS, nowMS)); err != nil {
		if op.FailedCond(err) != nil {
			return nil // another run has the turn
		}
		return err
	}
	r.reportedMS = nowMS
	return r.Metrics.Emit(ctx, m)
}

// counters reads all counter items, classes put together by their labels.
func (r *run) counters(ctx context.Context) (map[string]map[string]int64, error) {
	var keys []op.Key
	var names []string
	add := func(group, name, label string) {
		keys = append(keys, tally.Group(group, name))
		names = append(names, group+"#"+label)
	}
	add(tally.GroupSystem, tally.Ledgers, tally.Ledgers)
	add(tally.GroupSystem, tally.Places, tally.Places)
	for _, lane := range r.Config.LaneNames() {
		add(tally.GroupLane, lane, lane)
	}
	for _, class := range r.Config.ClassNames() {
		label := r.Config.ClassLabel(class)
		add(tally.GroupAdmission, class, label)
		add(tally.GroupClass, class, label)
		for _, lane := range r.Config.LanesOf(class) {
			add(tally.GroupStart, lane+"|"+class, lane+"|"+label)
		}
	}
	out := map[string]map[string]int64{}
	for at := 0; at < len(keys); at += op.MaxBatchGet {
		end := min(at+op.MaxBatchGet, len(keys))
		items, err := r.Table.BatchGet(ctx, keys[at:end], true)
		if err != nil {
			return nil, err
		}
		for i, it := range items {
			for counter, n := range taskop.Counts(it) {
				name := names[at+i]
				if out[name] == nil {
					out[name] = map[string]int64{}
				}
				out[name][counter] += n
			}
		}
	}
	return out, nil
}

// rise is what counters rose by, by group and name. One that fell, because its
// item was removed, has risen from zero.
func rise(last, next map[string]map[string]int64) map[string]map[string]map[string]int64 {
	out := map[string]map[string]map[string]int64{}
	for item, counts := range next {
		group, name, _ := strings.Cut(item, "#")
		for counter, n := range counts {
			if before := last[item][counter]; n >= before {
				n -= before
			}
			if n <= 0 {
				continue
			}
			if out[group] == nil {
				out[group] = map[string]map[string]int64{}
			}
			if out[group][name] == nil {
				out[group][name] = map[string]int64{}
			}
			out[group][name][counter] = n
		}
	}
	return out
}

// usual moves each lane's usual start delay towards this minute's, if tasks started.
func (r *run) usual(last map[string]float64, lanes map[string]map[string]int64) map[string]float64 {
	out := map[string]float64{}
	for _, lane := range r.Config.LaneNames() {
		before, known := last[lane]
		p95, n := tally.Quantile(lanes[lane], tally.SeriesDelay, 0.95)
		switch {
		case n == 0 && !known:
			continue
		case n == 0:
			out[lane] = before
		case !known:
			out[lane] = p95
		default:
			out[lane] = before + usualWeight*(p95-before)
		}
	}
	return out
}

// laneNow looks at everything of a lane that has not started.
func (r *run) laneNow(ctx context.Context, l *taskop.Lane, nowMS int64) (LaneNow, error) {
	out := LaneNow{Name: l.Name, WorkMS: max(l.WorkMS, 0), Slots: l.Slots, DeadLetters: -1}
	var queued []op.Key
	for _, o := range l.Tasks {
		if o.Running {
			out.Running++
			continue
		}
		out.QueuedMS = max(out.QueuedMS, nowMS-o.SinceMS)
		if len(queued) < op.MaxBatchGet {
			queued = append(queued, taskop.RowKey(o.Tenant, o.ID))
		}
	}
	if len(queued) > 0 {
		rows, err := r.Table.BatchGet(ctx, queued, false)
		if err != nil {
			return out, err
		}
		for i, row := range rows {
			if t, err := taskop.DecodeRow(queued[i], row); row != nil && err == nil && t.StartedMS == 0 {
				out.OldestMS = max(out.OldestMS, nowMS-t.SubmittedMS)
			}
		}
	}
	var ages []int64
	for _, partition := range taskop.WaitingPartitions(l.Name) {
		err := op.Query{Index: op.IndexReady, PK: partition}.All(ctx, r.Table, func(row op.Row) bool {
			if e, err := taskop.ParseReadySort(row.Item.Str("rs")); err == nil {
				ages = append(ages, max(0, nowMS-e.SubmittedMS))
			}
			return len(ages) < maxAged
		})
		if err != nil {
			return out, err
		}
	}
	if len(ages) > 0 {
		slices.Sort(ages)
		out.BacklogP95MS = ages[(len(ages)*95+99)/100-1]
		out.OldestMS = max(out.OldestMS, ages[len(ages)-1])
	}
	if r.DeadLetters != nil {
		n, err := r.DeadLetters.DeadLetters(ctx, l.Name)
		if err != nil {
			return out, fmt.Errorf("counting dead letters of %s: %w", l.Name, err)
		}
		out.DeadLetters = n
	}
	return out, nil
}

func (s reported) encode() ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w, err := flate.NewWriter(&buf, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(text)
	err = errors.Join(err, w.Close()) // which writes the rest
	return buf.Bytes(), err
}

func decodeReported(body []byte) (reported, error) {
	var s reported
	if len(body) == 0 {
		return s, nil
	}
	text, err := io.ReadAll(flate.NewReader(bytes.NewReader(body)))
	if err != nil {
		return s, fmt.Errorf("what was last reported: %w", err)
	}
	err = json.Unmarshal(text, &s)
	return s, err
}

package aggregate

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/lanekeeper/lanekeeper/pkg/belief"
	"github.com/lanekeeper/lanekeeper/pkg/estimate"
	"github.com/lanekeeper/lanekeeper/pkg/hist"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// windows are how many outcome windows estimates are learned from: the current
// one and the one before.
const windows = 2

// publish learns estimates from completed work, and from them in which lanes it
// belongs, and publishes what moved.
func (r *run) publish(ctx context.Context, lanes map[string]*taskop.Lane) (err error) {
	if !r.loaded {
		if err := r.loadBook(ctx); err != nil {
			return err
		}
		r.loaded = true
	}
	defer func() {
		if err != nil {
			r.loaded = false // what was written nobody knows: the next look begins with what is there
		}
	}()
	nowMS := r.Clock().UnixMilli()
	censored := running(lanes, nowMS)
	updates := map[belief.Kind]estimate.Estimate{}
	places := newPlacing(r.book, nowMS)
	parts := map[int]bool{}
	late := lateness{}
	entries := r.priors.Entries()
	for len(entries) > 0 {
		n := min(len(entries), op.MaxBatchGet/windows)
		bins, err := r.bins(ctx, entries[:n], nowMS/tally.WindowMS)
		if err != nil {
			return err
		}
		for i, e := range entries[:n] {
			late.merge(bins[i].late)
			next := estimate.Learn(&bins[i].success, &bins[i].occupancy, censored[e.Kind], e.Prior, e.CapMS)
			if old := r.book.Get(e.Kind.Class, e.Kind.Bucket); estimate.Moved(old, &next) || next.Learned != old.Learned || next.Proven() != old.Proven() {
				updates[e.Kind] = next
				parts[r.priors.PartOf(e.Kind)] = true
			}
			if places.look(e, &next) {
				parts[r.priors.PartOf(e.Kind)] = true
			}
		}
		entries = entries[n:]
	}
	if err := r.publishMargins(ctx, late, nowMS); err != nil {
		return err
	}
	if len(parts) == 0 {
		return nil
	}
	book := r.book.With(updates, places.states)
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		moves := places.of(part, r.priors)
		if err := r.publishPart(ctx, taskop.Publish(part, book.Encode(part), nowMS, r.lease.Epoch), moves); err != nil {
			return err
		}
		r.tell(ctx, moves)
	}
	r.book = book
	slog.InfoContext(ctx, "estimates published", "moved", len(updates))
	return nil
}

func (r *run) loadBook(ctx context.Context) error {
	keys := make([]op.Key, r.priors.Parts())
	for i := range keys {
		keys[i] = taskop.EstimatesKey(i)
	}
	items, err := r.Table.BatchGet(ctx, keys, true)
	if err != nil {
		return err
	}
	book := r.priors
	for _, item := range items {
		if item == nil {
			continue
		}
		body, _ := taskop.Published(item)
		if book, err = book.Overlay(body); err != nil {
			return err
		}
	}
	r.book = book
	return nil
}

type outcomeBins struct {
	success, occupancy hist.Bins
	late               lateness
}

func (r *run) bins(ctx context.Context, entries []belief.Entry, window int64) ([]outcomeBins, error) {
	keys := make([]op.Key, 0, windows*len(entries))
	for _, e := range entries {
		for back := range int64(windows) {
			keys = append(keys, taskop.BinsKey(e.Kind.Class, e.Kind.Bucket, window-back))
		}
	}
	items, err := r.Table.BatchGet(ctx, keys, false)
	if err != nil {
		return nil, err
	}
	out := make([]outcomeBins, len(entries))
	for i, item := range items {
		o := &out[i/windows]
		if o.late == nil {
			o.late = lateness{}
		}
		for attr, n := range taskop.Counts(item) {
			series, bin, ok := taskop.ParseBinAttr(attr)
			if !ok {
				continue
			}
			switch series {
			case tally.SeriesSuccess:
				o.success.AddBin(bin, n)
			case tally.SeriesOccupancy:
				o.occupancy.AddBin(bin, n)
			}
			if lane, is := tally.LateLane(series); is {
				o.late.add(lane, bin, n)
			}
		}
	}
	return out, nil
}

// running are the ages of the running attempts of each kind.
func running(lanes map[string]*taskop.Lane, nowMS int64) map[belief.Kind][]int64 {
	out := map[belief.Kind][]int64{}
	for _, l := range lanes {
		for _, o := range l.Tasks {
			if o.Running {
				k := belief.Kind{Class: o.Class, Bucket: o.Bucket}
				out[k] = append(out[k], max(nowMS-o.SinceMS, 0))
			}
		}
	}
	return out
}

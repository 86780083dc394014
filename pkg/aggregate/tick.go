package aggregate

import (
	"context"
	"errors"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// checkEvery is how often open tasks and counts are checked against the rows.
const checkEvery = 5 * time.Second

// Tick does everything once. One part's error does not keep the others from
// their work. live says whether anything is under way.
func (r *run) Tick(ctx context.Context) (live bool, err error) {
	lanes, err := r.lanes(ctx)
	if err != nil {
		return true, err
	}
	var errs []error
	note := func(err error) { errs = append(errs, err) }

	due, err := r.visitDue(ctx, lanes)
	note(err)
	circuits, err := r.circuit(ctx, lanes)
	note(err)
	now := r.Clock()
	check := now.Sub(r.checked) >= checkEvery
	for _, name := range r.Config.LaneNames() {
		l := lanes[name]
		note(r.unpark(ctx, l))
		note(r.release(ctx, l))
		note(r.snapshot(ctx, l))
		if check {
			note(r.check(ctx, l))
		}
		live = live || !l.Empty()
	}
	if check {
		r.checked = now
	}
	note(r.checkLedgers(ctx))
	replaying, err := r.replays(ctx, lanes)
	note(err)
	live = live || replaying || circuits
	if now.Sub(r.published) >= r.PublishEvery {
		if err := r.publish(ctx, lanes); err != nil {
			note(err)
		} else {
			r.published = now
		}
	}
	r.Tally.FlushDue(ctx, now, r.Table)
	note(r.metrics(ctx, lanes))
	return live || due, errors.Join(errs...)
}

// lanes reads all lane items, creating those that are missing and carrying over
// a changed number of slots.
func (r *run) lanes(ctx context.Context) (map[string]*taskop.Lane, error) {
	names := r.Config.LaneNames()
	keys := make([]op.Key, len(names))
	for i, name := range names {
		keys[i] = taskop.LaneKey(name)
	}
	items, err := r.Table.BatchGet(ctx, keys, true)
	if err != nil {
		return nil, err
	}
	out := make(map[string]*taskop.Lane, len(names))
	for i, name := range names {
		l, err := taskop.DecodeLane(name, items[i])
		if err != nil {
			return nil, err
		}
		want := int64(r.Config.Slots(name))
		var w *op.Write
		switch {
		case !l.Exists:
			create := taskop.CreateLane(name, want)
			w = &create
		case l.Slots != want:
			set := taskop.SetSlots(&l, want)
			w = &set
		}
		if w != nil {
			if err := r.writeLane(ctx, *w, &l); err != nil && !moved(err) { // an admission may create it too
				return nil, err
			}
		}
		out[name] = &l
	}
	return out, nil
}

// writeLane writes a lane item and takes over the item after it, or the one
// met when the condition failed (reported as errMoved).
func (r *run) writeLane(ctx context.Context, w op.Write, l *taskop.Lane) error {
	item, err := r.Table.Write(ctx, w)
	if ce := op.FailedCond(err); ce != nil {
		met, _ := ce.On(0)
		if now, derr := taskop.DecodeLane(l.Name, met); derr == nil {
			*l = now
		}
		return errMoved
	}
	if err != nil {
		return err
	}
	now, err := taskop.DecodeLane(l.Name, item)
	if err != nil {
		return err
	}
	*l = now
	return nil
}

var errMoved = errors.New("aggregate: the item has changed")

// moved says whether err only says that somebody else was faster.
func moved(err error) bool { return errors.Is(err, errMoved) || op.FailedCond(err) != nil }

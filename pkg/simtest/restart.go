package simtest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/recovery"
)

// Recovery is what a process that holds the store alone does when it starts.
const Recovery = "recovery"

// store is the table of one instance that can be gone through.
type store struct{ shell }

var _ recovery.Store = store{}

func (s store) Scan(ctx context.Context, prefix string, yield func(op.Row) bool) error {
	var rows []op.Row
	err := s.in.call(ctx, Read, "scan", prefix, func() error {
		rows = rows[:0]
		s.in.w.table.Each(func(key op.Key, it op.Item) {
			if strings.HasPrefix(key.PK, prefix) {
				rows = append(rows, op.Row{Key: key, Item: it.Clone()})
			}
		})
		return nil
	})
	slices.SortFunc(rows, func(a, b op.Row) int { return strings.Compare(where(a.Key), where(b.Key)) })
	for _, row := range rows {
		if err != nil || !yield(row) {
			break
		}
	}
	return err
}

// restart kills everything at once, as where all of it is one process, and starts
// it again: nothing works until the new process has looked at what was left.
func (w *World) restart() {
	if w.ended || w.down {
		return
	}
	w.note("--- RESTART")
	w.down = true
	for _, in := range w.instances {
		w.kill(in)
	}
	clear(w.idle)
	for _, q := range w.queues { // received messages are nobody's now
		for _, m := range q.waiting {
			m.visible = w.now()
		}
	}
	w.recover()
}

func (w *World) recover() {
	var err error
	w.invoke(Recovery, "", time.Minute, func(ctx context.Context, in *Instance) {
		err = recovery.Run(ctx, store{shell{in}}, in.clock().UnixMilli())
	}, func(ok bool) {
		if !ok || err != nil { // the process ends, and somebody starts it again
			w.note("recovery failed: %v", err)
			w.after(w.between(time.Millisecond, time.Second), w.recover)
			return
		}
		w.down = false
		w.after(w.between(time.Millisecond, time.Second), func() { w.runAggregator(true) })
	})
}

package fair

import (
	"context"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// without says which parts of the mechanism a run does without.
type without struct {
	order      bool // waiting tasks stand in order of submission, and nothing is written for another
	prediction bool // the whole queued work counts as standing before a task
	refunds    bool // cancelled tasks stay charged
}

// table is a table that does without it: what services write reaches it without the mechanism's part.
func (off without) table(t op.Table) op.Table { return less{t, off} }

type less struct {
	op.Table
	off without
}

func (l less) Write(ctx context.Context, wr op.Write) (op.Item, error) {
	if l.off.prediction && wr.Name == "snapshot.put" {
		return wr.Item, nil
	}
	return l.Table.Write(ctx, l.off.reduced(wr))
}

func (l less) Transact(ctx context.Context, tx op.Tx) error {
	writes := make([]op.Write, len(tx.Writes))
	for i, wr := range tx.Writes {
		writes[i] = l.off.reduced(wr)
	}
	tx.Writes = writes
	return l.Table.Transact(ctx, tx)
}

// view is the virtual world's table as its services see it: it takes its time.
type view struct {
	w *world
	op.Table
}

func (v view) Get(ctx context.Context, key op.Key, consistent bool) (op.Item, error) {
	v.w.pause()
	return v.Table.Get(ctx, key, consistent)
}

func (v view) BatchGet(ctx context.Context, keys []op.Key, consistent bool) ([]op.Item, error) {
	v.w.pause()
	return v.Table.BatchGet(ctx, keys, consistent)
}

func (v view) Query(ctx context.Context, q op.Query) (op.Page, error) {
	v.w.pause()
	return v.Table.Query(ctx, q)
}

func (v view) Write(ctx context.Context, wr op.Write) (op.Item, error) {
	v.w.pause()
	item, err := v.Table.Write(ctx, wr)
	v.w.refused(err, 1)
	return item, err
}

func (v view) Transact(ctx context.Context, tx op.Tx) error {
	v.w.pause()
	err := v.Table.Transact(ctx, tx)
	v.w.refused(err, 2)
	return err
}

const finishTag = "f#" // begins the names of a ledger's finish tags

// reduced is a write without what the run does without.
func (off without) reduced(wr op.Write) op.Write {
	switch {
	case off.order && strings.HasPrefix(wr.Key.PK, "T#"):
		return inOrderOfSubmission(wr)
	case off.order && strings.HasPrefix(wr.Key.PK, taskop.LanePrefix):
		return drop(wr, func(attr string) bool { return attr == "v" })
	case off.order && strings.HasPrefix(wr.Key.PK, taskop.LedgerPrefix), off.refunds && wr.Name == "cancel.ledger":
		return drop(wr, func(attr string) bool { return strings.HasPrefix(attr, finishTag) })
	}
	return wr
}

// drop takes attributes out of an update and its conditions.
func drop(wr op.Write, gone func(attr string) bool) op.Write {
	var changes []op.Change
	for _, c := range wr.Changes {
		if !gone(c.Attr) {
			changes = append(changes, c)
		}
	}
	wr.Changes = changes
	if all, ok := wr.Cond.(op.All); ok {
		var terms op.All
		for _, term := range all {
			if !about(term, gone) {
				terms = append(terms, term)
			}
		}
		wr.Cond = terms
	}
	return wr
}

func about(c op.Cond, gone func(string) bool) bool {
	switch c := c.(type) {
	case op.Cmp:
		return gone(c.Attr)
	case op.Any:
		for _, term := range c {
			if about(term, gone) {
				return true
			}
		}
	}
	return false
}

// inOrderOfSubmission takes the tag out of a row and of its place in the order.
func inOrderOfSubmission(wr op.Write) op.Write {
	if wr.Item != nil {
		wr.Item = wr.Item.Clone()
		for _, attr := range []string{"tg", "ts", "tc"} {
			delete(wr.Item, attr)
		}
		if rs := wr.Item.Str("rs"); rs != "" {
			wr.Item["rs"] = op.S(untagged(rs))
		}
	}
	wr.Changes = append([]op.Change(nil), wr.Changes...)
	for i, c := range wr.Changes {
		if c.Attr == "rs" && c.Verb == op.VerbSet {
			wr.Changes[i] = op.SetS("rs", untagged(c.Value.Str()))
		}
	}
	return wr
}

func untagged(rs string) string {
	e, err := taskop.ParseReadySort(rs)
	if err != nil || e.Origin != "" {
		return rs // quarantine, retry lane
	}
	s := taskop.ReadySort(0, e.SubmittedMS, e.ID, e.AmountMS)
	if e.Tenant != "" {
		s = e.Tenant + "/" + s
	}
	return s
}

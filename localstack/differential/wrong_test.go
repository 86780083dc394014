package differential

import (
	"context"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// forgetful does not remove attributes.
type forgetful struct{ op.Table }

func (f forgetful) Write(ctx context.Context, w op.Write) (op.Item, error) {
	var kept []op.Change
	for _, c := range w.Changes {
		if c.Verb != op.VerbRemove {
			kept = append(kept, c)
		}
	}
	w.Changes = kept
	return f.Table.Write(ctx, w)
}

// lenient ignores every tenth condition.
type lenient struct {
	op.Table
	n int
}

func (l *lenient) Write(ctx context.Context, w op.Write) (op.Item, error) {
	if l.n++; l.n%10 == 0 {
		w.Cond = nil
	}
	return l.Table.Write(ctx, w)
}

// curt reports only the first failed condition of a transaction.
type curt struct{ op.Table }

func (c curt) Transact(ctx context.Context, tx op.Tx) error {
	err := c.Table.Transact(ctx, tx)
	if ce := op.FailedCond(err); ce != nil {
		return &op.CondError{Name: ce.Name, Failed: ce.Failed[:1]}
	}
	return err
}

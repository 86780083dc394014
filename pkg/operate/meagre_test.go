package operate_test

import (
	"context"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// meagre answers index queries with one row a page, and an empty page before
// each of them.
type meagre struct{ op.Table }

const fresh = "fresh "

func (m meagre) Query(ctx context.Context, q op.Query) (op.Page, error) {
	if q.Index == op.IndexNone {
		return m.Table.Query(ctx, q)
	}
	cursor, skipped := strings.CutPrefix(q.Cursor, fresh)
	if !skipped {
		return op.Page{Cursor: fresh + q.Cursor}, nil
	}
	q.Limit, q.Cursor = 1, cursor
	return m.Table.Query(ctx, q)
}

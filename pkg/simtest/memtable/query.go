package memtable

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// maxPageBytes is where DynamoDB ends a page.
const maxPageBytes = 1 << 20

// Query reads a page.
func (t *Table) Query(_ context.Context, q op.Query) (op.Page, error) {
	switch {
	case q.PK == "" || q.Limit < 0:
		return op.Page{}, fmt.Errorf("memtable: query of %q with partition %q and limit %d", q.Index, q.PK, q.Limit)
	case q.Index != op.IndexNone && (q.Consistent || !slices.Contains(op.Indexes(), q.Index)):
		return op.Page{}, fmt.Errorf("memtable: a consistent query of index %q, or there is none", q.Index)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var at *place
	if q.Cursor != "" {
		var err error
		if at, err = decodeCursor(q); err != nil {
			return op.Page{}, err
		}
	}
	if draw(t.opts.EmptyPage) {
		return op.Page{Cursor: encodeCursor(q, at)}, nil
	}
	limit := q.Limit
	if draw(t.opts.ShortPage) {
		limit = 1
	}
	return t.page(q, at, limit), nil
}

// page lists the rows after at.
func (t *Table) page(q op.Query, at *place, limit int) op.Page {
	var p *partition
	if q.Index == op.IndexNone {
		p = t.parts[q.PK]
	} else {
		x := t.indexes[q.Index]
		if t.opts.Now != nil {
			x.catchUp(t.opts.Now())
		}
		p = x.parts[q.PK]
	}
	if p == nil {
		return op.Page{}
	}
	var page op.Page
	bytes := 0
	n := len(p.places)
	step := func(i int) int { return i }
	if q.Descending {
		step = func(i int) int { return n - 1 - i }
	}
	var last place
	for i := range n {
		pl := p.places[step(i)]
		if pl.sort < q.From || q.To != "" && pl.sort > q.To {
			continue
		}
		if at != nil {
			if c := pl.compare(*at); !q.Descending && c <= 0 || q.Descending && c >= 0 {
				continue
			}
		}
		row := t.row(q, pl)
		bytes += sizeOver(row.Key, row.Item, 4096)
		if bytes > maxPageBytes && len(page.Rows) > 0 {
			page.Cursor = encodeCursor(q, &last)
			return page
		}
		page.Rows, last = append(page.Rows, row), pl
		if len(page.Rows) == limit {
			page.Cursor = encodeCursor(q, &last) // also when nothing follows, as DynamoDB does
			return page
		}
	}
	return page
}

func (t *Table) row(q op.Query, pl place) op.Row {
	if q.Index == op.IndexNone {
		key := op.Key{PK: q.PK, SK: pl.sk}
		return op.Row{Key: key, Item: t.read(key, q.Consistent)}
	}
	pk, sk := q.Index.Keys()
	return op.Row{Key: op.Key{PK: pl.pk, SK: pl.sk}, Item: op.Item{pk: op.S(q.PK), sk: op.S(pl.sort)}}
}

// A cursor holds the query's index and partition and the place of the last row
// given, none when a page before the first row was empty.
func encodeCursor(q op.Query, at *place) string {
	parts := []string{"m1", string(q.Index), q.PK}
	if at != nil {
		parts = append(parts, at.sort, at.pk, at.sk)
	}
	for i, p := range parts {
		parts[i] = base64.RawURLEncoding.EncodeToString([]byte(p))
	}
	return strings.Join(parts, ".") + "."
}

func decodeCursor(q op.Query) (*place, error) {
	parts := strings.Split(q.Cursor, ".")
	n := len(parts)
	if n != 4 && n != 7 || parts[n-1] != "" {
		return nil, fmt.Errorf("%w: garbled", op.ErrBadCursor)
	}
	for i, p := range parts {
		raw, err := base64.RawURLEncoding.DecodeString(p)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", op.ErrBadCursor, err)
		}
		parts[i] = string(raw)
	}
	if parts[0] != "m1" || parts[1] != string(q.Index) || parts[2] != q.PK {
		return nil, fmt.Errorf("%w: made by another query", op.ErrBadCursor)
	}
	if n == 4 {
		return nil, nil
	}
	at := &place{parts[3], parts[4], parts[5]}
	if at.sort < q.From || q.To != "" && at.sort > q.To {
		return nil, fmt.Errorf("%w: outside the query's range", op.ErrBadCursor)
	}
	return at, nil
}

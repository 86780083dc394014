package embed

import (
	"context"
	"database/sql"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// maxPageBytes is where DynamoDB ends a page.
const maxPageBytes = 1 << 20

// place is a position in the order of a query: the sort key, and for an index
// the item's key that decides between equal ones. For the table pk is unused
// and sk repeats the sort key.
type place struct{ sort, pk, sk string }

func (p place) compare(q place) int {
	if c := strings.Compare(p.sort, q.sort); c != 0 {
		return c
	}
	if c := strings.Compare(p.pk, q.pk); c != 0 {
		return c
	}
	return strings.Compare(p.sk, q.sk)
}

// above is greater than every key.
var above = strings.Repeat("\xff", op.MaxPKBytes+1)

// Query reads a page.
func (t *Table) Query(ctx context.Context, q op.Query) (op.Page, error) {
	switch {
	case q.PK == "":
		return op.Page{}, fmt.Errorf("embed: query of %q without a partition key", q.Index)
	case q.Limit < 0:
		return op.Page{}, fmt.Errorf("embed: query with limit %d", q.Limit)
	case q.Index != op.IndexNone && q.Consistent:
		return op.Page{}, fmt.Errorf("embed: a consistent query of index %q", q.Index)
	case q.Index != op.IndexNone && !slices.Contains(op.Indexes(), q.Index):
		return op.Page{}, fmt.Errorf("embed: no index %q", q.Index)
	}
	// Both ends are exclusive. A bound without pk and sk lies before all rows of
	// its sort key (no key is empty), and nothing lies between s and s+"\x00".
	low, high := place{sort: q.From}, place{above, above, above}
	if q.To != "" {
		high = place{sort: q.To + "\x00"}
	}
	if q.Cursor != "" {
		at, begun, err := decodeCursor(q)
		if err != nil {
			return op.Page{}, err
		}
		if begun && (at.sort < q.From || (q.To != "" && at.sort > q.To)) {
			return op.Page{}, fmt.Errorf("%w: outside the query's range", op.ErrBadCursor)
		}
		switch {
		case begun && q.Descending:
			high = at
		case begun:
			low = at
		}
	}
	limit := q.Limit
	if t.faults.draw.hit(t.faults.EmptyPages) {
		if q.Cursor == "" {
			q.Cursor = encodeCursor(q, nil)
		}
		return op.Page{Cursor: q.Cursor}, nil
	}
	if t.faults.draw.hit(t.faults.ShortPages) {
		limit = 1
	}
	old, release := t.staleQuery(q)
	defer release()

	page := pager{q: q, limit: limit}
	var err error
	if old == nil {
		err = t.rows(ctx, q, low, high, limit, page.add)
	} else {
		err = t.oldRows(ctx, q, low, high, old, page.add)
	}
	if err != nil {
		return op.Page{}, unavailable("query", err)
	}
	return page.page, nil
}

// pager fills a page up to its limits.
type pager struct {
	q     op.Query
	limit int
	bytes int
	last  place
	page  op.Page
}

func (p *pager) add(at place, row op.Row) bool {
	p.bytes += op.Size(row.Key, row.Item)
	if p.bytes > maxPageBytes && len(p.page.Rows) > 0 {
		p.page.Cursor = encodeCursor(p.q, &p.last)
		return false
	}
	p.page.Rows = append(p.page.Rows, row)
	p.last = at
	if len(p.page.Rows) == p.limit {
		// Like DynamoDB: a full page has a cursor even if nothing follows.
		p.page.Cursor = encodeCursor(p.q, &p.last)
		return false
	}
	return true
}

// rows yields the rows strictly between low and high in the query's order.
func (t *Table) rows(ctx context.Context, q op.Query, low, high place, limit int, yield func(place, op.Row) bool) error {
	if limit == 0 {
		limit = math.MaxInt32
	}
	if q.Index == op.IndexNone {
		return t.itemRows(ctx, q, low, high, limit, yield)
	}
	stmt := t.indexUp
	if q.Descending {
		stmt = t.indexDown
	}
	ipk, isk := q.Index.Keys()
	rows, err := stmt.QueryContext(ctx, slices.Index(op.Indexes(), q.Index), []byte(q.PK),
		[]byte(low.sort), []byte(low.pk), []byte(low.sk), []byte(high.sort), []byte(high.pk), []byte(high.sk), limit)
	if err != nil {
		return err
	}
	defer rows.Close()
	var sort, pk, sk sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&sort, &pk, &sk); err != nil {
			return err
		}
		at := place{string(sort), string(pk), string(sk)}
		row := op.Row{Key: op.Key{PK: at.pk, SK: at.sk}, Item: op.Item{ipk: op.S(q.PK), isk: op.S(at.sort)}}
		if !yield(at, row) {
			return nil
		}
	}
	return rows.Err()
}

func (t *Table) itemRows(ctx context.Context, q op.Query, low, high place, limit int, yield func(place, op.Row) bool) error {
	stmt := t.itemsUp
	if q.Descending {
		stmt = t.itemsDown
	}
	from := low.sort
	if low.sk != "" { // a place after a row, not a bound
		from += "\x00"
	}
	rows, err := stmt.QueryContext(ctx, []byte(q.PK), []byte(from), []byte(high.sort), limit)
	if err != nil {
		return err
	}
	defer rows.Close()
	var sk, raw sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&sk, &raw); err != nil {
			return err
		}
		item, err := decodeItem(raw)
		if err != nil {
			return err
		}
		key := op.Key{PK: q.PK, SK: string(sk)}
		if !yield(place{sort: key.SK, sk: key.SK}, op.Row{Key: key, Item: item}) {
			return nil
		}
	}
	return rows.Err()
}

// oldRows is rows for a state in which the items in old are as given there.
func (t *Table) oldRows(ctx context.Context, q op.Query, low, high place, old map[op.Key]op.Item, yield func(place, op.Row) bool) error {
	type placed struct {
		at  place
		row op.Row
	}
	var all []placed
	err := t.rows(ctx, q, low, high, 0, func(at place, row op.Row) bool {
		if _, changed := old[row.Key]; !changed {
			all = append(all, placed{at, row})
		}
		return true
	})
	if err != nil {
		return err
	}
	ipk, isk := q.Index.Keys()
	for key, item := range old {
		p := placed{place{sort: key.SK, sk: key.SK}, op.Row{Key: key, Item: item.Clone()}}
		in := item != nil && key.PK == q.PK
		if q.Index != op.IndexNone {
			var entry op.Key
			entry, in = entryOf(q.Index, item)
			in = in && entry.PK == q.PK
			p = placed{place{entry.SK, key.PK, key.SK}, op.Row{Key: key, Item: op.Item{ipk: op.S(entry.PK), isk: op.S(entry.SK)}}}
		}
		if in && p.at.compare(low) > 0 && p.at.compare(high) < 0 {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b placed) int {
		if q.Descending {
			a, b = b, a
		}
		return a.at.compare(b.at)
	})
	for _, p := range all {
		if !yield(p.at, p.row) {
			return nil
		}
	}
	return nil
}

// A cursor holds the query's index and partition and the place of the last row
// given (none when a page before the first row was empty).
const cursorVersion = 1

func encodeCursor(q op.Query, at *place) string {
	out := []byte{cursorVersion}
	out = appendString(out, string(q.Index))
	out = appendString(out, q.PK)
	if at != nil {
		out = appendString(out, at.sort)
		out = appendString(out, at.pk)
		out = appendString(out, at.sk)
	}
	return base64.RawURLEncoding.EncodeToString(out)
}

func decodeCursor(q op.Query) (at place, begun bool, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil {
		return place{}, false, fmt.Errorf("%w: %w", op.ErrBadCursor, err)
	}
	d := decoder{rest: raw}
	if version := d.byte(); d.err != nil || version != cursorVersion {
		return place{}, false, fmt.Errorf("%w: version", op.ErrBadCursor)
	}
	if index, pk := d.string(), d.string(); d.err != nil || index != string(q.Index) || pk != q.PK {
		return place{}, false, fmt.Errorf("%w: made by another query", op.ErrBadCursor)
	}
	if len(d.rest) == 0 {
		return place{}, false, nil
	}
	at = place{d.string(), d.string(), d.string()}
	if d.err != nil || len(d.rest) > 0 || at.sort == "" || at.sk == "" {
		return place{}, false, fmt.Errorf("%w: garbled", op.ErrBadCursor)
	}
	return at, true, nil
}

// Scan calls yield for every item whose partition key begins with prefix ("" is
// all), in the order of the keys, until it returns false. It sees one state of
// the whole table: what tests and metrics sum up over it is consistent.
func (t *Table) Scan(ctx context.Context, prefix string, yield func(op.Row) bool) error {
	rows, err := t.scan.QueryContext(ctx, []byte(prefix), []byte(prefix+above))
	if err != nil {
		return unavailable("scan", err)
	}
	defer rows.Close()
	var pk, sk, raw sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&pk, &sk, &raw); err != nil {
			return unavailable("scan", err)
		}
		item, err := decodeItem(raw)
		if err != nil {
			return unavailable("scan", err)
		}
		if !yield(op.Row{Key: op.Key{PK: string(pk), SK: string(sk)}, Item: item}) {
			return nil
		}
	}
	if err := rows.Err(); err != nil {
		return unavailable("scan", err)
	}
	return nil
}

package differential

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// To see one sequence again: -first N -seeds 1.
var (
	first = flag.Uint64("first", 0, "first seed of the sequences")
	seeds = flag.Uint64("seeds", 10_000, "number of sequences in the process")
)

const steps = 20

const unavailable = "unavailable: "

func showItem(it op.Item) string {
	if it == nil {
		return "none"
	}
	var b strings.Builder
	for _, a := range it.Attrs() {
		fmt.Fprintf(&b, " %s=%s", a, it[a])
	}
	return "{" + strings.TrimSpace(b.String()) + "}"
}

// showErr says what a caller can tell from an error: which conditions failed
// and what they met, or of which kind it is.
func showErr(err error) string {
	if ce := op.FailedCond(err); ce != nil {
		slices.SortFunc(ce.Failed, func(a, b op.CondFailure) int { return a.Write - b.Write })
		text := ce.Name + " failed:"
		for _, f := range ce.Failed {
			text += fmt.Sprintf(" %d met %s;", f.Write, showItem(f.Item))
		}
		return text
	}
	if op.IsUnavailable(err) {
		return unavailable + err.Error()
	}
	return "fault of the caller: " + err.Error()
}

// run performs a step and tells all that it showed.
func run(ctx context.Context, table op.Table, s step) string {
	var (
		text string
		err  error
	)
	switch {
	case s.write != nil:
		var it op.Item
		it, err = table.Write(ctx, *s.write)
		text = showItem(it)
	case s.tx != nil:
		err = table.Transact(ctx, *s.tx)
	case s.get != nil:
		var it op.Item
		it, err = table.Get(ctx, *s.get, true)
		text = showItem(it)
	case s.query != nil:
		text, err = runQuery(ctx, table, *s.query)
	default:
		var items []op.Item
		items, err = table.BatchGet(ctx, s.batch, true)
		for _, it := range items {
			text += showItem(it) + " "
		}
	}
	if err != nil {
		return showErr(err)
	}
	return text
}

// runQuery reads all pages. Where one ends is the engine's affair, except that
// none is longer than the limit. Rows of an index with the same sort key come
// in any order ("Global secondary indexes": no particular order), so these are
// sorted before the comparison.
func runQuery(ctx context.Context, table op.Table, q op.Query) (string, error) {
	_, sk := q.Index.Keys()
	sortOf := func(r op.Row) string {
		if q.Index == op.IndexNone {
			return r.Key.SK
		}
		return r.Item.Str(sk)
	}
	var rows []op.Row
	for pages := 0; ; pages++ {
		page, err := table.Query(ctx, q)
		if err != nil {
			return "", err
		}
		if q.Limit > 0 && len(page.Rows) > q.Limit {
			return "", fmt.Errorf("a page of %d rows, the limit is %d", len(page.Rows), q.Limit)
		}
		if rows = append(rows, page.Rows...); page.Cursor == "" {
			break
		}
		if q.Cursor = page.Cursor; pages > 100 {
			return "", fmt.Errorf("the query does not end")
		}
	}
	inOrder := slices.IsSortedFunc(rows, func(a, b op.Row) int {
		order := strings.Compare(sortOf(a), sortOf(b))
		if q.Descending {
			return -order
		}
		return order
	})
	if !inOrder {
		return "", fmt.Errorf("rows out of order: %v", rows)
	}
	slices.SortFunc(rows, func(a, b op.Row) int {
		return strings.Compare(sortOf(a)+"\x00"+a.Key.PK+"\x00"+a.Key.SK, sortOf(b)+"\x00"+b.Key.PK+"\x00"+b.Key.SK)
	})
	text := fmt.Sprintf("%d rows", len(rows))
	for _, r := range rows {
		text += fmt.Sprintf("\n      %s/%s %s", r.Key.PK, r.Key.SK, showItem(r.Item))
	}
	return text, nil
}

// tally counts what the sequences met, to show that they meet something.
type tally map[string]int

func (n tally) note(s step, shown string) {
	kind := "read"
	switch {
	case s.write != nil:
		kind = "write"
	case s.tx != nil:
		kind = "transaction"
	case s.query != nil:
		kind = "query"
	}
	switch {
	case strings.Contains(shown, " failed:"):
		kind += " refused"
		if strings.Count(shown, " met ") > 1 {
			n["several conditions failed"]++
		}
	case s.query != nil && shown == "0 rows":
		kind += " empty"
	case s.query != nil:
		kind += " " + string(s.query.Index)
	}
	n[kind]++
}

// verdict is what a comparison came to.
type verdict int

const (
	same verdict = iota
	different
	unknown // the store did not answer: nobody knows what it holds now
)

// compare runs the sequence of a seed on both tables and fails at the first
// difference.
func compare(t *testing.T, seed uint64, embedded, dynamo op.Table, prefix string, e engine, count tally) verdict {
	t.Helper()
	g := newGen(seed, prefix, e)
	type past struct {
		step  step
		shown string
	}
	var done []past
	do := func(s step) verdict {
		a, b := run(t.Context(), embedded, s), run(t.Context(), dynamo, s)
		if strings.HasPrefix(b, unavailable) {
			t.Logf("seed %d: %s", seed, b)
			return unknown
		}
		if count != nil {
			count.note(s, a)
		}
		bothFault := strings.HasPrefix(a, "fault of the caller") && strings.HasPrefix(b, "fault of the caller")
		if a != b && !bothFault {
			var before strings.Builder
			for _, p := range done {
				fmt.Fprintf(&before, "\n  %s → %s", p.step, p.shown)
			}
			t.Errorf("seed %d differs after%s\nat %s\n  embedded: %s\n  dynamodb: %s", seed, &before, s, a, b)
			return different
		}
		done = append(done, past{s, a})
		return same
	}
	for n := range steps {
		if v := do(g.step(n)); v != same {
			return v
		}
	}
	for _, s := range g.rest() {
		if v := do(s); v != same {
			return v
		}
	}
	return same
}

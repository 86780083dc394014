package plan

import (
	"path"
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// queries says whether a function may query a partition of the table itself.
func (f Function) queries(table, pk string) bool {
	return slices.ContainsFunc(f.Statements, func(s Statement) bool {
		return !s.Deny && slices.Contains(s.Actions, "dynamodb:Query") && slices.Contains(s.Resources, TableARN(table)) &&
			(len(s.LeadingKeys) == 0 || slices.ContainsFunc(s.LeadingKeys, func(like string) bool { ok, _ := path.Match(like, pk); return ok }))
	})
}

// TestWhoEndsTasksMayReadTheirChains: cancels, ends of attempts, expiries and tasks that cannot be
// delivered pass the turn of an ordering key on (chain.Ended), for which its entries are queried in the
// table: a function that may not do so leaves the key to the aggregator's visits, or fails for good.
// Workers and redrive read nothing else of the table by query.
func TestWhoEndsTasksMayReadTheirChains(t *testing.T) {
	p := load(t, "dev")
	table, entries := p.Env.Table(), taskop.ChainEntries("alpha", "order-1", 1).PK
	all := []Function{p.Admission, p.Aggregator}
	narrow := []Function{}
	if p.Redrive != nil {
		narrow = append(narrow, *p.Redrive)
	}
	for _, l := range p.Lanes {
		narrow = append(narrow, l.Worker)
	}
	if len(narrow) != 1+len(p.Lanes) {
		t.Fatalf("%d functions beside the admission and the aggregator", len(narrow))
	}
	for _, f := range append(all, narrow...) {
		if !f.queries(table, entries) {
			t.Errorf("%s may not query %s: %v", f.Name, entries, f.Statements)
		}
	}
	for _, f := range narrow {
		for _, pk := range []string{taskop.RowPartition("alpha", 0), taskop.TenantKey("alpha").PK, taskop.LedgerKey("alpha").PK} {
			if f.queries(table, pk) {
				t.Errorf("%s may query %s", f.Name, pk)
			}
		}
	}
}

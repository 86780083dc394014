package simtest

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

// forgotten is a change that every write of a name leaves out.
type forgotten struct{ write, attr string }

func (f forgotten) String() string { return f.write + " forgets " + f.attr }

func (f forgotten) apply(w op.Write) op.Write {
	if w.Name != f.write {
		return w
	}
	w.Changes = slices.DeleteFunc(slices.Clone(w.Changes), func(c op.Change) bool { return family(c.Attr) == f.attr })
	return w
}

// family is an attribute's name without the lane or task that it is of.
func family(attr string) string {
	if i := strings.IndexByte(attr, '#'); i > 0 {
		return attr[:i+1]
	}
	return attr
}

// inOrderOf says whether the attribute carries ordering keys, tags, or a place in the order.
func inOrderOf(w op.Write, attr string) bool {
	switch {
	case strings.HasPrefix(w.Key.PK, chainPrefix):
		return true
	case strings.HasPrefix(w.Key.PK, "T#"):
		return slices.Contains([]string{"rk", "rs", "hd", "os", "tg", "ts", "tc", "lw"}, attr)
	}
	return attr == "f#" || attr == "v"
}

// forgettable are the changes of ordering keys, tags and places that simulated runs make.
func forgettable(t *testing.T, cfg *policy.Config) (all []forgotten) {
	seen := map[forgotten]bool{}
	saw := func(w op.Write, met op.Item) {
		for _, c := range w.Changes {
			was := met[c.Attr]
			if c.Verb == op.VerbSet && (was == c.Value || !met.Has(c.Attr) && c.Value == op.N(0)) || c.Verb == op.VerbRemove && !met.Has(c.Attr) {
				continue // it changes nothing
			}
			if f := (forgotten{w.Name, family(c.Attr)}); inOrderOf(w, f.attr) {
				seen[f] = true
			}
		}
	}
	for _, s := range Scenarios() {
		Run(t, Options{Seed: 1, Config: cfg, Saw: saw}, s.Script)
	}
	for _, c := range Cases() {
		o := c.Options()
		o.Config, o.Saw = cfg, saw
		Run(t, o, c.Script)
	}
	for f := range seen {
		all = append(all, f)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].String() < all[j].String() })
	return all
}

// TestForgottenChanges leaves one change of ordering keys, tags or places out at a
// time; some run must notice.
func TestForgottenChanges(t *testing.T) {
	cfg, err := Config()
	if err != nil {
		t.Fatal(err)
	}
	var chosen []forgotten
	for i, f := range forgettable(t, cfg) {
		if *mutantFlag != "" && strings.Contains(f.String(), *mutantFlag) || *mutantFlag == "" && (*mutantsFlag || i%10 == 7) {
			chosen = append(chosen, f)
		}
	}
	var mu sync.Mutex
	dead := 0
	inParallel(t, len(chosen), func(t *testing.T, i int) bool {
		how := noticed(t, cfg, chosen[i].apply)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case how == "":
			t.Errorf("survivor: %v", chosen[i])
		case *mutantFlag != "":
			fmt.Printf("%v: %s\n", chosen[i], how)
			fallthrough
		default:
			dead++
		}
		return true
	})
	fmt.Printf("mutants of changes: %d of %d killed\n", dead, len(chosen))
}

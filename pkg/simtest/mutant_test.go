package simtest

import (
	"flag"
	"fmt"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

var (
	mutantsFlag = flag.Bool("mutants", false, "try every mutant, not only a few")
	mutantFlag  = flag.String("mutant", "", "try the mutants whose names contain this")
)

// catalogue finds every condition term of every write that scenarios and
// histories make.
func catalogue(t *testing.T, cfg *policy.Config) []Mutant {
	var mu sync.Mutex
	seen := map[Mutant]bool{}
	record := func(w op.Write) op.Write {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range Mutants(w) {
			seen[m] = true
		}
		return w
	}
	for _, s := range Scenarios() {
		Run(t, Options{Seed: 1, Config: cfg, Mutate: record}, s.Script)
	}
	for seed := range uint64(200) {
		o, shape := Draw(seed)
		o.Config, o.Mutate = cfg, record
		Run(t, o, History(shape))
	}
	var out []Mutant
	for m := range seen {
		out = append(out, m)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].String() < out[j].String() })
	return out
}

// killed looks for a run in which the mutant breaks a promise.
func killed(t *testing.T, cfg *policy.Config, m Mutant) (how string) {
	for _, s := range Scenarios() {
		res := Run(t, Options{Seed: 1, Config: cfg, Mutate: m.Apply, Strict: true}, s.Script)
		if len(res.Violations) > 0 {
			return s.Name + ": " + res.Violations[0]
		}
	}
	for seed := range uint64(250) {
		o, shape := Draw(seed)
		o.Config, o.Mutate = cfg, m.Apply
		if res := Run(t, o, History(shape)); len(res.Violations) > 0 {
			return fmt.Sprintf("history %d: %s", seed, res.Violations[0])
		}
	}
	return ""
}

// TestMutants leaves one condition term out at a time; somebody must notice.
func TestMutants(t *testing.T) {
	cfg, err := Config()
	if err != nil {
		t.Fatal(err)
	}
	all := catalogue(t, cfg)
	var chosen []Mutant
	for i, m := range all {
		if *mutantFlag != "" && strings.Contains(m.String(), *mutantFlag) || *mutantFlag == "" && (*mutantsFlag || i%20 == 7) {
			chosen = append(chosen, m)
		}
	}
	var mu sync.Mutex
	dead, at := 0, time.Now()
	inParallel(t, len(chosen), func(t *testing.T, i int) bool {
		how := killed(t, cfg, chosen[i])
		mu.Lock()
		defer mu.Unlock()
		if how == "" {
			t.Errorf("survivor: %v", chosen[i])
		} else {
			dead++
			if *mutantFlag != "" {
				fmt.Printf("%v: %s\n", chosen[i], how)
			}
		}
		if now := time.Now(); now.Sub(at) > 10*time.Second {
			at = now
			fmt.Printf("mutants: … %d of %d killed\n", dead, len(chosen))
		}
		return true
	})
	fmt.Printf("mutants: %d of %d killed\n", dead, len(chosen))
}

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
	simulated   = flag.Bool("simulated", false, "do not count what only the rules notice")
	tries       = flag.Int("tries", 100, "histories per mutant that the rules do not notice")
	mutantFlag  = flag.String("mutant", "", "try the mutants whose names contain this")
)

var (
	once      sync.Once
	terms     []Mutant
	witnesses []Sample
)

// catalogue finds every condition term of every write that scenarios and
// histories make, and samples of the writes.
func catalogue(t *testing.T, cfg *policy.Config) ([]Mutant, []Sample) {
	once.Do(func() { terms, witnesses = collect(t, cfg) })
	return terms, witnesses
}

func collect(t *testing.T, cfg *policy.Config) (mutants []Mutant, samples []Sample) {
	seen, kinds := map[Mutant]bool{}, map[string]int{}
	saw := func(w op.Write, met op.Item) {
		for _, m := range Mutants(w) {
			seen[m] = true
		}
		kind := w.Name + say(w.Cond)
		for _, attr := range met.Attrs() {
			kind += " " + strings.SplitAfter(attr, "#")[0]
		}
		if kinds[kind]++; kinds[kind] <= 2 && w.Cond != nil {
			samples = append(samples, Sample{w, met})
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
	for seed := range uint64(400) {
		o, shape := Draw(seed)
		o.Config, o.Saw = cfg, saw
		Run(t, o, History(shape))
	}
	for m := range seen {
		mutants = append(mutants, m)
	}
	sort.Slice(mutants, func(i, j int) bool { return mutants[i].String() < mutants[j].String() })
	return mutants, samples
}

// TestRules holds the operations to their contract, and every rule to having
// something to say.
func TestRules(t *testing.T) {
	cfg, err := Config()
	if err != nil {
		t.Fatal(err)
	}
	_, samples := catalogue(t, cfg)
	for _, r := range Rules(cfg) {
		n, broken := 0, map[string]bool{}
		for i := range samples {
			s := &samples[i]
			it := s.Met.Clone()
			if it == nil {
				it = op.Item{}
			}
			if r.concerns(s.Write.Name) && r.Change(s, it) {
				n++
				if how := r.Broken(s, s.Write.Cond); how != "" && !broken[how] {
					broken[how] = true
					t.Errorf("%s\n\t%s\n\ton %v", how, say(s.Write.Cond), s.Met)
				}
			}
		}
		if n == 0 {
			t.Errorf("the rule %q (%s) met no write", r.Why, r.Writes)
		}
	}
}

// noticed looks for a run in which a mutant of the writes breaks a promise.
func noticed(t *testing.T, cfg *policy.Config, mutate func(op.Write) op.Write) (how string) {
	for _, s := range Scenarios() {
		res := Run(t, Options{Seed: 1, Config: cfg, Mutate: mutate, Strict: true}, s.Script)
		if len(res.Violations) > 0 {
			return s.Name + ": " + res.Violations[0]
		}
	}
	for _, c := range Cases() {
		o := c.Options()
		o.Config, o.Mutate = cfg, mutate
		if broken := c.Broken(Run(t, o, c.Script)); len(broken) > 0 {
			return c.Name + ": " + broken[0]
		}
	}
	for seed := range uint64(*tries) {
		o, shape := Draw(seed)
		o.Config, o.Mutate = cfg, mutate
		if res := Run(t, o, History(shape)); len(res.Violations) > 0 {
			return fmt.Sprintf("history %d: %s", seed, res.Violations[0])
		}
	}
	return ""
}

// against looks for a rule that the mutant breaks.
func against(rules []Rule, samples []Sample, m Mutant) string {
	for i := range samples {
		s := &samples[i]
		if s.Write.Name != m.Write {
			continue
		}
		cond := m.Apply(s.Write).Cond
		for j := range rules {
			if how := rules[j].Broken(s, cond); how != "" {
				return how
			}
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
	all, samples := catalogue(t, cfg)
	rules := Rules(cfg)
	var chosen []Mutant
	for i, m := range all {
		if *mutantFlag != "" && strings.Contains(m.String(), *mutantFlag) || *mutantFlag == "" && (*mutantsFlag || i%10 == 7) {
			chosen = append(chosen, m)
		}
	}
	var mu sync.Mutex
	dead, byRun, at := 0, 0, time.Now()
	inParallel(t, len(chosen), func(t *testing.T, i int) bool {
		rule := against(rules, samples, chosen[i])
		how := rule
		if rule == "" || *simulated {
			how = noticed(t, cfg, chosen[i].Apply)
		}
		mu.Lock()
		if rule == "" && how != "" || *simulated && how != "" {
			byRun++
		}
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
	if *simulated {
		fmt.Printf("mutants: %d of %d killed by simulated runs alone\n", byRun, len(chosen))
		return
	}
	fmt.Printf("mutants: %d of %d killed\n", dead, len(chosen))
}

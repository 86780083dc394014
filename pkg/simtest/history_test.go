package simtest

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	seedsFlag   = flag.Int("seeds", 300, "how many random histories to run")
	firstFlag   = flag.Uint64("first", 1, "the first seed")
	seedFlag    = flag.Uint64("seed", 0, "run this one history and print its trace")
	hastyFlag   = flag.Bool("hasty", false, "end with the first history that fails, as it is")
	minutesFlag = flag.Float64("minutes", 0, "go on with new seeds for so long")
)

// underRace: the race detector looks on.
var underRace bool

func TestMain(m *testing.M) {
	flag.Parse()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // services log every injected fault
	os.Exit(m.Run())
}

// progress prints a line every ten seconds, and one at the end.
type progress struct {
	sync.Mutex
	name       string
	began, at  time.Time
	seeds, ops int
	bad        int
	played     Played

	dead, given, kept int
}

func (p *progress) add(res Result, failed bool) {
	p.Lock()
	defer p.Unlock()
	p.seeds, p.ops = p.seeds+1, p.ops+res.Calls
	p.played.add(res.Played)
	p.dead, p.given, p.kept = p.dead+res.Dead, p.given+res.Given, p.kept+res.Kept
	if failed {
		p.bad++
	}
	if now := time.Now(); now.Sub(p.at) > 10*time.Second {
		p.at = now
		fmt.Printf("%s: … %d seeds, %d operations, %d violations after %v\n", p.name, p.seeds, p.ops, p.bad, now.Sub(p.began).Round(time.Second))
	}
}

// TestHistories runs random histories with all faults on; see Draw.
func TestHistories(t *testing.T) {
	cfg, err := Config()
	if err != nil {
		t.Fatal(err)
	}
	if *seedFlag != 0 {
		o, shape := Draw(*seedFlag)
		o.Config, o.Trace = cfg, true
		res := Run(t, o, History(shape))
		fmt.Println(strings.Join(res.Trace, "\n"))
		if len(res.Violations) > 0 {
			t.Errorf("seed %d, %+v, %+v:\n\t%s", o.Seed, shape, o.Faults, strings.Join(res.Violations, "\n\t"))
		}
		return
	}
	n := *seedsFlag
	p := &progress{name: "histories", began: time.Now(), at: time.Now()}
	if underRace {
		p.name = "race"
	}
	var until time.Time
	if *minutesFlag > 0 {
		n, until, p.name = 1<<40, p.began.Add(time.Duration(*minutesFlag*float64(time.Minute))), "soak"
	}
	inParallel(t, n, func(t *testing.T, i int) bool {
		o, shape := Draw(*firstFlag + uint64(i))
		o.Config = cfg
		res := Run(t, o, History(shape))
		failed := len(res.Violations) > 0
		p.add(res, failed)
		if failed {
			if !*hastyFlag {
				o, shape, res = Shrink(t, o, shape)
			}
			t.Errorf("seed %d fails, at the least with %+v and %+v:\n\t%s", o.Seed, shape, o.Faults, strings.Join(res.Violations, "\n\t"))
		}
		return (until.IsZero() || time.Now().Before(until)) && !(failed && *hastyFlag)
	})
	if p.seeds >= complete && !p.played.complete() {
		t.Errorf("in %d histories something never happened: %+v", p.seeds, p.played)
	}
	fmt.Printf("%s: among it %+v\n", p.name, p.played)
	fmt.Printf("%s: dead letters: %d wake-ups counted, %d tasks given up, %d bodies kept\n", p.name, p.dead, p.given, p.kept)
	if n >= 300 && (p.dead == 0 || p.given == 0 || p.kept == 0) {
		t.Error("no history came to what dead letters are about")
	}
	fmt.Printf("%s: %d seeds, %d operations, %d violations\n", p.name, p.seeds, p.ops, p.bad)
}

// complete is from how many histories on all of Played has to happen.
const complete = 2000

// TestReplay: a run is a function of its seed, to the nanosecond.
func TestReplay(t *testing.T) {
	cfg, err := Config()
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(60) {
		o, shape := Draw(seed)
		o.Config, o.Trace = cfg, true
		a, b := Run(t, o, History(shape)), Run(t, o, History(shape))
		for i := range max(len(a.Trace), len(b.Trace)) {
			if i >= len(a.Trace) || i >= len(b.Trace) || a.Trace[i] != b.Trace[i] {
				t.Fatalf("seed %d differs at line %d of %d and %d", seed, i, len(a.Trace), len(b.Trace))
			}
		}
	}
}

// TestHarnessSeesABrokenStore: a check that cannot fail is none. Losing what a
// release of work does to ledgers must be noticed.
func TestHarnessSeesABrokenStore(t *testing.T) {
	cfg, err := Config()
	if err != nil {
		t.Fatal(err)
	}
	res := Run(t, Options{Seed: 1, Config: cfg, Mutate: forget("claim.ledger", "active")}, alone(time.Second, one("quick", work{Do: "ok"})))
	if len(res.Violations) == 0 {
		t.Error("a claim that does not count the attempt went unnoticed")
	}
}

package simtest

import (
	"flag"
	"log/slog"
	"os"
	"strings"
	"testing"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run this one history, with its trace")
	seedsFlag = flag.Int("seeds", 50, "how many histories to run")
	firstFlag = flag.Uint64("first", 1, "the first seed")
)

func TestMain(m *testing.M) {
	flag.Parse()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

func TestHistories(t *testing.T) {
	cfg, err := Config()
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for i := range uint64(*seedsFlag) {
		seed := *firstFlag + i
		o := Options{Seed: seed, Config: cfg, Faults: AllFaults()}
		if *seedFlag != 0 {
			o.Seed, o.Trace = *seedFlag, true
		}
		if o.Seed%2 == 1 {
			o.Faults, o.Strict = o.Faults.Prompt(), true
		}
		res := Run(t, o, History(Shape{Clients: 3, Steps: 6}))
		calls += res.Calls
		if *seedFlag != 0 {
			t.Log("\n" + strings.Join(res.Trace, "\n"))
		}
		if len(res.Violations) > 0 {
			t.Errorf("seed %d: %s", o.Seed, strings.Join(res.Violations, "\n\t"))
		}
		if *seedFlag != 0 {
			t.Logf("%+v", res.Ends)
			break
		}
	}
	t.Logf("%d calls", calls)
}

// TestReplay: a run is a function of its seed, to the nanosecond.
func TestReplay(t *testing.T) {
	cfg, err := Config()
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(40) {
		o := Options{Seed: seed, Config: cfg, Faults: AllFaults(), Trace: true}
		a, b := Run(t, o, History(Shape{Clients: 3, Steps: 6})), Run(t, o, History(Shape{Clients: 3, Steps: 6}))
		for i := range min(len(a.Trace), len(b.Trace)) {
			if a.Trace[i] != b.Trace[i] {
				t.Fatalf("seed %d differs at line %d:\n%s\n%s", seed, i, a.Trace[i], b.Trace[i])
			}
		}
	}
}

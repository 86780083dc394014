package differential

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/lanekeeper/lanekeeper/localstack/differential/emulator"
	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/pkg/dynamo"
	"github.com/lanekeeper/lanekeeper/pkg/op"
)

var inProcess = engine{oneKind: true}

func openEmbedded(t *testing.T) op.Table {
	t.Helper()
	db, err := embed.Open(filepath.Join(t.TempDir(), "table.db"), embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db.Table()
}

func openEmulated(t *testing.T) op.Table {
	t.Helper()
	api, err := emulator.New("tasks")
	if err != nil {
		t.Fatal(err)
	}
	return dynamo.New(api, "tasks", dynamo.Options{})
}

// TestInProcess compares 10,000 sequences of 20 steps.
func TestInProcess(t *testing.T) {
	const parts = 4
	for part := range uint64(parts) {
		t.Run(fmt.Sprint("part ", part), func(t *testing.T) {
			t.Parallel()
			embedded, count := openEmbedded(t), tally{}
			for seed := *first + part; seed < *first+*seeds; seed += parts {
				if v := compare(t, seed, embedded, openEmulated(t), fmt.Sprintf("%d#", seed), inProcess, count); v != same {
					t.Fatalf("seed %d: verdict %d", seed, v)
				}
			}
			t.Log(count)
			if *seeds < 1000 {
				return
			}
			for _, kind := range []string{"write", "write refused", "transaction", "transaction refused", "several conditions failed", "query due", "query ready", "query "} {
				if count[kind] < 40 {
					t.Errorf("only %d times: %s", count[kind], kind)
				}
			}
		})
	}
}

// A comparison that cannot fail would be worth nothing: each of these tables
// is wrong in one way, which few sequences must show.
func TestDifferencesAreSeen(t *testing.T) {
	for name, wrong := range map[string]func(op.Table) op.Table{
		"forgets a removal":             func(t op.Table) op.Table { return forgetful{t} },
		"ignores every tenth condition": func(t op.Table) op.Table { return &lenient{Table: t} },
		"reports the first failure":     func(t op.Table) op.Table { return curt{t} },
	} {
		t.Run(name, func(t *testing.T) {
			embedded := openEmbedded(t)
			for seed := range uint64(200) {
				g := newGen(seed, fmt.Sprintf("%d#", seed), inProcess)
				other := wrong(openEmulated(t))
				for n := range steps {
					s := g.step(n)
					if run(t.Context(), embedded, s) != run(t.Context(), other, s) {
						return
					}
				}
			}
			t.Error("not seen in 200 sequences")
		})
	}
}

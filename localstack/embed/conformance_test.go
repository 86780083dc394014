package embed_test

import (
	"path/filepath"
	"testing"

	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/op/optest"
)

func open(t testing.TB, opts embed.Options) *embed.DB {
	t.Helper()
	db, err := embed.Open(filepath.Join(t.TempDir(), "a file?#%.db"), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestTableConforms(t *testing.T) {
	db := open(t, embed.Options{})
	optest.Exercise(t, func(*testing.T) op.Table { return db.Table() }, optest.Options{})
}

// Reads that lag, short pages and empty pages are within the contract.
func TestTableConformsWithFaults(t *testing.T) {
	db := open(t, embed.Options{Faults: embed.Faults{
		Seed: 1, IndexLag: embed.UpTo(2, 3), ReadLag: embed.UpTo(3, 3), ShortPages: 0.2, EmptyPages: 0.2,
	}})
	optest.Exercise(t, func(*testing.T) op.Table { return db.Table() }, optest.Options{Tries: 500})
}

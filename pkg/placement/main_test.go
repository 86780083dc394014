package placement

import (
	"flag"
	"os"
	"testing"
)

// TestMain raises the number of cases per property: they take microseconds each. The command line's flag wins.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "2000"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

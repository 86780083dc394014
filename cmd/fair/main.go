// Command fair plays loads against the real services on a virtual clock, with the fair order and without, and prints
// the figures side by side with their bounds; then, for four minutes, some of them in real time on the embedded engine,
// as lines that begin with "real" and are not judged. The last line is "fair: N passed, M failed"; the exit code is 0
// only if nothing failed. With -quick it plays only the loads on the virtual clock that take a second or two.
package main

import (
	"flag"
	"os"
	"testing"

	"github.com/lanekeeper/lanekeeper/localstack/fair"
)

func main() {
	quick := flag.Bool("quick", false, "only the loads that take a second or two")
	report := &fair.Report{Out: os.Stdout}
	// The virtual clock belongs to a test, so the program is one.
	play := func(t *testing.T) {
		report.Play(t, *quick)
		if t.Failed() || report.Failed > 0 || report.Passed == 0 {
			os.Exit(1)
		}
		os.Exit(0)
	}
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "fair", F: play}}, nil, nil)
}

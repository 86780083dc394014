package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
)

// The sections, in the order in which they run.
const (
	Decision = "decision" // pure functions
	Handler  = "handler"  // the admission handler, its store stubbed
	Road     = "road"     // HTTP to done on the embedded engine
	Units    = "units"    // HTTP event to done on the DynamoDB adapter, metered
)

// Sections are all of them.
func Sections() []string { return []string{Decision, Handler, Road, Units} }

// Run measures the named sections and prints one table. With Units among them
// it ends with the figures of a task that had to wait and, last, those of one
// that did not.
func Run(ctx context.Context, out io.Writer, sections []string) error {
	dir, err := os.MkdirTemp("", "lanekeeper-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := &report{out: out}
	_, _ = fmt.Fprintf(out, "Lanekeeper bench, %s %s/%s, %d processors; times are this machine's, units are DynamoDB's\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	var decide timing
	for _, section := range sections {
		switch section {
		case Decision:
			decide, err = pureSection(r)
		case Handler:
			err = handlerSection(r, decide)
		case Road:
			err = roadSection(ctx, r, dir)
		case Units:
			err = unitsSection(ctx, r, dir)
		default:
			err = fmt.Errorf("there is no such section; there are %v", Sections())
		}
		if err != nil {
			return fmt.Errorf("bench: %s: %w", section, err)
		}
	}
	return nil
}

package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// report prints one table, section by section, as the figures come in.
type report struct{ out io.Writer }

const rowForm = "  %-44s %-36s %s\n"

func (r *report) section(title string) {
	_, _ = fmt.Fprintf(r.out, "\n%s\n", title)
}

// row is one figure; goal is "" where none is set.
func (r *report) row(what, measured, goal string) {
	_, _ = fmt.Fprintf(r.out, rowForm, what, measured, goal)
}

// text prints lines that are a table of their own.
func (r *report) text(s string) {
	for line := range strings.Lines(s) {
		_, _ = fmt.Fprintf(r.out, "    %s", line)
	}
}

// goal is the text of a goal and whether it was met.
func goal(text string, met bool) string {
	if met {
		return text + ": met"
	}
	return text + ": NOT met"
}

// quantile is the nearest-rank p-quantile of values, 0 < p <= 1; it sorts them.
func quantile(values []time.Duration, p float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[max(int(math.Ceil(p*float64(len(values)))), 1)-1]
}

// spread shows p50 and p99.
func spread(values []time.Duration) string {
	return fmt.Sprintf("p50 %s  p99 %s", short(quantile(values, 0.50)), short(quantile(values, 0.99)))
}

// short rounds a duration to three digits or so.
func short(d time.Duration) string {
	switch {
	case d >= 100*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d >= time.Microsecond:
		return d.Round(10 * time.Nanosecond).String()
	}
	return d.String()
}

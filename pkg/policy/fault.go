package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing wrong with a configuration. Line and Column count from 1; they are 0 where there is no file.
type Fault struct {
	Line, Column int
	Path         string // of the key: lanes.critical.workers.max_concurrency, classes["mail.send"].lane; "" is the whole file
	Message      string
}

// Faults are all that is wrong with a configuration, in order of their place.
type Faults struct {
	Name string // of the file
	List []Fault
}

// Error prints one fault per line: name:line:col: path: message.
func (f *Faults) Error() string {
	var b strings.Builder
	for i, x := range f.List {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(f.Name)
		if x.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", x.Line, x.Column)
		}
		if x.Path != "" {
			b.WriteString(": " + x.Path)
		}
		b.WriteString(": " + x.Message)
	}
	return b.String()
}

// NewFaults sorts faults by place, drops repetitions and names their file. It returns nil for an empty list.
func NewFaults(name string, list []Fault) *Faults {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message))
	})
	return &Faults{Name: name, List: slices.Compact(list)}
}

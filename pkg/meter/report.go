package meter

import (
	"fmt"
	"sort"
	"strings"
)

// Usage is what some requests cost.
type Usage struct {
	Requests   int     // calls of the adapter
	TableWrite float64 // write units of the table
	IndexWrite float64 // write units of the indexes
	Read       float64 // read units
}

// Write is the sum of both kinds of write units.
func (u Usage) Write() float64 { return u.TableWrite + u.IndexWrite }

func (u Usage) plus(v Usage) Usage {
	return Usage{
		Requests: u.Requests + v.Requests, TableWrite: u.TableWrite + v.TableWrite,
		IndexWrite: u.IndexWrite + v.IndexWrite, Read: u.Read + v.Read,
	}
}

// Minus is the usage since an earlier one.
func (u Usage) Minus(v Usage) Usage {
	return u.plus(Usage{Requests: -v.Requests, TableWrite: -v.TableWrite, IndexWrite: -v.IndexWrite, Read: -v.Read})
}

// Report is the usage in total and by the name of the operation.
type Report struct {
	Total  Usage
	ByName map[string]Usage
}

// String is the report as a table, sorted by name, the total last.
func (r Report) String() string {
	names := make([]string, 0, len(r.ByName))
	for n := range r.ByName {
		names = append(names, n)
	}
	sort.Strings(names)
	var b strings.Builder
	line := func(name string, u Usage) {
		fmt.Fprintf(&b, "%-28s %9d %11.1f %11.1f %11.1f\n", name, u.Requests, u.TableWrite, u.IndexWrite, u.Read)
	}
	fmt.Fprintf(&b, "%-28s %9s %11s %11s %11s\n", "operation", "requests", "table WRU", "index WRU", "RRU")
	for _, n := range names {
		line(n, r.ByName[n])
	}
	line("total", r.Total)
	return b.String()
}

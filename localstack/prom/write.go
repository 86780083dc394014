package prom

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// WriteTo writes the set, or reports its faults and writes nothing.
func (s *Set) WriteTo(w io.Writer) (int64, error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	var buf bytes.Buffer
	for _, f := range s.sorted() {
		f.write(&buf)
	}
	return buf.WriteTo(w)
}

func (f *Family) write(buf *bytes.Buffer) {
	if f.Help != "" {
		fmt.Fprintf(buf, "# HELP %s %s\n", f.Name, escapeHelp.Replace(f.Help))
	}
	fmt.Fprintf(buf, "# TYPE %s %s\n", f.Name, f.Type)
	samples := slices.Clone(f.Samples)
	slices.SortStableFunc(samples, f.compare)
	for _, s := range samples {
		fmt.Fprintf(buf, "%s%s %s\n", s.Name, formatLabels(s.Labels), number(s.Value))
	}
}

// compare orders by labels without the type's own, so that one series of a
// histogram or summary stays together in the order it was put in.
func (f *Family) compare(a, b Sample) int {
	return slices.CompareFunc(f.without(a.Labels), f.without(b.Labels), func(x, y Label) int {
		if c := strings.Compare(x.Name, y.Name); c != 0 {
			return c
		}
		return strings.Compare(x.Value, y.Value)
	})
}

func (f *Family) without(labels []Label) []Label {
	own, ok := reserved[f.Type]
	if !ok {
		return labels
	}
	return slices.DeleteFunc(slices.Clone(labels), func(l Label) bool { return l.Name == own })
}

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeValue = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

func formatLabels(labels []Label) string {
	if len(labels) == 0 {
		return ""
	}
	var b strings.Builder
	for i, l := range labels {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(l.Name)
		b.WriteString(`="`)
		b.WriteString(escapeValue.Replace(strings.ToValidUTF8(l.Value, "\ufffd")))
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

// number is Go's shortest form, with the format's names of the infinities.
func number(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.FormatFloat(v, 'f', -1, 64) // 1000000, not 1e+06: kinder to eyes
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Handler answers GET with the set that collect fills for each scrape, 500 with
// the faults when it cannot.
func Handler(collect func(r *http.Request, s *Set) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		var s Set
		var buf bytes.Buffer
		err := collect(r, &s)
		if err == nil {
			_, err = s.WriteTo(&buf)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", ContentType)
		_, _ = buf.WriteTo(w) // a scraper that went away is no fault of ours
	})
}

package prom

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// Type is a family's type.
type Type string

// The types of the format.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
	Summary   Type = "summary"
	Untyped   Type = "untyped"
)

// ContentType is the media type of the format.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Label is one dimension of a series.
type Label struct{ Name, Value string }

// L makes labels from names and values in turn. It panics on an odd count, which
// is a fault of the source text.
func L(namesAndValues ...string) []Label {
	if len(namesAndValues)%2 != 0 {
		panic("prom: a label without a value")
	}
	out := make([]Label, 0, len(namesAndValues)/2)
	for pair := range slices.Chunk(namesAndValues, 2) {
		out = append(out, Label{pair[0], pair[1]})
	}
	return out
}

// Sample is one line: a name (the family's, perhaps with _bucket, _sum or
// _count), labels sorted by name, and a value.
type Sample struct {
	Name   string
	Labels []Label
	Value  float64
}

// key identifies the series.
func (s Sample) key() string {
	var b strings.Builder
	b.WriteString(s.Name)
	for _, l := range s.Labels {
		fmt.Fprintf(&b, "\x00%s\x00%s", l.Name, l.Value)
	}
	return b.String()
}

// Family is a metric: all samples under one HELP and TYPE.
type Family struct {
	Name    string
	Help    string
	Type    Type
	Samples []Sample

	set *Set
}

// Set collects the families of one scrape. The zero value is ready for use. Not
// safe for concurrent use.
type Set struct {
	families map[string]*Family
	faults   []error
}

func (s *Set) fault(format string, a ...any) {
	s.faults = append(s.faults, fmt.Errorf("prom: "+format, a...))
}

var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// Family declares a metric, or returns the one declared by that name before.
// Another type or help than before is a fault.
func (s *Set) Family(name string, typ Type, help string) *Family {
	if f, ok := s.families[name]; ok {
		if f.Type != typ || f.Help != help {
			s.fault("%s is declared twice, differently", name)
		}
		return f
	}
	if !metricName.MatchString(name) {
		s.fault("%q is no metric name", name)
	}
	if s.families == nil {
		s.families = map[string]*Family{}
	}
	f := &Family{Name: name, Help: help, Type: typ, set: s}
	s.families[name] = f
	return f
}

// Counter declares a counter; its name should end in _total.
func (s *Set) Counter(name, help string) *Family { return s.Family(name, Counter, help) }

// Gauge declares a gauge.
func (s *Set) Gauge(name, help string) *Family { return s.Family(name, Gauge, help) }

// Add puts in a sample of a counter, gauge or untyped family.
func (f *Family) Add(value float64, labels ...Label) {
	switch f.Type {
	case Counter, Gauge, Untyped:
	default:
		f.set.fault("%s is a %s and takes no plain samples", f.Name, f.Type)
		return
	}
	if f.Type == Counter && !(value >= 0) {
		f.set.fault("%s is a counter and cannot be %v", f.Name, value)
		return
	}
	f.put(f.Name, value, labels, nil)
}

// Point is one bucket of a histogram (At: its upper bound, Value: how many were
// at most that) or one quantile of a summary (At: 0 to 1, Value: the quantile).
type Point struct{ At, Value float64 }

// Histogram puts in one series of a histogram. Bounds must rise and counts must
// not fall; the bucket +Inf is added from count.
func (s *Set) Histogram(name, help string, buckets []Point, sum float64, count uint64, labels ...Label) {
	f := s.Family(name, Histogram, help)
	last := Point{math.Inf(-1), 0}
	for _, b := range buckets {
		if !(b.At > last.At) || !(b.Value >= last.Value) || b.Value > float64(count) {
			s.fault("%s: bucket %v with %v after %v with %v, of %d", name, b.At, b.Value, last.At, last.Value, count)
		}
		last = b
		if !math.IsInf(b.At, 1) {
			f.put(name+"_bucket", b.Value, labels, &Label{"le", number(b.At)})
		}
	}
	f.put(name+"_bucket", float64(count), labels, &Label{"le", "+Inf"})
	f.put(name+"_sum", sum, labels, nil)
	f.put(name+"_count", float64(count), labels, nil)
}

// Summary puts in one series of a summary.
func (s *Set) Summary(name, help string, quantiles []Point, sum float64, count uint64, labels ...Label) {
	f := s.Family(name, Summary, help)
	for _, q := range quantiles {
		if !(q.At >= 0 && q.At <= 1) {
			s.fault("%s: quantile %v is outside 0 to 1", name, q.At)
		}
		f.put(name, q.Value, labels, &Label{"quantile", number(q.At)})
	}
	f.put(name+"_sum", sum, labels, nil)
	f.put(name+"_count", float64(count), labels, nil)
}

// reserved is the label that a type gives a meaning of its own.
var reserved = map[Type]string{Histogram: "le", Summary: "quantile"}

// put adds a sample; own is the label that the family's type adds.
func (f *Family) put(name string, value float64, labels []Label, own *Label) {
	labels = slices.Clone(labels)
	for _, l := range labels {
		switch {
		case !labelName.MatchString(l.Name) || strings.HasPrefix(l.Name, "__"):
			f.set.fault("%s: %q is no label name", f.Name, l.Name)
		case l.Name == reserved[f.Type]:
			f.set.fault("%s: label %q is reserved in a %s", f.Name, l.Name, f.Type)
		}
	}
	if own != nil {
		labels = append(labels, *own)
	}
	slices.SortStableFunc(labels, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(labels); i++ {
		if labels[i].Name == labels[i-1].Name {
			f.set.fault("%s: label %q is given twice", f.Name, labels[i].Name)
		}
	}
	f.Samples = append(f.Samples, Sample{name, labels, value})
}

// check reports all faults: those of the calls, repeated series, and families
// whose lines would be taken for another's.
func (s *Set) check() error {
	faults := slices.Clone(s.faults)
	seen := map[string]string{}
	for _, f := range s.sorted() {
		for _, sample := range f.Samples {
			if other, ok := seen[sample.key()]; ok {
				faults = append(faults, fmt.Errorf("prom: series %s%s is given twice (in %s and %s)", sample.Name, formatLabels(sample.Labels), other, f.Name))
			}
			seen[sample.key()] = f.Name
		}
	}
	return errors.Join(faults...)
}

func (s *Set) sorted() []*Family {
	out := make([]*Family, 0, len(s.families))
	for _, f := range s.families {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *Family) int { return strings.Compare(a.Name, b.Name) })
	return out
}

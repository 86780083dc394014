package prom

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Families are the parsed metrics by name.
type Families map[string]*Family

// Value returns the sample with that name and exactly these labels, in any
// order.
func (fs Families) Value(sample string, labels ...Label) (float64, bool) {
	labels = slices.Clone(labels)
	slices.SortFunc(labels, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	want := Sample{Name: sample, Labels: labels}.key()
	for _, f := range fs {
		for _, s := range f.Samples {
			if s.key() == want {
				return s.Value, true
			}
		}
	}
	return 0, false
}

// Sum adds up all samples of that name, whatever their labels.
func (fs Families) Sum(sample string) float64 {
	sum := 0.0
	for _, f := range fs {
		for _, s := range f.Samples {
			if s.Name == sample {
				sum += s.Value
			}
		}
	}
	return sum
}

// Parse reads a scrape. It is strict where a scraper would drop or misread
// something: faulty lines, a TYPE after its samples or twice, families that are
// not together, and repeated series are errors. Timestamps are accepted and
// dropped.
func Parse(r io.Reader) (Families, error) {
	p := parser{families: Families{}, series: map[string]bool{}, closed: map[string]bool{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if err := p.line(lines.Text()); err != nil {
			return nil, fmt.Errorf("prom: line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("prom: %w", err)
	}
	return p.families, nil
}

type parser struct {
	families Families
	series   map[string]bool
	current  string
	closed   map[string]bool // families that another one has followed
}

func (p *parser) line(line string) error {
	line = strings.TrimRight(line, " \t")
	switch {
	case line == "":
		return nil
	case strings.HasPrefix(line, "#"):
		return p.comment(line)
	}
	s, err := parseSample(line)
	if err != nil {
		return err
	}
	if p.series[s.key()] {
		return fmt.Errorf("series %s%s comes twice", s.Name, formatLabels(s.Labels))
	}
	p.series[s.key()] = true
	f, err := p.enter(p.owner(s.Name))
	if err != nil {
		return err
	}
	f.Samples = append(f.Samples, s)
	return nil
}

// owner is the family that a sample's name belongs to.
func (p *parser) owner(sample string) string {
	for suffix, types := range map[string][]Type{
		"_bucket": {Histogram}, "_sum": {Histogram, Summary}, "_count": {Histogram, Summary},
	} {
		base, ok := strings.CutSuffix(sample, suffix)
		if f := p.families[base]; ok && f != nil && slices.Contains(types, f.Type) {
			return base
		}
	}
	return sample
}

func (p *parser) enter(name string) (*Family, error) {
	if !metricName.MatchString(name) {
		return nil, fmt.Errorf("%q is no metric name", name)
	}
	if p.closed[name] {
		return nil, fmt.Errorf("lines of %s are not together", name)
	}
	if p.current != name && p.current != "" {
		p.closed[p.current] = true
	}
	p.current = name
	f := p.families[name]
	if f == nil {
		f = &Family{Name: name, Type: Untyped}
		p.families[name] = f
	}
	return f, nil
}

func (p *parser) comment(line string) error {
	keyword, rest, _ := strings.Cut(strings.TrimLeft(line[1:], " \t"), " ")
	if keyword != "HELP" && keyword != "TYPE" {
		return nil
	}
	name, text, _ := strings.Cut(rest, " ")
	f, err := p.enter(name)
	if err != nil {
		return err
	}
	if keyword == "HELP" {
		f.Help, err = unescape(text, false)
		return err
	}
	if f.Type != Untyped || len(f.Samples) > 0 {
		return fmt.Errorf("TYPE of %s comes twice or after its samples", name)
	}
	switch t := Type(text); t {
	case Counter, Gauge, Histogram, Summary, Untyped:
		f.Type = t
		return nil
	}
	return fmt.Errorf("unknown type %q", text)
}

func parseSample(line string) (Sample, error) {
	end := strings.IndexAny(line, "{ \t")
	if end < 0 {
		return Sample{}, errors.New("a sample without a value")
	}
	s := Sample{Name: line[:end]}
	rest := line[end:]
	if rest[0] == '{' {
		var err error
		if s.Labels, rest, err = parseLabels(rest[1:]); err != nil {
			return Sample{}, err
		}
	}
	fields := strings.Fields(rest)
	if len(fields) < 1 || len(fields) > 2 {
		return Sample{}, fmt.Errorf("%q is no value", rest)
	}
	var err error
	if s.Value, err = strconv.ParseFloat(fields[0], 64); err != nil {
		return Sample{}, err
	}
	if len(fields) == 2 {
		if _, err = strconv.ParseInt(fields[1], 10, 64); err != nil {
			return Sample{}, err
		}
	}
	return s, nil
}

// parseLabels reads up to the closing brace and returns what follows it.
func parseLabels(rest string) (labels []Label, after string, err error) {
	for {
		rest = strings.TrimLeft(rest, " \t")
		if after, ok := strings.CutPrefix(rest, "}"); ok {
			slices.SortFunc(labels, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
			for i := 1; i < len(labels); i++ {
				if labels[i].Name == labels[i-1].Name {
					return nil, "", fmt.Errorf("label %q comes twice", labels[i].Name)
				}
			}
			return labels, after, nil
		}
		name, value, ok := strings.Cut(rest, "=")
		name = strings.TrimSpace(name)
		value = strings.TrimLeft(value, " \t")
		if !ok || !labelName.MatchString(name) || !strings.HasPrefix(value, `"`) {
			return nil, "", fmt.Errorf("%q are no labels", rest)
		}
		value = value[1:]
		end := closingQuote(value)
		if end < 0 {
			return nil, "", fmt.Errorf("label %q has no end", name)
		}
		text, err := unescape(value[:end], true)
		if err != nil {
			return nil, "", err
		}
		labels = append(labels, Label{name, text})
		rest = strings.TrimLeft(value[end+1:], " \t")
		if next, ok := strings.CutPrefix(rest, ","); ok {
			rest = next
		} else if !strings.HasPrefix(rest, "}") {
			return nil, "", fmt.Errorf("%q follows a label", rest)
		}
	}
}

func closingQuote(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

func unescape(s string, quotes bool) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch {
		case i < len(s) && s[i] == '\\':
			b.WriteByte('\\')
		case i < len(s) && s[i] == 'n':
			b.WriteByte('\n')
		case i < len(s) && s[i] == '"' && quotes:
			b.WriteByte('"')
		default:
			return "", fmt.Errorf("bad escape in %q", s)
		}
	}
	return b.String(), nil
}

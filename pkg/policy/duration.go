package policy

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a span of whole milliseconds, 0 or more. In files it is Go's syntax of numbers with the units h, m, s and
// ms, without a sign: 336h, 1m30s, 1.5s, 500ms. A bare number is refused: it does not say its unit.
type Duration time.Duration

// DurationPattern is the syntax of a duration as a regular expression.
const DurationPattern = `^([0-9]+(\.[0-9]+)?(h|ms|m|s))+$`

// MS is the duration in milliseconds.
func (d Duration) MS() int64 { return time.Duration(d).Milliseconds() }

// Std is the duration as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String is the shortest form that ParseDuration reads back: 336h, 1m30s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler by ParseDuration.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := ParseDuration(string(b))
	if err == nil {
		*d = v
	}
	return err
}

// ParseDuration reads a Duration. The error says what is expected and is meant for the reader of a configuration.
func ParseDuration(s string) (Duration, error) {
	if strings.HasPrefix(s, "-") {
		return 0, errors.New("must not be negative")
	}
	if !durationSyntax(s) {
		return 0, errors.New("must be a duration such as 500ms, 30s, 1m30s or 336h")
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New("is too long a duration")
	}
	if d%time.Millisecond != 0 {
		return 0, errors.New("must be whole milliseconds")
	}
	return Duration(d), nil
}

// durationSyntax is DurationPattern by hand.
func durationSyntax(s string) bool {
	digits := func() bool {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		s = s[n:]
		return n > 0
	}
	for first := true; first || s != ""; first = false {
		if !digits() {
			return false
		}
		if strings.HasPrefix(s, ".") {
			s = s[1:]
			if !digits() {
				return false
			}
		}
		switch {
		case strings.HasPrefix(s, "ms"):
			s = s[2:]
		case s != "" && strings.IndexByte("hms", s[0]) >= 0:
			s = s[1:]
		default:
			return false
		}
	}
	return true
}

// Threshold is the limit a brake's signal is held against: a number for shares, a duration for latencies.
type Threshold struct {
	Number    float64
	Latency   Duration
	IsLatency bool
}

// SetNumber makes it a number.
func (t *Threshold) SetNumber(f float64) { *t = Threshold{Number: f} }

// UnmarshalText makes it a duration.
func (t *Threshold) UnmarshalText(b []byte) error {
	d, err := ParseDuration(string(b))
	if err == nil {
		*t = Threshold{Latency: d, IsLatency: true}
	}
	return err
}

// MarshalJSON writes the number, or the duration as text.
func (t Threshold) MarshalJSON() ([]byte, error) {
	if t.IsLatency {
		return []byte(strconv.Quote(t.Latency.String())), nil
	}
	if math.IsNaN(t.Number) || math.IsInf(t.Number, 0) {
		return nil, fmt.Errorf("policy: threshold %v is not finite", t.Number)
	}
	return []byte(strconv.FormatFloat(t.Number, 'g', -1, 64)), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Threshold) UnmarshalJSON(b []byte) error {
	if s, err := strconv.Unquote(string(b)); err == nil {
		return t.UnmarshalText([]byte(s))
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return errors.New("policy: a threshold must be a number or a duration")
	}
	t.SetNumber(f)
	return nil
}

// String is the threshold as it stands in a file.
func (t Threshold) String() string {
	if t.IsLatency {
		return t.Latency.String()
	}
	return strconv.FormatFloat(t.Number, 'g', -1, 64)
}

package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Seconds is a duration in milliseconds that JSON shows as a number of seconds: 1250 ↔ 1.25. Unbounded ↔ null.
type Seconds int64

// Unbounded stands for "no end can be predicted", as where a lane has no slots.
const Unbounded = Seconds(math.MaxInt64)

// maxSeconds bounds what is decoded (about 317 years), far below any overflow.
const maxSeconds = 1e10

// String gives the shortest exact decimal, such as "1.25".
func (s Seconds) String() string {
	if s == Unbounded {
		return "unbounded"
	}
	return string(s.append(nil))
}

// append writes the decimal without going through a float, so that it is exact for every value.
func (s Seconds) append(b []byte) []byte {
	u := uint64(s)
	if s < 0 {
		b = append(b, '-')
		u = -u // two's complement, right for MinInt64 too
	}
	b = strconv.AppendUint(b, u/1000, 10)
	frac := u % 1000
	if frac == 0 {
		return b
	}
	b = append(b, '.', byte('0'+frac/100))
	if frac%100 != 0 {
		b = append(b, byte('0'+frac/10%10))
	}
	if frac%10 != 0 {
		b = append(b, byte('0'+frac%10))
	}
	return b
}

// MarshalJSON writes a JSON number, or null for [Unbounded].
func (s Seconds) MarshalJSON() ([]byte, error) {
	if s == Unbounded {
		return []byte("null"), nil
	}
	return s.append(nil), nil
}

// UnmarshalJSON reads a JSON number of at most 1e10 in size, rounded to the nearest millisecond, or null.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*s = Unbounded
		return nil
	}
	var n json.Number
	if b[0] == '"' || json.Unmarshal(b, &n) != nil {
		return errors.New("seconds: not a number")
	}
	f, err := n.Float64()
	if err != nil || math.Abs(f) > maxSeconds {
		return fmt.Errorf("seconds: %.40s is out of range", n)
	}
	*s = Seconds(math.Round(f * 1000))
	return nil
}

// Time is an instant in Unix milliseconds that JSON shows as RFC 3339 in UTC with three decimals. The zero value
// means "not yet": optional fields leave it out.
type Time int64

// timeLayout always shows three decimals, so that texts of equal length sort as the times do.
const timeLayout = "2006-01-02T15:04:05.000Z"

// Years 0001 to 9999: what RFC 3339 can show.
const minTime, maxTime = Time(-62135596800000), Time(253402300799999)

// String gives the RFC 3339 text.
func (t Time) String() string { return time.UnixMilli(int64(t)).UTC().Format(timeLayout) }

// MarshalJSON writes the RFC 3339 text. It fails outside the years 1 to 9999.
func (t Time) MarshalJSON() ([]byte, error) {
	if t < minTime || t > maxTime {
		return nil, fmt.Errorf("time: %d ms is outside the years 1 to 9999", int64(t))
	}
	return []byte(`"` + t.String() + `"`), nil
}

// UnmarshalJSON reads an RFC 3339 text of any offset; what is finer than a millisecond is cut off.
func (t *Time) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return errors.New("time: not a text")
	}
	if strings.ContainsRune(text, ',') { // package time takes a decimal comma, RFC 3339 does not
		return errors.New("time: not RFC 3339")
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return errors.New("time: not RFC 3339")
	}
	if ms := Time(at.UnixMilli()); ms >= minTime && ms <= maxTime {
		*t = ms
		return nil
	}
	return errors.New("time: outside the years 1 to 9999")
}

// Items is a list that JSON always shows as an array: nil becomes [], never null.
type Items[T any] []T

// MarshalJSON writes an array.
func (l Items[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}

// Null is a text that JSON shows as null when it is empty.
type Null string

// MarshalJSON writes a text, or null for the empty one.
func (n Null) MarshalJSON() ([]byte, error) {
	if n == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(n))
}

package events_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/events"
	"pgregory.net/rapid"
)

func TestSecondsText(t *testing.T) {
	t.Parallel()
	for ms, want := range map[events.Seconds]string{
		0: "0", 1: "0.001", 10: "0.01", 100: "0.1", 1250: "1.25", 60000: "60", 1007: "1.007", -1500: "-1.5", -1: "-0.001",
		math.MinInt64: "-9223372036854775.808", math.MaxInt64 - 1: "9223372036854775.806", events.Unbounded: "null",
	} {
		if got, err := json.Marshal(ms); err != nil || string(got) != want {
			t.Errorf("%d ms is %s (%v), want %s", int64(ms), got, err, want)
		}
	}
}

func TestSecondsRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`"1"`, `true`, `{}`, `[]`, `1e400`, `-1e11`, `NaN`, `""`} {
		var s events.Seconds
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			t.Errorf("%s was read as %d", text, s)
		}
	}
}

func TestSecondsAndTimeRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type both struct {
			S events.Seconds `json:"s"`
			T events.Time    `json:"t"`
		}
		in := both{events.Seconds(rapid.Int64Range(-1e13, 1e13).Draw(t, "s")), events.Time(rapid.Int64Range(-62135596800000, 253402300799999).Draw(t, "t"))}
		text, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var out both
		if err := json.Unmarshal(text, &out); err != nil || out != in {
			t.Fatalf("%s: %v is not %v (%v)", text, out, in, err)
		}
	})
}

func TestTime(t *testing.T) {
	t.Parallel()
	var at events.Time
	if err := json.Unmarshal([]byte(`"2026-03-02T12:15:00.0079+02:00"`), &at); err != nil || at.String() != "2026-03-02T10:15:00.007Z" {
		t.Errorf("got %s, %v", at, err)
	}
	for _, text := range []string{`1772446500`, `"2026-03-02"`, `"2026-03-02T10:15:00"`, `"2026-03-02T10:15:00,5Z"`, `""`, `null`, `"0000-01-01T00:00:00Z"`} {
		if err := json.Unmarshal([]byte(text), &at); err == nil {
			t.Errorf("%s was read as %s", text, at)
		}
	}
	if _, err := json.Marshal(events.Time(math.MaxInt64)); err == nil {
		t.Error("a time after the year 9999 was written")
	}
}

func TestNilListIsAnArray(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(events.TaskPage{})
	if err != nil || string(text) != `{"items":[],"next_cursor":null}` {
		t.Errorf("%s, %v", text, err)
	}
}

func TestDecodeMessage(t *testing.T) {
	t.Parallel()
	if m, err := events.DecodeMessage([]byte(` {"v":1,"tenant":"a","task":"b","gen":0,"later":{"x":[1]}}`)); err != nil || m != events.NewMessage("a", "b", 0) {
		t.Errorf("with an unknown field: %v, %v", m, err)
	}
	for _, body := range []string{`{"v":2}`, `{"v":2,"tenant":5}`, `{"v":0,"tenant":"a","task":"b","gen":1}`} {
		if _, err := events.DecodeMessage([]byte(body)); !errors.Is(err, events.ErrVersion) {
			t.Errorf("%s: %v, want ErrVersion", body, err)
		}
	}
	for _, body := range []string{
		``, `null`, `[]`, `"x"`, `{}`, `{"v":"1"}`, `{"v":1}`, `{"v":1.5}`, `{"v":1,"tenant":"a","task":"b"}`,
		`{"v":1,"tenant":"a","task":"b","gen":-1}`, `{"v":1,"tenant":"","task":"b","gen":1}`, `{"v":1,"tenant":"a","task":"../b","gen":1}`,
		`{"v":1,"tenant":"a#b","task":"b","gen":1}`, `{"v":1,"tenant":"a","task":"b","gen":1.5}`, `{"v":1,"tenant":"a","task":"b","gen":1} {}`,
		`{"v":1,"tenant":"a","task":"b","gen":99999999999999999999}`, `{"v":1,"tenant":"` + strings.Repeat("a", 65) + `","task":"b","gen":1}`,
		`{"v":1,"tenant":"a","task":"b","gen":1,"pad":"` + strings.Repeat("a", events.MaxMessageBytes) + `"}`,
	} {
		if m, err := events.DecodeMessage([]byte(body)); !errors.Is(err, events.ErrMalformed) {
			t.Errorf("%.60s: %v, %v, want ErrMalformed", body, m, err)
		}
	}
}

func TestDecodeTick(t *testing.T) {
	t.Parallel()
	want := events.Tick{V: 1, Source: events.TickAdmission}
	text, err := want.Encode()
	if err != nil || string(text) != `{"v":1,"source":"admission"}` {
		t.Fatalf("%s, %v", text, err)
	}
	if got, err := events.DecodeTick(text); err != nil || got != want {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := events.DecodeTick([]byte(`{"v":9}`)); !errors.Is(err, events.ErrVersion) {
		t.Errorf("%v, want ErrVersion", err)
	}
	for _, body := range []string{``, `{}`, `{"v":1}`, `{"v":1,"source":7}`, `{"v":1,"source":"schedule","scheduled_at":"soon"}`} {
		if _, err := events.DecodeTick([]byte(body)); !errors.Is(err, events.ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", body, err)
		}
	}
}

// What decodes satisfies the schema and encodes to what decodes to the same again.
func FuzzDecodeMessage(f *testing.F) {
	f.Add([]byte(`{"v":1,"tenant":"alpha","task":"0199a1c2","gen":3}`))
	f.Add([]byte(`{"v":1,"v":2,"tenant":"a","task":"b","gen":1e2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := events.DecodeMessage(body)
		if err != nil {
			if !errors.Is(err, events.ErrVersion) && !errors.Is(err, events.ErrMalformed) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		again, err := events.DecodeMessage(m.Encode())
		if err != nil || again != m {
			t.Fatalf("%v became %v (%v)", m, again, err)
		}
		if err := validate(t, compiler(t), "message", m.Encode()); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzDecodeTick(f *testing.F) {
	f.Add([]byte(`{"v":1,"source":"schedule","scheduled_at":"2026-03-02T10:15:00.000Z"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		tick, err := events.DecodeTick(body)
		if err != nil {
			return
		}
		text, err := tick.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := events.DecodeTick(text); err != nil || again != tick {
			t.Fatalf("%v became %v (%v)", tick, again, err)
		}
	})
}

package prom

import (
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func write(t interface{ Fatal(...any) }, s *Set) string {
	var b strings.Builder
	if _, err := s.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWrite(t *testing.T) {
	var s Set
	s.Gauge("b_gauge", "").Add(1.5)
	c := s.Counter("a_total", "Back\\slash and\nnewline, \"quotes\" stay.")
	c.Add(3, L("lane", "z", "code", "accept")...)
	c.Add(1e6, L("lane", "a\"b\\c\nd", "code", "x")...)
	s.Counter("a_total", "Back\\slash and\nnewline, \"quotes\" stay.").Add(2, L("code", "accept", "lane", "critical")...)
	s.Histogram("h_seconds", "A histogram.", []Point{{0.1, 1}, {10, 2}, {math.Inf(1), 3}}, 12.25, 3, L("lane", "b")...)
	s.Histogram("h_seconds", "A histogram.", nil, 0, 0, L("lane", "a")...)
	s.Summary("q_ms", "A summary.", []Point{{0.5, 7}, {0.99, math.NaN()}}, 21, 3)
	s.Gauge("z_empty", "No samples yet.")
	want := `# HELP a_total Back\\slash and\nnewline, "quotes" stay.
# TYPE a_total counter
a_total{code="accept",lane="critical"} 2
a_total{code="accept",lane="z"} 3
a_total{code="x",lane="a\"b\\c\nd"} 1000000
# TYPE b_gauge gauge
b_gauge 1.5
# HELP h_seconds A histogram.
# TYPE h_seconds histogram
h_seconds_bucket{lane="a",le="+Inf"} 0
h_seconds_sum{lane="a"} 0
h_seconds_count{lane="a"} 0
h_seconds_bucket{lane="b",le="0.1"} 1
h_seconds_bucket{lane="b",le="10"} 2
h_seconds_bucket{lane="b",le="+Inf"} 3
h_seconds_sum{lane="b"} 12.25
h_seconds_count{lane="b"} 3
# HELP q_ms A summary.
# TYPE q_ms summary
q_ms{quantile="0.5"} 7
q_ms{quantile="0.99"} NaN
q_ms_sum 21
q_ms_count 3
# HELP z_empty No samples yet.
# TYPE z_empty gauge
`
	if got := write(t, &s); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestFaultsAreReportedTogetherAndNothingIsWritten(t *testing.T) {
	var s Set
	s.Gauge("bad-name", "")
	s.Gauge("g", "").Add(1, L("bad-label", "")...)
	s.Gauge("g", "").Add(1, L("__name__", "")...)
	s.Gauge("g", "").Add(1, L("a", "1", "a", "2")...)
	s.Gauge("g", "").Add(1, L("twice", "x")...)
	s.Gauge("g", "").Add(2, L("twice", "x")...)
	s.Counter("g", "")
	s.Counter("c", "").Add(-1)
	s.Counter("c", "").Add(math.NaN())
	s.Family("h", Histogram, "").Add(1)
	s.Histogram("h", "", []Point{{2, 1}, {1, 1}}, 0, 1)
	s.Histogram("h2", "", []Point{{1, 2}}, 0, 1)
	s.Histogram("h3", "", nil, 0, 1, L("le", "1")...)
	s.Summary("s", "", []Point{{1.5, 1}}, 0, 1)
	s.Gauge("s_sum", "").Add(1) // also a line of the summary s
	var b strings.Builder
	_, err := s.WriteTo(&b)
	if err == nil || b.Len() > 0 {
		t.Fatalf("wrote %q, %v", b.String(), err)
	}
	for _, want := range []string{
		`"bad-name"`, `"bad-label"`, `"__name__"`, `label "a" is given twice`, `series g{twice="x"}`,
		"g is declared twice", "c is a counter and cannot be -1", "c is a counter and cannot be NaN",
		"h is a histogram", "h: bucket 1", "h2: bucket 1 with 2", `h3: label "le"`, "quantile 1.5", "series s_sum",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

// What is written is read back to the same, whatever texts and numbers it holds.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		value := rapid.Float64()
		labels := rapid.Custom(func(t *rapid.T) []Label {
			m := rapid.MapOfN(rapid.StringMatching(`[a-d]`), rapid.String(), 0, 3).Draw(t, "labels")
			var out []Label
			for k, v := range m {
				out = append(out, Label{k, v})
			}
			return out
		})
		seen := map[string]bool{}
		for range rapid.IntRange(0, 8).Draw(t, "samples") {
			name := rapid.SampledFrom([]string{"m", "n:x", "_o"}).Draw(t, "name")
			v, ls := value.Draw(t, "value"), labels.Draw(t, "labels")
			sorted := slices.Clone(ls)
			slices.SortFunc(sorted, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
			if key := (Sample{Name: name, Labels: sorted}).key(); !seen[key] {
				seen[key] = true
				s.Gauge(name, "help of "+name).Add(v, ls...)
			}
		}
		help := rapid.StringMatching(`[^\r\s](.|\n|\\|")*[^\s\r]`).Draw(t, "help")
		s.Summary("s", help, []Point{{0.5, value.Draw(t, "median")}}, value.Draw(t, "sum"), 5)
		s.Histogram("h", help, []Point{{rapid.Float64Range(-1e9, 1e9).Draw(t, "le"), 2}}, 1, 5, labels.Draw(t, "h labels")...)

		text := write(t, &s)
		parsed, err := Parse(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if len(parsed) != len(s.families) {
			t.Fatalf("%d families became %d", len(s.families), len(parsed))
		}
		for name, f := range s.families {
			got := parsed[name]
			if got == nil || got.Type != f.Type || got.Help != f.Help || len(got.Samples) != len(f.Samples) {
				t.Fatalf("%s: got %+v, want %+v", name, got, f)
			}
			for _, want := range f.Samples {
				if v, ok := parsed.Value(want.Name, want.Labels...); !ok || v != want.Value {
					t.Fatalf("%s%v: got %v, %v; want %v", want.Name, want.Labels, v, ok, want.Value)
				}
			}
		}
	})
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no value":            "a\n",
		"bad value":           "a one\n",
		"bad timestamp":       "a 1 x\n",
		"bad name":            "1a 1\n",
		"bad label name":      `a{b-c="x"} 1`,
		"unquoted value":      `a{b=x} 1`,
		"open quote":          `a{b="x} 1`,
		"bad escape":          `a{b="\x"} 1`,
		"label twice":         `a{b="x",b="y"} 1`,
		"no comma":            `a{b="x"c="y"} 1`,
		"series twice":        "a 1\na 2\n",
		"type after samples":  "a 1\n# TYPE a gauge\n",
		"type twice":          "# TYPE a gauge\n# TYPE a gauge\n",
		"unknown type":        "# TYPE a thing\n",
		"family not together": "a 1\nb 1\na{x=\"y\"} 1\n",
		"help of no name":     "# HELP\n",
	} {
		if got, err := Parse(strings.NewReader(text)); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

func TestParseAccepts(t *testing.T) {
	got, err := Parse(strings.NewReader("# a comment\n\n#TYPEless\na{ x = \"1\" , } 2 1395066363000\nb +Inf\n# TYPE h histogram\nh_sum 3\nh_count 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := got.Value("a", Label{"x", "1"}); !ok || v != 2 {
		t.Errorf("a is %v, %v", v, ok)
	}
	if v, ok := got.Value("b"); !ok || !math.IsInf(v, 1) {
		t.Errorf("b is %v, %v", v, ok)
	}
	if len(got["h"].Samples) != 2 || got.Sum("h_sum") != 3 {
		t.Errorf("h is %+v", got["h"])
	}
	if _, ok := got.Value("a"); ok {
		t.Error("a without labels is there")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("# HELP a b\n# TYPE a counter\na{b=\"c\\n\"} 1 2\n")
	f.Add("# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		families, err := Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for name, fam := range families {
			if fam.Name != name || !metricName.MatchString(name) {
				t.Errorf("family %q named %q", name, fam.Name)
			}
		}
	})
}

func TestProcess(t *testing.T) {
	var s Set
	if err := s.Process(); err != nil {
		t.Fatal(err)
	}
	parsed, err := Parse(strings.NewReader(write(t, &s)))
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := parsed.Value("go_goroutines"); !ok || n < 1 {
		t.Errorf("go_goroutines %v, %v", n, ok)
	}
	if n, ok := parsed.Value("process_resident_memory_bytes"); ok && (n < 1<<20 || n > 1<<40) {
		t.Errorf("process_resident_memory_bytes %v", n)
	}
	pages, err := residentPages([]byte("2000 345 200 1 0 50 0\n"))
	if err != nil || pages != 345 {
		t.Errorf("pages %d, %v", pages, err)
	}
	for _, bad := range []string{"", "12", "1 x"} {
		if _, err := residentPages([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestHandler(t *testing.T) {
	fill := func(err error, name string) http.Handler {
		return Handler(func(_ *http.Request, s *Set) error {
			s.Gauge(name, "").Add(1)
			return err
		})
	}
	for name, tc := range map[string]struct {
		handler http.Handler
		method  string
		status  int
		typ     string
		body    string
	}{
		"ok":             {fill(nil, "a"), "GET", 200, ContentType, "# TYPE a gauge\na 1\n"},
		"post":           {fill(nil, "a"), "POST", 405, "text/plain; charset=utf-8", "method not allowed\n"},
		"collect failed": {fill(errors.New("no store"), "a"), "GET", 500, "text/plain; charset=utf-8", "no store\n"},
		"bad set":        {fill(nil, "a-b"), "GET", 500, "text/plain; charset=utf-8", "prom: \"a-b\" is no metric name\n"},
	} {
		w := httptest.NewRecorder()
		tc.handler.ServeHTTP(w, httptest.NewRequest(tc.method, "/metrics", nil))
		body, _ := io.ReadAll(w.Body)
		got := []any{w.Code, w.Header().Get("Content-Type"), string(body)}
		if want := []any{tc.status, tc.typ, tc.body}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

package contract

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/apitest"
)

// against runs the suite, or what matches only, against a handler.
func against(t *testing.T, h http.Handler, only string, patience time.Duration) (passed, failed int, out string) {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	var text bytes.Buffer
	cfg := Config{Base: server.URL, Keys: DemoKeys(), Out: &text, Patience: patience}
	if only != "" {
		cfg.Only = regexp.MustCompile(only)
	}
	passed, failed = Run(context.Background(), cfg)
	return passed, failed, text.String()
}

func rightServer(t *testing.T) *fake {
	t.Helper()
	v, err := apitest.New()
	if err != nil {
		t.Fatal(err)
	}
	return newFake(v)
}

func TestARightServerPasses(t *testing.T) {
	t.Parallel()
	passed, failed, out := against(t, rightServer(t), "", 10*time.Second)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if want := fmt.Sprintf("contract: %d passed, 0 failed", passed); failed != 0 || lines[len(lines)-1] != want {
		t.Errorf("last line %q, want %q; failures:\n%s", lines[len(lines)-1], want, failuresIn(out))
	}
	counts := map[string]int{}
	for _, line := range lines {
		kind, _, _ := strings.Cut(line, " ")
		counts[kind]++
	}
	if counts["ok"] != passed || passed < 150 || counts["later"] < 1 || counts["skip"] != len(ownCases())+len(adminCases())+len(explainCases())+len(unavailableCases()) {
		t.Errorf("%d passed; lines by kind: %v", passed, counts)
	}
}

func failuresIn(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "FAIL") || strings.HasPrefix(line, " ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, tc := range cases() {
		if seen[tc.name] {
			t.Errorf("%s is there twice", tc.name)
		}
		seen[tc.name] = true
	}
}

// spoilt passes answers of a right server through change.
func spoilt(h http.Handler, change func(r *http.Request, rec *httptest.ResponseRecorder)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		change(r, rec)
		for name, values := range rec.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	})
}

// replaced changes the text of answers.
func replaced(old, with string) func(*http.Request, *httptest.ResponseRecorder) {
	return func(_ *http.Request, rec *httptest.ResponseRecorder) {
		text := strings.ReplaceAll(rec.Body.String(), old, with)
		rec.Body.Reset()
		rec.Body.WriteString(text)
	}
}

// instead lets a request pass only after it was changed, as a server would that overlooks something in it.
func instead(h http.Handler, change func(r *http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		change(r)
		h.ServeHTTP(w, r)
	})
}

func TestWrongServersFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wrong func(http.Handler) http.Handler
		only  string // the cases that must notice, each of them
	}{
		"an unknown field in the task": {func(h http.Handler) http.Handler {
			return spoilt(h, replaced(`"delayed":`, `"shard":3,"delayed":`))
		}, `^submit/202|^class/mail`},
		"start_by too late": {func(h http.Handler) http.Handler {
			return spoilt(h, func(_ *http.Request, rec *httptest.ResponseRecorder) {
				text := regexp.MustCompile(`"start_by":"[^"]*"`).ReplaceAllString(rec.Body.String(), `"start_by":"2099-01-01T00:00:00.000Z"`)
				rec.Body.Reset()
				rec.Body.WriteString(text)
			})
		}, `^submit/202`},
		"no Location": {func(h http.Handler) http.Handler {
			return spoilt(h, func(_ *http.Request, rec *httptest.ResponseRecorder) { rec.Header().Del("Location") })
		}, `^submit/202`},
		"no Idempotency-Replayed": {func(h http.Handler) http.Handler {
			return spoilt(h, func(_ *http.Request, rec *httptest.ResponseRecorder) { rec.Header().Del("Idempotency-Replayed") })
		}, `^idempotency/(the same|keys in)`},
		"keys are ignored": {func(h http.Handler) http.Handler {
			return instead(h, func(r *http.Request) { r.Header.Del("Idempotency-Key") })
		}, `^idempotency/(the same|another payload|20 at once)|^key/(empty|256|beyond)`},
		"keys are global": {func(h http.Handler) http.Handler {
			return spoilt(h, func(r *http.Request, rec *httptest.ResponseRecorder) {
				if r.Header.Get("Idempotency-Key") != "" {
					rec.Header().Set("Idempotency-Replayed", "true")
				}
			})
		}, `^idempotency/(20 at once|a refused)`},
		"any key will do": {func(h http.Handler) http.Handler {
			return instead(h, func(r *http.Request) { r.Header.Set("Authorization", "Bearer demo-alpha") })
		}, `^auth/(no cred|an unknown|an operator's key on|another scheme)|^read/a foreign`},
		"errors in plain JSON": {func(h http.Handler) http.Handler {
			return spoilt(h, func(_ *http.Request, rec *httptest.ResponseRecorder) {
				if rec.Code >= 400 {
					rec.Header().Set("Content-Type", "application/json")
				}
			})
		}, `^body/NaN|^route/PUT|^refusal/unknown_class$`},
		"every media type": {func(h http.Handler) http.Handler {
			return instead(h, func(r *http.Request) { r.Header.Set("Content-Type", "application/json") })
		}, `^media/(none|text|a form)`},
		"the first fault only": {func(h http.Handler) http.Handler {
			return spoilt(h, func(_ *http.Request, rec *httptest.ResponseRecorder) {
				text := regexp.MustCompile(`("errors":\[\{[^}]*\}),[^\]]*\]`).ReplaceAllString(rec.Body.String(), "$1]")
				rec.Body.Reset()
				rec.Body.WriteString(text)
			})
		}, `^body/all faults|^list/several`},
		"404 as 200": {func(h http.Handler) http.Handler {
			return spoilt(h, func(_ *http.Request, rec *httptest.ResponseRecorder) {
				if rec.Code == 404 {
					rec.Code = 200
				}
			})
		}, `^read/an id: |^route/.* is 404`},
		"no Allow": {func(h http.Handler) http.Handler {
			return spoilt(h, func(_ *http.Request, rec *httptest.ResponseRecorder) { rec.Header().Del("Allow") })
		}, `^route/.* is 405`},
		"queries are ignored": {func(h http.Handler) http.Handler {
			return instead(h, func(r *http.Request) { r.URL.RawQuery = "" })
		}, `^read/wait=(26|-1|abc|1 )|^list/(limit=0|cursor=garbage|state)`},
		"a ledger that leaks": {func(h http.Handler) http.Handler {
			return spoilt(h, replaced(`lanekeeper_ledger_active{tenant="alpha"} 0`, `lanekeeper_ledger_active{tenant="alpha"} 1`))
		}, `^end/every ledger`},
		"no ledgers": {func(h http.Handler) http.Handler {
			return spoilt(h, replaced(`lanekeeper_ledger_work_ms`, `lanekeeper_other`))
		}, `^end/every ledger`},
		"Retry-After on what is over": {func(h http.Handler) http.Handler {
			return spoilt(h, func(r *http.Request, rec *httptest.ResponseRecorder) {
				if r.Method == "GET" && rec.Code == 200 {
					rec.Header().Set("Retry-After", "1")
				}
			})
		}, `^class/`},
		"a decision without its figures": {func(h http.Handler) http.Handler {
			return spoilt(h, replaced(`,"copy_age_seconds":0`, ``))
		}, `^quote/|^refusal/deadline`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			passed, failed, out := against(t, c.wrong(rightServer(t)), c.only, 500*time.Millisecond)
			if passed > 0 || failed == 0 || !strings.HasSuffix(out, fmt.Sprintf("contract: 0 passed, %d failed\n", failed)) {
				t.Errorf("not noticed by each of %s:\n%s", c.only, out)
			}
		})
	}
}

// A server that loses its growth check or its memory figure must not pass for want of a figure.
func TestGrowthIsNoticed(t *testing.T) {
	t.Parallel()
	right := rightServer(t)
	size := 15_000_000
	growing := spoilt(right, func(r *http.Request, rec *httptest.ResponseRecorder) {
		if r.URL.Path == "/metrics" {
			replaced("1.5e+07", fmt.Sprint(size))(r, rec)
			size = 66_000_000
		}
	})
	if passed, failed, out := against(t, growing, "^metrics/|^end/the process", 100*time.Millisecond); passed != 1 || failed != 1 {
		t.Errorf("%d passed, %d failed:\n%s", passed, failed, out)
	}
	if passed, failed, out := against(t, right, "^end/the process", time.Millisecond); passed != 0 || failed != 1 {
		t.Errorf("without a baseline: %d passed, %d failed:\n%s", passed, failed, out)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	var text bytes.Buffer
	passed, failed := Run(context.Background(), Config{Base: server.URL, Keys: DemoKeys(), Out: &text, Patience: time.Millisecond})
	if passed != 0 || failed < 150 {
		t.Errorf("%d passed, %d failed", passed, failed)
	}
}

func TestParseMetrics(t *testing.T) {
	t.Parallel()
	m, err := parseMetrics([]byte("# HELP x y\n\nx 1\nx{tenant=\"a b\"} 2.5e3 1700000000\nn NaN\n"))
	if err != nil || m["x"] != 1 || m[`x{tenant="a b"}`] != 2500 {
		t.Errorf("%v, %v", m, err)
	}
	for _, bad := range []string{"x", "x{a=\"b\"}", "x one", "{"} {
		if m, err := parseMetrics([]byte(bad)); err == nil {
			t.Errorf("%q gave %v", bad, m)
		}
	}
}

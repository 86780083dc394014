package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/contract"
	"github.com/lanekeeper/lanekeeper/localstack/stack"
	"github.com/lanekeeper/lanekeeper/pkg/apitest"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

// server is where a run goes to.
type server struct {
	base      string
	transport http.RoundTripper
	patience  time.Duration
}

// TestBurst plays the test on right and on wrong servers. They run beside each other: a run is mostly waiting.
func TestBurst(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		start func(*testing.T) (server, error)
		fails []string // the steps that must fail, no others
	}{
		"as built":                       {inProcess, nil},
		"the prediction is forced to 0":  {patched(level+"\nreturn 0", room+"\nreturn Infinite"), []string{"5", "6"}},
		"the prediction is far too long": {patched(level + "\nreturn level(free, q) / 5 * 8\n}\n\n" + strings.Replace(level, "Level", "level", 1)), []string{"5"}},
		"the guidance is constant": {spoilt(func(rec *httptest.ResponseRecorder) {
			if rec.Header().Get("Retry-After") != "" && rec.Code >= 400 {
				rec.Header().Set("Retry-After", "1")
				replace(rec, `"retry_after_seconds":\d+`, `"retry_after_seconds":1`)
			}
		}), []string{"6"}},
		"another code": {spoilt(func(rec *httptest.ResponseRecorder) {
			replace(rec, `reject_deadline`, `reject_lane_backlog`)
		}), []string{"5", "6"}},
		"a ledger that leaks": {spoilt(func(rec *httptest.ResponseRecorder) {
			replace(rec, `(lanekeeper_ledger_work_ms{tenant="b"}) \d+`, `$1 752`)
		}), []string{"7"}},
	}
	var wg sync.WaitGroup
	for name, c := range cases {
		wg.Go(func() {
			s, err := c.start(t)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			var out bytes.Buffer
			passed, failed := Run(t.Context(), Config{Base: s.base, Out: &out, Transport: s.transport, Patience: s.patience})
			var fails []string
			for _, m := range regexp.MustCompile(`(?m)^FAIL  \((\d)\)`).FindAllStringSubmatch(out.String(), -1) {
				fails = append(fails, m[1])
			}
			right := len(c.fails) > 0 || strings.HasSuffix(out.String(), "\ndemo: 7 passed, 0 failed\n")
			if !slices.Equal(fails, c.fails) || failed != len(c.fails) || passed != 7-failed || !right {
				t.Errorf("%s: steps %v fail, want %v; %d passed, %d failed:\n%s", name, fails, c.fails, passed, failed, out.String())
			} else if testing.Verbose() {
				t.Logf("%s:\n%s", name, out.String())
			}
			if len(c.fails) == 0 && !regexp.MustCompile(`(?m)^demo\.short +\d+( +\d+\.\d\d s){5}`).MatchString(out.String()) {
				t.Errorf("%s: figures are missing:\n%s", name, out.String())
			}
		})
	}
	wg.Wait()
}

func start(t *testing.T) (*stack.Stack, error) {
	cfg, err := policyfile.Parse("demo.yaml", Configuration())
	if err != nil {
		return nil, err
	}
	s, err := stack.Start(context.Background(), stack.Options{Config: cfg, DataDir: t.TempDir()})
	if err == nil {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = s.Stop(ctx)
		})
	}
	return s, err
}

// inProcess starts the system in this process; every answer is held against the API's document.
func inProcess(t *testing.T) (server, error) {
	v, err := apitest.New()
	if err != nil {
		return server{}, err
	}
	s, err := start(t)
	if err != nil {
		return server{}, err
	}
	direct := v.WrapHandler(s.Handler(), func(err error) { t.Error(err) })
	return server{base: "http://demo.test", transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/metrics" { // beside the API, not part of it
			rec := httptest.NewRecorder()
			s.Handler().ServeHTTP(rec, r)
			return rec.Result(), nil
		}
		return direct.RoundTrip(r)
	})}, nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// spoilt starts the system in this process behind something that changes its answers.
func spoilt(change func(*httptest.ResponseRecorder)) func(*testing.T) (server, error) {
	return func(t *testing.T) (server, error) {
		s, err := start(t)
		if err != nil {
			return server{}, err
		}
		// Patience is what the run spends on a fault that never goes away.
		return server{base: "http://demo.test", patience: 10 * time.Second, transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			rec := httptest.NewRecorder()
			s.Handler().ServeHTTP(rec, r)
			change(rec)
			return rec.Result(), nil
		})}, nil
	}
}

func replace(rec *httptest.ResponseRecorder, pattern, with string) {
	text := regexp.MustCompile(pattern).ReplaceAllString(rec.Body.String(), with)
	rec.Body.Reset()
	rec.Body.WriteString(text)
}

// The beginnings of the two functions that predict, as they stand in package wait.
const (
	level = "func Level(free []int64, q int64) int64 {"
	room  = "func Room(free []int64, level int64) int64 {"
)

// patched builds the runner with the beginnings of Level and Room replaced, and starts it. What ships has no switch
// for this.
func patched(beginnings ...string) func(*testing.T) (server, error) {
	return func(t *testing.T) (server, error) {
		file, err := filepath.Abs("../../pkg/wait/wait.go")
		if err != nil {
			return server{}, err
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return server{}, err
		}
		text := string(source)
		for i, with := range beginnings {
			old := []string{level, room}[i]
			if strings.Count(text, old) != 1 {
				return server{}, fmt.Errorf("%s does not have %q once", file, old)
			}
			text = strings.Replace(text, old, with, 1)
		}
		dir := t.TempDir()
		changed, overlay, bin := filepath.Join(dir, "wait.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "runner")
		list, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
		if err != nil {
			return server{}, err
		}
		for name, data := range map[string][]byte{changed: []byte(text), overlay: list} {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				return server{}, err
			}
		}
		cmd := exec.Command("go", "build", "-overlay", overlay, "-o", bin, "github.com/lanekeeper/lanekeeper/localstack/run")
		if out, err := cmd.CombinedOutput(); err != nil {
			return server{}, fmt.Errorf("%w\n%s", err, out)
		}
		s, err := contract.Launch(context.Background(), bin, Configuration())
		if err != nil {
			return server{}, err
		}
		t.Cleanup(s.Stop)
		return server{base: s.Base}, nil
	}
}

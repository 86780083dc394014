package e2e

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/localstack/stack"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

// quick are the cases that end within moments; make e2e runs all.
var quick = regexp.MustCompile(`^(the service|a task of class|a large|the same key|tasks are|without|with an|an |no |a deadline|a priority|a foreign)`)

func TestQuickCasesOnTheEmbeddedEngine(t *testing.T) {
	cfg, err := policyfile.Parse("lanekeeper.yaml", Configuration())
	if err != nil {
		t.Fatal(err)
	}
	s, err := stack.Start(context.Background(), stack.Options{Config: cfg, DataDir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	var out bytes.Buffer
	passed, failed := Run(context.Background(), Config{Base: s.URL, Out: &out, Only: quick})
	if failed > 0 || passed < 15 {
		t.Errorf("%d passed, %d failed\n%s", passed, failed, &out)
	}
}

// TestAServerThatIsNone: nothing passes against a server that answers nonsense.
func TestAServerThatIsNone(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusAccepted, http.StatusNotFound, http.StatusServiceUnavailable} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{}`))
		}))
		var out bytes.Buffer
		if passed, failed := Run(context.Background(), Config{Base: srv.URL, Out: &out, Only: quick}); passed > 0 || failed < 15 {
			t.Errorf("status %d: %d passed, %d failed\n%s", status, passed, failed, &out)
		}
		srv.Close()
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, one := range Cases() {
		if seen[one.Name] || strings.TrimSpace(one.Name) == "" {
			t.Errorf("two cases are named %q", one.Name)
		}
		seen[one.Name] = true
	}
}

package contract

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

// runnerEnv makes this test's binary play the runner: "serve" or "die".
const runnerEnv = "LANEKEEPER_TEST_RUNNER"

func TestMain(m *testing.M) {
	switch os.Getenv(runnerEnv) {
	case "":
		os.Exit(m.Run())
	case "serve":
		err := http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			text, _ := os.ReadFile(os.Getenv("LANEKEEPER_CONFIG"))
			_, _ = w.Write(append([]byte(os.Getenv("DATA_DIR")+"\n"), text...))
		}))
		println(err.Error())
		os.Exit(1)
	default:
		println("no such thing as a runner")
		os.Exit(3)
	}
}

func TestLaunchStartsAndStops(t *testing.T) {
	t.Setenv(runnerEnv, "serve")
	bin, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Launch(context.Background(), bin, []byte("version: 1"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	resp, err := http.Get(s.Base)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text := make([]byte, 1000)
	n, _ := resp.Body.Read(text)
	dir, config, _ := strings.Cut(string(text[:n]), "\n")
	if filepath.Dir(dir) != filepath.Dir(s.Log) || config != "version: 1" {
		t.Errorf("data in %s, configuration %q", dir, config)
	}
	s.Stop()
	s.Stop()
	if _, err := http.Get(s.Base); err == nil {
		t.Error("it still answers")
	}
	if _, err := os.Stat(filepath.Dir(s.Log)); !os.IsNotExist(err) {
		t.Errorf("its directory is still there: %v", err)
	}
}

func TestLaunchSaysWhyItFailed(t *testing.T) {
	t.Setenv(runnerEnv, "die")
	bin, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Launch(context.Background(), bin, nil); err == nil || !strings.Contains(err.Error(), "ended before") || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("got %v", err)
	}
}

// The configurations of the cases with their own server are right, whatever they vary.
func TestOwnConfigurationsAreValid(t *testing.T) {
	t.Parallel()
	for _, l := range []limits{{}, {queuedWorkMS: 12_345}, {laneWorkMS: 20_000}, {rate: 1, burst: 3}, {maxActive: 1}} {
		if _, err := policyfile.Parse("contract.yaml", l.yaml()); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const demo = "../../localstack/lanekeeper.yaml"

// call runs the command as a shell would.
func call(stdin string, args ...string) (status int, out, errOut string) {
	var o, e bytes.Buffer
	status = run(args, strings.NewReader(stdin), &o, &e)
	return status, o.String(), e.String()
}

func TestCheckOfASoundFile(t *testing.T) {
	t.Parallel()
	status, out, errOut := call("", "config", "check", demo)
	if status != 0 || errOut != "" {
		t.Fatalf("status %d, %s", status, errOut)
	}
	lines := strings.Split(out, "\n")
	if lines[0] != demo+": ok" || !strings.HasPrefix(lines[1], "hash: ") || len(lines[1]) != len("hash: ")+64 {
		t.Errorf("begins with\n%s\n%s", lines[0], lines[1])
	}
	want := `warnings:
  tenants, operators: 4 keys stand here in plain text; that is for demonstrations and local use
other lanes, by learning and by tier:
  agent.lint: standard → heavy
  mail.send: critical → standard
  report.export bucket small: standard → heavy
not yet in force: none
metrics: at most 145 series, $43.50 a month at $0.30 each:
      64  agent_admission_total{decision,task_class,tenant_tier} = 8 decisions × 4 classes × 2 tiers
       4  agent_queue_estimated_work_seconds{lane} = 4 lanes
       4  agent_queue_oldest_age_seconds{lane} = 4 lanes
       7  agent_task_start_delay_seconds{lane,task_class} = 7 pairs of lane and class
       4  agent_service_seconds{task_class} = 4 classes
       2  agent_deadline_miss_total{stage} = 2 stages
      60  per lane: queue_wait_ms and process_ms (p50, p95, p99) and 9 more = 15 × 4 lanes
       0  downstream_budget_usage{dependency} = 0 dependencies
`
	if got := strings.Join(lines[2:], "\n"); got != want {
		t.Errorf("got\n%s\nwanted\n%s", got, want)
	}
}

func TestCheckOfStandardInput(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(demo)
	if err != nil {
		t.Fatal(err)
	}
	_, fromFile, _ := call("", "config", "check", demo)
	status, out, errOut := call(string(text), "config", "check", "-")
	if status != 0 || errOut != "" || out != strings.Replace(fromFile, demo, "standard input", 1) {
		t.Errorf("status %d\n%s%s", status, out, errOut)
	}
}

func TestCheckReportsEveryFaultAndCounts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(demo)
	if err != nil {
		t.Fatal(err)
	}
	bad := strings.Replace(string(text), "max_concurrency: 4", "max_concurrency: 5", 1)
	bad = strings.Replace(bad, "max_active: 2 ", "max_aktive: 2 ", 1)
	file := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errOut := call("", "config", "check", file)
	line := func(part string) string { // of the demo file, whose comments may grow
		before, _, _ := strings.Cut(bad, part)
		return strconv.Itoa(strings.Count(before, "\n") + 1)
	}
	want := file + ":" + line("max_concurrency: 5") + `:32: lanes.critical.workers.max_concurrency: must be at most reserved (4), is 5: throttled deliveries would go to the DLQ unrun
` + file + ":" + line("  basic:\n") + `:3: tiers.basic.max_active: is missing
` + file + ":" + line("max_aktive") + `:5: tiers.basic.max_aktive: unknown key; max_active is meant?
` + file + `: 3 faults
`
	if status != 1 || out != "" || errOut != want {
		t.Errorf("status %d, out %q, got\n%s\nwanted\n%s", status, out, errOut, want)
	}
	if status, _, errOut := call("", "config", "check", "-"); status != 1 || errOut != "standard input:1:1: the file is empty\nstandard input: 1 fault\n" {
		t.Errorf("empty input: %d %q", status, errOut)
	}
}

func TestWrongUse(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"config"}, {"config", "check"}, {"config", "check", "a", "b"}, {"config", "czech", demo},
		{"config", "check", "--quick", demo}, {"conf"}, {"config", "check", filepath.Join(t.TempDir(), "none.yaml")}} {
		if status, out, errOut := call("", args...); status != 2 || out != "" || !strings.Contains(errOut, "lanekeeper: ") {
			t.Errorf("%q: status %d, out %q, err %q", args, status, out, errOut)
		}
	}
	if status, out, _ := call("", "--help"); status != 0 || !strings.Contains(out, "config") {
		t.Errorf("help: status %d, %q", status, out)
	}
}

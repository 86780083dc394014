package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/environment"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
	"github.com/lanekeeper/lanekeeper/pkg/telemetry"
)

func load(t *testing.T, name string) *Plan {
	t.Helper()
	e, err := environment.Load("../environments/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := policyfile.Load(e.ConfigPath())
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(e, cfg, Options{Redrive: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEnvironmentsArePlanned(t *testing.T) {
	for _, name := range []string{"dev", "staging", "prod"} {
		if p := load(t, name); len(p.Lanes) != 4 || p.Reserved() != 12 {
			t.Errorf("%s: %d lanes, %d reserved", name, len(p.Lanes), p.Reserved())
		}
	}
}

// TestRulesAreKept breaks each rule of the package comment.
func TestRulesAreKept(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*Plan)
		want  string
	}{
		{"concurrency of one", func(p *Plan) { p.Lanes[0].MaxConcurrency = 1 }, "must be from 2"},
		{"above the reserve", func(p *Plan) { p.Lanes[0].MaxConcurrency = 5 }, "above the reserve of 4"},
		{"quota", func(p *Plan) { p.Env.AccountConcurrency = 111 }, "reserve 12 concurrent executions; the quota of 111 leaves 11"},
		{"new account", func(p *Plan) { p.Env.AccountConcurrency = 10 }, "leaves 0"},
		{"visibility", func(p *Plan) { p.Lanes[0].VisibilityS-- }, "below 420 s"},
		{"window", func(p *Plan) { p.Lanes[0].WindowS = 1 }, "below 421 s"},
		{"visibility above SQS's", func(p *Plan) { p.Lanes[0].VisibilityS = 43201 }, "12 hours"},
		{"receives", func(p *Plan) { p.Lanes[0].MaxReceives = 4 }, "fewer than 5"},
		{"timeout", func(p *Plan) { p.Lanes[0].Worker.TimeoutS = 901 }, "900 s"},
		{"names", func(p *Plan) { p.Lanes[0].Worker.Name = p.Admission.Name }, "two functions"},
		{"queue names", func(p *Plan) { p.Lanes[0].Queue = p.Lanes[1].DeadLetters }, "two queues are named lanekeeper-dev-heavy-dlq"},
		{"environment", func(p *Plan) { p.Admission.Env["X"] = strings.Repeat("x", 4096) }, "4 KB"},
	} {
		p := load(t, "dev")
		if err := p.check(); err != nil {
			t.Fatal(err)
		}
		c.spoil(p)
		if err := p.check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestSmallAccountsReserveNothing(t *testing.T) {
	p := load(t, "dev")
	p.Env.Reservations, p.Env.AccountConcurrency = false, 10
	small, err := New(p.Env, p.Config, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if small.Reserved() != 0 || small.Redrive != nil {
		t.Errorf("%d reserved, redrive %v", small.Reserved(), small.Redrive)
	}
}

func TestOwnWorkerBinaries(t *testing.T) {
	p := load(t, "dev")
	p.Env.Workers = map[string]string{"heavy": "/opt/mine"}
	own, err := New(p.Env, p.Config, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range own.Lanes {
		want := "worker"
		if l.Name == "heavy" {
			want = "worker-heavy"
		}
		if l.Worker.Package != want {
			t.Errorf("lane %s runs %s, want %s", l.Name, l.Worker.Package, want)
		}
	}
}

// TestAlarmsWatchWhatIsEmitted holds our own metrics to their declarations: an
// alarm on a metric that nobody emits never rings.
func TestAlarmsWatchWhatIsEmitted(t *testing.T) {
	p := load(t, "prod")
	keys := map[string]bool{}
	for _, a := range p.Alarms {
		if keys[a.Key] {
			t.Errorf("two alarms %s", a.Key)
		}
		keys[a.Key] = true
		if len(a.Description) > 1024 {
			t.Errorf("%s: the description has %d characters", a.Key, len(a.Description))
		}
		for _, q := range a.Queries {
			if q.Metric.Namespace != p.Env.Namespace() {
				continue
			}
			m, ok := telemetry.Find(q.Metric.Name)
			if !ok || len(m.Dimensions) != len(q.Metric.Dimensions) {
				t.Errorf("%s: %s%v is not emitted", a.Key, q.Metric.Name, q.Metric.Dimensions)
				continue
			}
			for i, d := range q.Metric.Dimensions {
				if d.Name != m.Dimensions[i] {
					t.Errorf("%s: dimension %s, emitted with %s", a.Key, d.Name, m.Dimensions[i])
				}
			}
		}
	}
}

func TestEveryLaneHasItsAlarms(t *testing.T) {
	p := load(t, "prod")
	have := map[string]bool{}
	for _, a := range p.Alarms {
		have[a.Key] = true
	}
	for _, l := range p.Lanes {
		for _, what := range []string{"oldest-age", "message-age", "sla-window", "start-delay", "dlq-inflow", "dlq-visible", "quarantine-inflow", "no-invocations", "throttles"} {
			if !have[l.Name+"-"+what] {
				t.Errorf("lane %s has no alarm %s", l.Name, what)
			}
		}
	}
	for _, key := range []string{"deadline-miss-start", "deadline-miss-finish", "aggregator-late", "ledger-drift"} {
		if !have[key] {
			t.Errorf("no alarm %s", key)
		}
	}
}

// TestRunbookHasTheSections that alarms send people to.
func TestRunbookHasTheSections(t *testing.T) {
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(string(text), -1) {
		have[Runbook(m[1])] = true
	}
	for _, a := range load(t, "prod").Alarms {
		if !have[a.Section] {
			t.Errorf("docs/runbook.md has no section %q, which alarm %s names", a.Section, a.Key)
		}
	}
}

func TestDashboard(t *testing.T) {
	var d struct {
		Widgets []struct {
			Type                string
			X, Y, Width, Height int
			Properties          struct {
				Markdown, Region string
				Metrics          []any
			}
		}
	}
	if err := json.Unmarshal([]byte(load(t, "prod").Dashboard), &d); err != nil {
		t.Fatal(err)
	}
	var questions []string
	taken := map[[2]int]bool{}
	for _, w := range d.Widgets {
		if w.Type == "text" {
			questions = append(questions, w.Properties.Markdown)
		} else if w.Properties.Region == "" || len(w.Properties.Metrics) == 0 {
			t.Errorf("a chart without region or metrics: %+v", w)
		}
		for x := w.X; x < w.X+w.Width; x++ {
			for y := w.Y; y < w.Y+w.Height; y++ {
				if taken[[2]int{x, y}] || x >= columns {
					t.Fatalf("widgets overlap or stick out at %d, %d", x, y)
				}
				taken[[2]int{x, y}] = true
			}
		}
	}
	want := "## Is anyone waiting too long?|## Who is refused, and why?|## Are the predictions right?|## Which dependency is the cause?"
	if got := strings.Join(questions, "|"); got != want {
		t.Errorf("asks %s", got)
	}
}

// TestThirtyLanes: as many as draw no warning fit a function's environment.
func TestThirtyLanes(t *testing.T) {
	text, err := os.ReadFile("../../localstack/lanekeeper.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var lanes strings.Builder
	for i := range 26 {
		fmt.Fprintf(&lanes, "  a-lane-with-a-name-%02d:\n    owner: o\n    slo: {queue_wait_p95: 5m, oldest_age: 15m}\n    workers: {max_concurrency: 2, reserved: 2}\n    retry: {max_attempts: 3}\n    dlq: {max_receives: 5}\n    brakes: []\n", i)
	}
	cfg, err := policyfile.Parse("thirty", []byte(strings.Replace(string(text), "  critical:  ", lanes.String()+"  critical:  ", 1)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(load(t, "staging").Env, cfg, Options{Redrive: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Lanes) != 30 {
		t.Errorf("%d lanes", len(p.Lanes))
	}
}

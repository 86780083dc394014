package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stream has the shape of govulncheck's output: a called dependency, the same
// one at module level, an uncalled dependency, a called standard library.
const stream = `
{"config":{"protocol_version":"v1.0.0","scanner_name":"govulncheck"}}
{"progress":{"message":"Checking the code..."}}
{"osv":{"id":"GO-2099-0001","summary":"called in a dependency"}}
{"osv":{"id":"GO-2099-0002","summary":"only required"}}
{"osv":{"id":"GO-2099-0003","summary":"in the toolchain"}}
{"finding":{"osv":"GO-2099-0001","fixed_version":"v1.2.3","trace":[{"module":"example.com/dep","version":"v1.0.0"}]}}
{"finding":{"osv":"GO-2099-0001","fixed_version":"v1.2.3","trace":[{"module":"example.com/dep","version":"v1.0.0","package":"example.com/dep"}]}}
{"finding":{"osv":"GO-2099-0001","fixed_version":"v1.2.3","trace":[{"module":"example.com/dep","version":"v1.0.0","package":"example.com/dep","function":"Bad"},{"module":"example.com/us","package":"example.com/us/pkg","function":"Caller"}]}}
{"finding":{"osv":"GO-2099-0002","fixed_version":"v2.0.0","trace":[{"module":"example.com/other","version":"v1.9.0","package":"example.com/other/sub"}]}}
{"finding":{"osv":"GO-2099-0003","fixed_version":"v1.99.1","trace":[{"module":"stdlib","version":"v1.99.0","package":"net/http","function":"Do"},{"module":"example.com/us","package":"example.com/us/cmd","function":"main"}]}}
`

func TestJudge(t *testing.T) {
	findings, err := parseReport(strings.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	if len(findings) != 3 {
		t.Fatalf("%d findings, want 3: %v", len(findings), findings)
	}

	v := judge(findings, nil)
	if len(v.failing) != 1 || v.failing[0].id != "GO-2099-0001" || len(v.toolchain) != 1 || v.uncalled != 1 {
		t.Errorf("wrong verdict %+v", v)
	}
	var out bytes.Buffer
	v.print(&out)
	for _, want := range []string{
		"FAIL: GO-2099-0001  example.com/dep@v1.0.0, fixed in v1.2.3: called in a dependency",
		"called from example.com/us/pkg.Caller",
		"warning (toolchain): GO-2099-0003",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}

	v = judge(findings, map[string]string{"GO-2099-0001": "reason", "GO-2099-0002": "never called, so stale"})
	if len(v.failing) != 0 || len(v.accepted) != 1 || !slices.Equal(v.stale, []string{"GO-2099-0002"}) {
		t.Errorf("wrong verdict with accepted ones %+v", v)
	}
}

func TestParseReportRefusesWhatIsNoReport(t *testing.T) {
	for _, bad := range []string{"", "{}", "not json", `{"config":{}} {"finding":`} {
		if findings, err := parseReport(strings.NewReader(bad)); err == nil {
			t.Errorf("%q gave %v and no error", bad, findings)
		}
	}
}

func TestParseAccepted(t *testing.T) {
	got, err := parseAccepted("# why\n\nGO-2099-0001 only in tests\n")
	if err != nil || got["GO-2099-0001"] != "only in tests" || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"GO-2099-0001", "CVE-2099-1 reason", "GO-2099-0001  "} {
		if _, err := parseAccepted(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestReportsRefusesAnEmptyDatabase(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data", "osv"), 0o755); err != nil {
		t.Fatal(err)
	}
	if db, err := reports(dir, "v0.0.0"); err == nil {
		t.Errorf("took the empty %+v", db)
	}
}

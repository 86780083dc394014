package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// stdlib is how govulncheck names the standard library as a module.
const stdlib = "stdlib"

// message is one value of govulncheck's JSON stream, as far as we read it
// (golang.org/x/vuln/internal/govulncheck, protocol v1).
type message struct {
	Config  *struct{}   `json:"config"`
	OSV     *osvEntry   `json:"osv"`
	Finding *rawFinding `json:"finding"`
}

type osvEntry struct {
	ID      string `json:"id"`
	Summary string `json:"summary"`
}

type rawFinding struct {
	OSV          string  `json:"osv"`
	FixedVersion string  `json:"fixed_version"`
	Trace        []frame `json:"trace"` // from the vulnerable symbol to our code
}

type frame struct {
	Module   string `json:"module"`
	Version  string `json:"version"`
	Package  string `json:"package"`
	Function string `json:"function"` // only when a call was found
	Receiver string `json:"receiver"`
}

// finding is one vulnerability in one module.
type finding struct {
	id, module, version, fixed, summary string
	called                              bool
	from                                string // our function that reaches it, when called
}

func (f finding) String() string {
	fixed := f.fixed
	if fixed == "" {
		fixed = "no version yet"
	}
	s := fmt.Sprintf("%s  %s@%s, fixed in %s: %s", f.id, f.module, f.version, fixed, f.summary)
	if f.from != "" {
		s += "\n    called from " + f.from
	}
	return s
}

// parseReport reads govulncheck's stream and merges its findings, of which
// there is one per module, per package and per symbol.
func parseReport(r io.Reader) ([]finding, error) {
	summaries := map[string]string{}
	merged := map[[2]string]finding{}
	started := false
	for decoder := json.NewDecoder(r); ; {
		var m message
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("govulncheck's output: %w", err)
		}
		started = started || m.Config != nil
		if m.OSV != nil {
			summaries[m.OSV.ID] = m.OSV.Summary
		}
		if m.Finding == nil || len(m.Finding.Trace) == 0 {
			continue
		}
		top, ours := m.Finding.Trace[0], m.Finding.Trace[len(m.Finding.Trace)-1]
		key := [2]string{m.Finding.OSV, top.Module}
		f := merged[key]
		f.id, f.module, f.version, f.fixed = m.Finding.OSV, top.Module, top.Version, m.Finding.FixedVersion
		if top.Function != "" && !f.called {
			f.called, f.from = true, ours.Package+"."+ours.Function
		}
		merged[key] = f
	}
	if !started {
		return nil, errors.New("govulncheck printed no report")
	}
	findings := slices.Collect(maps.Values(merged))
	for i := range findings {
		findings[i].summary = summaries[findings[i].id]
	}
	slices.SortFunc(findings, func(a, b finding) int { return strings.Compare(a.id+a.module, b.id+b.module) })
	return findings, nil
}

// verdict sorts findings by what is to be done about them.
type verdict struct {
	failing   []finding // called, in a dependency
	accepted  []finding // the same, but listed with a reason
	toolchain []finding // called, in the standard library
	uncalled  int       // required or imported, but not called
	stale     []string  // accepted ids that were not found
}

func judge(findings []finding, accepted map[string]string) verdict {
	var v verdict
	used := map[string]bool{}
	for _, f := range findings {
		_, ok := accepted[f.id]
		switch {
		case !f.called:
			v.uncalled++
		case f.module == stdlib:
			v.toolchain = append(v.toolchain, f)
		case ok:
			used[f.id] = true
			v.accepted = append(v.accepted, f)
		default:
			v.failing = append(v.failing, f)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(accepted)) {
		if !used[id] {
			v.stale = append(v.stale, id)
		}
	}
	return v
}

func (v verdict) print(w io.Writer) {
	section := func(title string, findings []finding) {
		for _, f := range findings {
			_, _ = fmt.Fprintf(w, "%s: %s\n", title, f)
		}
	}
	section("warning (toolchain)", v.toolchain)
	section("accepted", v.accepted)
	section("FAIL", v.failing)
	_, _ = fmt.Fprintf(w, "vulnerabilities called: %d in dependencies (%d of them accepted), %d in the toolchain; present but not called: %d\n",
		len(v.failing)+len(v.accepted), len(v.accepted), len(v.toolchain), v.uncalled)
}

// parseAccepted reads lines "GO-2026-1234 reason"; # starts a comment.
func parseAccepted(text string) (map[string]string, error) {
	accepted := map[string]string{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, reason, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(id, "GO-") || strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("%s:%d: want an id and a reason, got %q", acceptedFile, i+1, line)
		}
		accepted[id] = strings.TrimSpace(reason)
	}
	return accepted, nil
}

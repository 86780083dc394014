package archtest

import (
	"slices"
	"strings"
	"testing"
)

const fakeModule = "example.com/lane"

// concrete turns a pattern into an import path that it matches.
func concrete(pattern string) string {
	switch {
	case pattern == ".":
		return fakeModule + "/anything"
	case strings.HasPrefix(pattern, "./"):
		return fakeModule + "/" + pattern[2:]
	case strings.HasPrefix(pattern, "std:"):
		return strings.TrimSuffix(pattern[4:], "/...")
	}
	return pattern
}

// TestEveryRuleCanFail breaks each rule in each way that it forbids.
func TestEveryRuleCanFail(t *testing.T) {
	for _, r := range rules {
		if r.why == "" || r.only == nil && r.never == nil && r.links == nil {
			t.Errorf("rule %q gives no reason or forbids nothing", r.name)
		}
		for _, from := range r.from {
			from = concrete(from)
			expect := func(how string, nodes map[string]node) {
				t.Helper()
				if faults := (graph{fakeModule, nodes}).check(r); len(faults) != 1 || !strings.Contains(faults[0], from) {
					t.Errorf("rule %q, %s %s: got %q, want one fault", r.name, from, how, faults)
				}
			}
			if r.only != nil {
				expect("imports a stranger", map[string]node{from: {imports: []string{"example.org/stranger"}}})
			}
			for _, target := range r.never {
				target = concrete(target)
				if slices.Contains(r.links, target) {
					continue // tried below; here it would be reported twice
				}
				expect("imports "+target, map[string]node{from: {imports: []string{target}}})
				if r.tests {
					expect("tests "+target, map[string]node{from: {testImports: []string{target}}})
				}
			}
			for _, target := range r.links {
				between := "example.org/between"
				expect("links "+target, map[string]node{
					from:    {imports: []string{between}},
					between: {imports: []string{concrete(target)}},
				})
			}
		}
	}
}

func TestRulesAllowWhatTheyShould(t *testing.T) {
	in := func(p string) string { return fakeModule + "/" + p }
	g := graph{fakeModule, map[string]node{
		in("pkg/admission"):         {imports: []string{"math", "time", in("pkg/wait")}, testImports: []string{"context", "pgregory.net/rapid"}},
		in("pkg/policy/policyfile"): {imports: []string{"os", "github.com/goccy/go-yaml/ast", in("pkg/policy")}},
		in("pkg/op"):                {imports: []string{"context"}},
		in("pkg/op/optest"):         {imports: []string{"testing", "pgregory.net/rapid"}},
		in("pkg/dynamo"):            {imports: []string{in("pkg/op"), in("pkg/dynamo/internal/render"), "github.com/aws/aws-sdk-go-v2/service/dynamodb"}},
		in("infra"):                 {imports: []string{"github.com/aws/aws-cdk-go/awscdk/v2", in("pkg/policy/policyfile")}},
		in("localstack/run"):        {imports: []string{in("pkg/intake"), "modernc.org/sqlite"}},
		in("functions/worker"):      {imports: []string{in("pkg/dynamo"), "github.com/aws/aws-lambda-go/lambda"}},
		in("cmd/demo"):              {imports: []string{in("localstack/run")}},
		in("pkg/operator"):          {imports: []string{"net/http"}}, // not below pkg/op
		"modernc.org/sqlite":        {imports: []string{"database/sql"}},
	}}
	for _, r := range rules {
		if faults := g.check(r); len(faults) != 0 {
			t.Errorf("rule %q: %q", r.name, faults)
		}
	}
}

func TestPatterns(t *testing.T) {
	g := graph{module: fakeModule}
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"std", "net/http", true},
		{"std", "example.org/x", false},
		{"std", fakeModule, false},
		{"std:net", "net", true},
		{"std:net", "net/url", false},
		{"std:net/...", "net", true},
		{"std:net/...", "net/url", true},
		{"std:net/...", "network", false},
		{".", fakeModule + "/pkg", true},
		{".", fakeModule + "r/pkg", false},
		{"./pkg/op", fakeModule + "/pkg/op", true},
		{"./pkg/op", fakeModule + "/pkg/op/optest", true},
		{"./pkg/op", fakeModule + "/pkg/operator", false},
		{"example.org/x", "example.org/x/y", true},
		{"example.org/x", "example.org/xy", false},
	} {
		if got := g.matches(c.pattern, c.path); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.path, got)
		}
	}
}

func TestHomeless(t *testing.T) {
	g := graph{fakeModule, map[string]node{fakeModule + "/pkg/a/b": {}, fakeModule + "/pkg/c": {}, fakeModule + "/cmd/d": {}}}
	if got := g.homeless([]string{"./pkg/a"}); len(got) != 1 || !strings.Contains(got[0], "/pkg/c ") {
		t.Errorf("got %q, want pkg/c alone", got)
	}
}

func TestUnmatched(t *testing.T) {
	g := graph{fakeModule, map[string]node{fakeModule + "/pkg/a": {}}}
	table := []rule{{name: "r", from: []string{"./pkg/a", "./pkg/typo"}, never: []string{"./pkg/soon", "std:net", "example.org/x"}}}
	if got := g.unmatched(table, []string{"./pkg/soon"}); len(got) != 1 || !strings.Contains(got[0], "./pkg/typo") {
		t.Errorf("got %q, want the typo alone", got)
	}
	if got := g.unmatched(nil, []string{"./pkg/a"}); len(got) != 1 || !strings.Contains(got[0], "remove it") {
		t.Errorf("got %q, want to be told that ./pkg/a exists", got)
	}
}

func TestCheckLength(t *testing.T) {
	lines := func(n int) []byte { return []byte(strings.Repeat("x\n", n)) }
	for _, c := range []struct {
		source source
		long   bool
	}{
		{source{"functions/worker/main.go", lines(maxMainLines)}, false},
		{source{"functions/worker/main.go", lines(maxMainLines + 1)}, true},
		{source{"functions/internal/pack/main.go", lines(maxMainLines + 1)}, false},
		{source{"pkg/op/op.go", lines(maxFileLines)}, false},
		{source{"pkg/op/op.go", lines(maxFileLines + 1)}, true},
		{source{"pkg/op/op.go", append([]byte("// Code generated by x. DO NOT EDIT.\n"), lines(maxFileLines)...)}, false},
	} {
		if fault := checkLength(c.source); (fault != "") != c.long {
			t.Errorf("%s with %d bytes: %q", c.source.path, len(c.source.data), fault)
		}
	}
}

func TestCheckPurity(t *testing.T) {
	const head = "package p\nimport (\n\"time\"\nclock \"time\"\n\"math/rand/v2\"\n)\n"
	for body, want := range map[string]int{
		"var _ = time.Now()":                            1,
		"var _ = clock.Since":                           1,
		"func f() { time.Sleep(1); <-time.After(1) }":   2,
		"var _ = rand.IntN(3)":                          1,
		"var _ = rand.New(rand.NewPCG(1, 2))":           0,
		"func f(r *rand.Rand) int { return r.IntN(3) }": 0,
		"const _ = time.Second":                         0,
	} {
		faults, err := checkPurity(source{"p.go", []byte(head + body)})
		if err != nil || len(faults) != want {
			t.Errorf("%s: %q (%v), want %d faults", body, faults, err, want)
		}
	}
}

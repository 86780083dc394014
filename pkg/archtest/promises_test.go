package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPromisesNameTheirTests: docs/promises.md names, for each promise, tests that
// exist.
func TestPromisesNameTheirTests(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "docs", "promises.md"))
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{} // by package folder
	name := regexp.MustCompile("`([a-z/]+): (Test[A-Za-z0-9]+)`")
	promises := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| promise") || strings.HasPrefix(line, "| ---") {
			continue
		}
		promises++
		named := name.FindAllStringSubmatch(line, -1)
		if len(named) == 0 {
			t.Errorf("a promise without a test: %.80s", line)
		}
		for _, m := range named {
			dir, test := m[1], m[2]
			if sources[dir] == "" {
				files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range files {
					b, err := os.ReadFile(f)
					if err != nil {
						t.Fatal(err)
					}
					sources[dir] += string(b)
				}
			}
			if !strings.Contains(sources[dir], "\nfunc "+test+"(") {
				t.Errorf("%s has no test %s", dir, test)
			}
		}
	}
	if promises < 20 {
		t.Errorf("only %d promises were found", promises)
	}
}

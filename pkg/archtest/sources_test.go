package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root = "../.." // of the module

	maxMainLines = 40  // of a function's main.go, which only wires
	maxFileLines = 500 // of any Go file that a person maintains; aim at 400
)

// timeless are the packages that take time and randomness as arguments.
var timeless = append(slices.Clone(domain), "./pkg/op", "./pkg/taskop")

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// source is a Go file; its path is relative to the module, with slashes.
type source struct {
	path string
	data []byte
}

// sources reads the module's Go files, tests included.
func sources(dir string) ([]source, error) {
	var found []source
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			hidden := strings.HasPrefix(base, ".") && base != ".ci" && name != dir
			if hidden || slices.Contains([]string{"node_modules", "build", "cdk.out"}, base) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(base) != ".go" {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		found = append(found, source{path: filepath.ToSlash(relative), data: data})
		return err
	})
	return found, err
}

// checkLength tells when a file is too long.
func checkLength(s source) string {
	if generated.Match(s.data) {
		return ""
	}
	limit, why := maxFileLines, "a file should fit in the head: split it by subject"
	if ok, _ := path.Match("functions/*/main.go", s.path); ok {
		limit, why = maxMainLines, "a function's main only wires: move the rest to a package with tests"
	}
	if lines := bytes.Count(s.data, []byte("\n")); lines > limit {
		return fmt.Sprintf("%s has %d lines, at most %d: %s", s.path, lines, limit, why)
	}
	return ""
}

var (
	clockCalls = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	// seeded are the functions of math/rand that take their source from outside.
	seeded = []string{"New", "NewSource", "NewPCG", "NewChaCha8", "NewZipf"}
)

// checkPurity lists the uses of the clock and of global randomness in a file.
func checkPurity(s source) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, s.path, s.data, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	names := map[string]string{} // the local name of a watched package → its path
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		local := map[string]string{"time": "time", "math/rand": "rand", "math/rand/v2": "rand"}[imported]
		if local == "" {
			continue
		}
		if spec.Name != nil {
			local = spec.Name.Name
		}
		names[local] = imported
	}
	var faults []string
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := selector.X.(*ast.Ident)
		if !ok {
			return true
		}
		bad := false
		switch imported := names[x.Name]; imported {
		case "time":
			bad = slices.Contains(clockCalls, selector.Sel.Name)
		case "math/rand", "math/rand/v2":
			// Types (rand.Rand, rand.Source) are fine; a call is not, unless seeded.
			bad = !slices.Contains(seeded, selector.Sel.Name) && !slices.Contains([]string{"Rand", "Source", "Source64", "PCG", "ChaCha8", "Zipf"}, selector.Sel.Name)
		}
		if bad {
			faults = append(faults, fmt.Sprintf("%s uses %s.%s: take it as an argument", files.Position(n.Pos()), x.Name, selector.Sel.Name))
		}
		return true
	})
	return faults, nil
}

// dependOnSources opens what go list reads: the go command caches a test's
// result by the files that the test itself opens.
func dependOnSources(t *testing.T) []source {
	t.Helper()
	for _, name := range []string{"go.mod", "go.sum"} {
		if _, err := os.ReadFile(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := sources(root)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestSources(t *testing.T) {
	files := dependOnSources(t)
	if len(files) < 20 {
		t.Fatalf("found only %d Go files", len(files))
	}
	pure := 0
	for _, s := range files {
		if fault := checkLength(s); fault != "" {
			t.Error(fault)
		}
		tested := strings.HasSuffix(s.path, "_test.go")
		inside := slices.ContainsFunc(timeless, func(p string) bool { return under("./"+s.path, p) })
		if tested || !inside {
			continue
		}
		pure++
		faults, err := checkPurity(s)
		if err != nil {
			t.Error(err)
		}
		for _, fault := range faults {
			t.Error(fault)
		}
	}
	if pure == 0 {
		t.Error("found no file that must be pure")
	}
}

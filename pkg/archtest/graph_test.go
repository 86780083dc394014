package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// node is one package of the import graph.
type node struct {
	imports     []string
	testImports []string // of its tests, directly
}

// graph maps import paths to packages, dependencies included.
type graph struct {
	module string
	nodes  map[string]node
}

// load reads the graph with the go command. Packages that do not compile are
// in it too: imports are known before types are.
func load(dir string) (graph, error) {
	module, err := goCommand(dir, "list", "-m")
	if err != nil {
		return graph{}, err
	}
	out, err := goCommand(dir, "list", "-e", "-deps", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	if err != nil {
		return graph{}, err
	}
	g := graph{module: strings.TrimSpace(string(module)), nodes: map[string]node{}}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath                         string
			Imports, TestImports, XTestImports []string
		}
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return g, nil
		}
		if err != nil {
			return graph{}, fmt.Errorf("go list: %w", err)
		}
		g.nodes[p.ImportPath] = node{imports: p.Imports, testImports: slices.Concat(p.TestImports, p.XTestImports)}
	}
}

func goCommand(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, stderr.String())
	}
	return out, nil
}

// matches tells whether the import path falls under the pattern (see rule).
func (g graph) matches(pattern, path string) bool {
	standard := isStandard(path) && !under(path, g.module)
	if pattern == "std" {
		return standard
	}
	if name, ok := strings.CutPrefix(pattern, "std:"); ok {
		if below, ok := strings.CutSuffix(name, "/..."); ok {
			return standard && under(path, below)
		}
		return standard && path == name
	}
	if pattern == "." {
		return under(path, g.module)
	}
	if name, ok := strings.CutPrefix(pattern, "./"); ok {
		return under(path, g.module+"/"+name)
	}
	return under(path, pattern)
}

func (g graph) matchesAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return g.matches(p, path) })
}

// isStandard: only paths outside the standard library begin with a host.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func under(path, prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }

// check returns one line per breach of the rule, sorted.
func (g graph) check(r rule) []string {
	var faults []string
	for _, path := range slices.Sorted(maps.Keys(g.nodes)) {
		if !g.matchesAny(r.from, path) || g.matchesAny(r.except, path) {
			continue
		}
		n := g.nodes[path]
		for _, imported := range n.imports {
			never := g.matchesAny(r.never, imported)
			// A package's own parts need not be listed, but may be denied.
			stray := r.only != nil && !g.matchesAny(r.only, imported) && !under(imported, path)
			if never || stray {
				faults = append(faults, fmt.Sprintf("%s imports %s", path, imported))
			}
		}
		if r.tests {
			for _, imported := range n.testImports {
				if g.matchesAny(r.never, imported) {
					faults = append(faults, fmt.Sprintf("the tests of %s import %s", path, imported))
				}
			}
		}
		if len(r.links) > 0 {
			if chain := g.find(path, r.links); chain != nil {
				faults = append(faults, fmt.Sprintf("%s links %s: %s", path, chain[len(chain)-1], strings.Join(chain, " → ")))
			}
		}
	}
	return faults
}

// find returns a shortest import chain from path to a package that matches, or
// nil. The package itself does not count.
func (g graph) find(path string, patterns []string) []string {
	from := map[string]string{path: ""}
	for queue := []string{path}; len(queue) > 0; queue = queue[1:] {
		for _, next := range g.nodes[queue[0]].imports {
			if _, seen := from[next]; seen {
				continue
			}
			from[next] = queue[0]
			if g.matchesAny(patterns, next) {
				var chain []string
				for p := next; p != ""; p = from[p] {
					chain = append(chain, p)
				}
				slices.Reverse(chain)
				return chain
			}
			queue = append(queue, next)
		}
	}
	return nil
}

// unmatched returns the module's own patterns in the rules that no package
// answers to, and those of unwritten that exist.
func (g graph) unmatched(rules []rule, unwritten []string) []string {
	exists := func(pattern string) bool {
		for path := range g.nodes {
			if g.matches(pattern, path) {
				return true
			}
		}
		return false
	}
	faults := map[string]bool{}
	for _, r := range rules {
		for _, pattern := range slices.Concat(r.from, r.except, r.only, r.never, r.links) {
			if strings.HasPrefix(pattern, ".") && !slices.Contains(unwritten, pattern) && !exists(pattern) {
				faults[fmt.Sprintf("a rule names %s, which does not exist", pattern)] = true
			}
		}
	}
	for _, pattern := range unwritten {
		if exists(pattern) {
			faults[fmt.Sprintf("%s exists: remove it from unwritten", pattern)] = true
		}
	}
	return slices.Sorted(maps.Keys(faults))
}

// homeless returns the packages of pkg that stand in no layer.
func (g graph) homeless(layers []string) []string {
	var faults []string
	for _, path := range slices.Sorted(maps.Keys(g.nodes)) {
		if g.matches("./pkg", path) && !g.matchesAny(layers, path) {
			faults = append(faults, fmt.Sprintf("%s stands in no layer: add it to one in rules_test.go", path))
		}
	}
	return faults
}

func TestImports(t *testing.T) {
	dependOnSources(t)
	g, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		t.Run(strings.ReplaceAll(r.name, " ", "_"), func(t *testing.T) {
			for _, fault := range g.check(r) {
				t.Errorf("%s\n\twhy not: %s", fault, r.why)
			}
		})
	}
	for _, fault := range slices.Concat(g.unmatched(rules, unwritten), g.homeless(layers)) {
		t.Error(fault)
	}
}

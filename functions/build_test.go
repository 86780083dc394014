package functions_test

import (
	"archive/zip"
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// required are the functions that a deployment cannot do without.
var required = []string{"admission", "aggregator", "redrive", "worker"}

// maxZip is what we allow a package, in bytes: cold starts grow with it.
const maxZip = 12_000_000

// unwanted are parts of module paths that a function must never link.
var unwanted = []string{"awscdk", "jsii", "constructs-go", "minidyn", "sqlite", "kumo", "rapid", "kin-openapi"}

// TestPackages builds all packages once, by the command of `make build`.
func TestPackages(t *testing.T) {
	dependOnSources(t)
	out := t.TempDir()
	cmd := exec.Command("go", "run", "./internal/pack", "-o", out)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, output)
	}

	zips, err := filepath.Glob(filepath.Join(out, "*.zip"))
	if err != nil {
		t.Fatal(err)
	}
	var built []string
	for _, path := range zips {
		name := strings.TrimSuffix(filepath.Base(path), ".zip")
		built = append(built, name)
		t.Run(name, func(t *testing.T) { checkPackage(t, path) })
	}
	for _, name := range required {
		if !slices.Contains(built, name) {
			t.Errorf("no package for %s among %v", name, built)
		}
	}
}

func checkPackage(t *testing.T, path string) {
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() >= maxZip {
		t.Errorf("%d bytes, must be under %d", info.Size(), maxZip)
	}
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()

	var binary []byte
	for _, f := range archive.File {
		switch f.Name {
		case "bootstrap":
			if f.Mode().Perm() != 0o755 {
				t.Errorf("bootstrap has mode %v, the runtime needs -rwxr-xr-x", f.Mode())
			}
			in, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			if binary, err = io.ReadAll(in); err != nil {
				t.Fatal(err)
			}
		case "config.json":
		default:
			t.Errorf("holds %s: only bootstrap and config.json belong in a package", f.Name)
		}
	}
	if binary == nil {
		t.Fatal("holds no bootstrap")
	}
	checkBinary(t, binary)
}

func checkBinary(t *testing.T, binary []byte) {
	file, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	if file.Machine != elf.EM_AARCH64 {
		t.Errorf("built for %v, want %v", file.Machine, elf.EM_AARCH64)
	}
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("needs shared libraries %v (%v): must be static", libraries, err)
	}

	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	for key, want := range map[string]string{
		"GOARCH": "arm64", "GOOS": "linux", "CGO_ENABLED": "0", "-tags": "lambda.norpc", "-trimpath": "true",
	} {
		if settings[key] != want {
			t.Errorf("built with %s=%q, want %q", key, settings[key], want)
		}
	}
	lambda := false
	for _, dep := range info.Deps {
		lambda = lambda || dep.Path == "github.com/aws/aws-lambda-go"
		for _, word := range unwanted {
			if strings.Contains(dep.Path, word) {
				t.Errorf("links %s", dep.Path)
			}
		}
	}
	if !lambda {
		t.Error("does not link github.com/aws/aws-lambda-go: is this a Lambda function?")
	}
}

// dependOnSources opens what the build reads. The go command caches a test's
// result by the files that the test itself opens; it does not see what the go
// build below opens, and would show an old pass after a change elsewhere.
func dependOnSources(t *testing.T) {
	t.Helper()
	const root = ".."
	sources := 0
	for _, file := range []string{"go.mod", "go.sum"} {
		if _, err := os.ReadFile(filepath.Join(root, file)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"functions", "pkg", "events"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			sources++
			_, err = os.ReadFile(path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if sources == 0 {
		t.Fatal("found no sources")
	}
}

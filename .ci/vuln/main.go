package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

const acceptedFile = ".ci/vuln/accepted.txt"

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "vuln:", err)
		os.Exit(1)
	}
}

func run(stdout io.Writer) error {
	list, err := os.ReadFile(acceptedFile)
	if err != nil {
		return err
	}
	accepted, err := parseAccepted(string(list))
	if err != nil {
		return err
	}
	db, err := locateDatabase()
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stdout, "database: %s %s\n", vulndb, db.version)
	packages, err := scanned()
	if err != nil {
		return err
	}

	args := []string{
		"tool", "-modfile=tools.mod", "govulncheck", "-format", "json",
		"-db", (&url.URL{Scheme: "file", Path: filepath.ToSlash(db.dir)}).String(),
	}
	output, err := goCommand(append(args, packages...)...)
	if err != nil {
		return err
	}
	report, err := parseReport(bytes.NewReader(output))
	if err != nil {
		return err
	}
	result := judge(report, accepted)
	result.print(stdout)
	if n := len(result.failing); n > 0 {
		return fmt.Errorf("%d to fix: upgrade, stop calling, or accept in %s with a reason", n, acceptedFile)
	}
	if len(result.stale) > 0 {
		return fmt.Errorf("%s accepts what is no longer found: %s", acceptedFile, strings.Join(result.stale, ", "))
	}
	return nil
}

// scanned lists the module's packages but those of infra.
func scanned() ([]string, error) {
	out, err := goCommand("list", "./...")
	if err != nil {
		return nil, err
	}
	module, err := goCommand("list", "-m")
	if err != nil {
		return nil, err
	}
	infra := path.Join(strings.TrimSpace(string(module)), "infra")
	var packages []string
	for _, p := range strings.Fields(string(out)) {
		if p != infra && !strings.HasPrefix(p, infra+"/") {
			packages = append(packages, p)
		}
	}
	if len(packages) == 0 {
		return nil, errors.New("found no package to scan")
	}
	return packages, nil
}

// goCommand returns what the go command prints; its error holds what it said.
func goCommand(args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("go %s: %w\n%s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

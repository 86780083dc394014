package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("pack", flag.ContinueOnError)
	out := flags.String("o", "build", "`folder` that receives the zips")
	arch := flags.String("arch", "arm64", "processor, as `GOARCH` names it")
	config := flags.String("config", "", "compiled configuration `FILE`, added to each zip as "+configName)
	if err := flags.Parse(args); err != nil {
		return err
	}

	root, err := moduleRoot()
	if err != nil {
		return err
	}
	names := flags.Args()
	if len(names) == 0 {
		if names, err = find(filepath.Join(root, "functions")); err != nil {
			return err
		}
	}

	extra := map[string][]byte{}
	if *config != "" {
		if extra[configName], err = os.ReadFile(*config); err != nil {
			return err
		}
	}

	binaries, err := os.MkdirTemp("", "lanekeeper-pack-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(binaries) }()
	if err := compile(root, binaries, *arch, names); err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		binary, err := os.ReadFile(filepath.Join(binaries, name))
		if err != nil {
			return err
		}
		archive, err := archive(binary, extra)
		if err != nil {
			return err
		}
		target := filepath.Join(*out, name+".zip")
		if err := os.WriteFile(target, archive, 0o644); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(stdout, "%-28s %5.1f MB zipped, %5.1f MB binary\n", target, mb(len(archive)), mb(len(binary)))
	}
	return nil
}

func mb(n int) float64 { return float64(n) / 1e6 }

// moduleRoot asks the go command, so that the tool works from any folder.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	gomod := strings.TrimSpace(string(out))
	if filepath.Base(gomod) != "go.mod" {
		return "", errors.New("not inside the module")
	}
	return filepath.Dir(gomod), nil
}

// find returns the functions under dir: the folders that hold a main.go.
func find(dir string) ([]string, error) {
	mains, err := filepath.Glob(filepath.Join(dir, "*", "main.go"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, main := range mains {
		names = append(names, filepath.Base(filepath.Dir(main)))
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no function in %s", dir)
	}
	return names, nil
}

// compile builds all functions by one go command, which shares the packages
// and links in parallel. Binaries are named after their folders.
func compile(root, out, arch string, names []string) error {
	args := []string{
		"build",
		"-tags", "lambda.norpc", // leaves out the RPC mode of the retired go1.x runtime
		"-trimpath",
		"-buildvcs=false", // the commit would change every binary with every commit
		"-ldflags", "-s -w",
		"-o", out + string(filepath.Separator),
	}
	for _, name := range names {
		args = append(args, "./functions/"+name)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build of %s: %w", strings.Join(names, ", "), err)
	}
	return nil
}

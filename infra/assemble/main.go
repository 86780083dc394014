// Command assemble makes the packages that one environment's functions run: the
// Go binaries, built without Docker for the environment's processor, each zipped
// with the compiled configuration.
//
//	go run ./infra/assemble -env infra/environments/dev.yaml [-o build/dev]
//
// Tenants and keys that the configuration lists are left out: they seed an empty
// table and have no business in a package. A worker binary of your own, named
// in the environment's file, is packed the same way.
package main

import (
	"debug/elf"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/lanekeeper/lanekeeper/infra/plan"
	"github.com/lanekeeper/lanekeeper/pkg/environment"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "assemble:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("assemble", flag.ContinueOnError)
	file := flags.String("env", "infra/environments/dev.yaml", "the environment's `FILE`")
	dir := flags.String("o", "", "`folder` that receives the packages; default build/<environment>")
	if err := flags.Parse(args); err != nil {
		return err
	}
	e, err := environment.Load(*file)
	if err != nil {
		return err
	}
	cfg, err := policyfile.Load(e.ConfigPath())
	if err != nil {
		return err
	}
	if *dir == "" {
		*dir = filepath.Join("build", e.Name)
	}
	if err := os.MkdirAll(*dir, 0o755); err != nil {
		return err
	}
	compiled, err := deployable(cfg)
	if err != nil {
		return err
	}
	config := filepath.Join(*dir, "config.json")
	if err := os.WriteFile(config, compiled, 0o644); err != nil {
		return err
	}
	pack := exec.Command("go", "run", "./functions/internal/pack", "-o", *dir, "-arch", e.GOARCH(), "-config", config)
	pack.Stdout, pack.Stderr = out, os.Stderr
	if err := pack.Run(); err != nil {
		return fmt.Errorf("%v: %w", pack.Args, err)
	}
	return own(e, cfg, *dir, compiled, out)
}

// deployable is the compiled configuration as functions get it.
func deployable(cfg *policy.Config) ([]byte, error) {
	bare := *cfg
	bare.Tenants, bare.Operators = nil, policy.Operators{}
	compiled, err := bare.Compile()
	if err != nil {
		return nil, err
	}
	if _, err := policy.FromCompiled(compiled); err != nil {
		return nil, fmt.Errorf("the configuration without its tenants: %w", err)
	}
	return compiled, nil
}

// own packs the user's worker binaries.
func own(e *environment.Environment, cfg *policy.Config, dir string, config []byte, out io.Writer) error {
	for _, lane := range cfg.LaneNames() {
		path := e.WorkerBinary(lane)
		if path == "" {
			continue
		}
		if err := checkBinary(path, e.GOARCH()); err != nil {
			return fmt.Errorf("the worker of lane %s: %w", lane, err)
		}
		target := filepath.Join(dir, plan.WorkerPackage(e, lane)+".zip")
		if err := zipWorker(target, path, config); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "%-28s from %s\n", target, path)
	}
	return nil
}

// checkBinary says whether Lambda could start the file: for Linux and the right processor.
func checkBinary(path, goarch string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s is no Linux binary (build it with GOOS=linux GOARCH=%s CGO_ENABLED=0): %w", path, goarch, err)
	}
	defer func() { _ = f.Close() }()
	want := map[string]elf.Machine{"arm64": elf.EM_AARCH64, "amd64": elf.EM_X86_64}[goarch]
	if f.Machine != want {
		return fmt.Errorf("%s is built for %v, the environment's functions run on %s", path, f.Machine, goarch)
	}
	return nil
}

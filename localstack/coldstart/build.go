package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

// build makes the admission function's package as it is deployed, but for this
// machine's processor, and unpacks it into dir, as Lambda unpacks it into its task
// root.
func build(ctx context.Context, config, dir string) error {
	cfg, err := policyfile.Load(config)
	if err != nil {
		return err
	}
	cfg.Tenants, cfg.Operators = nil, policy.Operators{} // they seed tables and are not deployed
	compiled, err := cfg.Compile()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "compiled.json")
	if err := os.WriteFile(file, compiled, 0o600); err != nil {
		return err
	}
	pack := exec.CommandContext(ctx, "go", "run", "github.com/lanekeeper/lanekeeper/functions/internal/pack",
		"-o", dir, "-arch", runtime.GOARCH, "-config", file, "admission")
	pack.Stderr = os.Stderr
	if err := pack.Run(); err != nil {
		return fmt.Errorf("%v: %w", pack.Args, err)
	}
	return unpack(filepath.Join(dir, "admission.zip"), dir)
}

func unpack(archive, dir string) (err error) {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	for _, f := range z.File {
		if err := extract(f, filepath.Join(dir, filepath.Base(f.Name))); err != nil {
			return err
		}
	}
	return nil
}

func extract(f *zip.File, path string) (err error) {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, f.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}

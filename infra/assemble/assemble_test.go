package main

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/environment"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

func demo(t *testing.T) *policy.Config {
	t.Helper()
	cfg, err := policyfile.Load("../../localstack/lanekeeper.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestNoKeysAreDeployed: the packages hold the configuration without its keys.
func TestNoKeysAreDeployed(t *testing.T) {
	cfg := demo(t)
	compiled, err := deployable(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"demo-alpha", "demo-admin"} {
		if bytes.Contains(compiled, []byte(secret)) {
			t.Errorf("%s is deployed", secret)
		}
	}
	got, err := policy.FromCompiled(compiled)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(got.LaneNames(), " ") != strings.Join(cfg.LaneNames(), " ") || len(cfg.TenantNames()) == 0 {
		t.Errorf("lanes %v; %d tenants were to be left out", got.LaneNames(), len(cfg.TenantNames()))
	}
}

// host is an environment whose functions run on this machine, with this test's own binary as a worker.
func host(t *testing.T, lanes ...string) *environment.Environment {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	e := &environment.Environment{Name: "test", Architecture: environment.Host, Workers: map[string]string{}}
	for _, l := range lanes {
		e.Workers[l] = self
	}
	return e
}

func TestOwnWorkersArePacked(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Log("this test's own binary is no Linux binary, so it must be refused")
		if err := own(host(t, "heavy"), demo(t), t.TempDir(), nil, io.Discard); err == nil {
			t.Error("no error")
		}
		return
	}
	dir := t.TempDir()
	if err := own(host(t, "heavy"), demo(t), dir, []byte(`{"version":1}`), io.Discard); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 1 || filepath.Base(names[0]) != "worker-heavy.zip" {
		t.Fatalf("made %v, %v", names, err)
	}
	r, err := zip.OpenReader(names[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if len(r.File) != 2 || r.File[0].Name != "bootstrap" || r.File[0].Mode() != 0o755 || r.File[1].Name != "config.json" {
		t.Errorf("holds %v", r.File)
	}
}

func TestForeignBinariesAreRefused(t *testing.T) {
	script := filepath.Join(t.TempDir(), "worker")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := checkBinary(script, "arm64"); err == nil || !strings.Contains(err.Error(), "GOOS=linux GOARCH=arm64") {
		t.Errorf("a script: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	if err := checkBinary(self, other); err == nil {
		t.Error("a binary for another processor was accepted")
	}
}

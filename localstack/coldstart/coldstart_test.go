package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNoConnectionBeforeTheFirstInvocation of the admission function, as it is
// packed; that the counter counts is part of each start. Times are not judged here.
func TestNoConnectionBeforeTheFirstInvocation(t *testing.T) {
	dependOnSources(t)
	dir := t.TempDir()
	if err := build(t.Context(), "../lanekeeper.yaml", dir); err != nil {
		t.Fatal(err)
	}
	b, err := newBench(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	for range 2 {
		s, err := b.start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.early != 0 || s.late == 0 || s.toFirstPoll <= 0 {
			t.Errorf("%+v", s)
		}
	}
}

func TestQuantile(t *testing.T) {
	var sorted []time.Duration
	for i := range 50 {
		sorted = append(sorted, time.Duration(i+1))
	}
	for q, want := range map[float64]time.Duration{0.5: 25, 0.95: 48, 1: 50, 0: 1} {
		if got := quantile(sorted, q); got != want {
			t.Errorf("quantile %v: %d, want %d", q, got, want)
		}
	}
}

// dependOnSources opens what the build reads, so that the go command does not show
// an old pass after a change there.
func dependOnSources(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"functions", "pkg", "events"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			_, err = os.ReadFile(path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRunSaysWhatKeptItFromStarting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		build func(ctx context.Context, dir string) (string, error)
		says  string
	}{
		"a failed build": {func(context.Context, string) (string, error) { return "", errors.New("no compiler") }, "no compiler"},
		"a runner that ends": {func(_ context.Context, dir string) (string, error) {
			bin := filepath.Join(dir, "runner")
			return bin, os.WriteFile(bin, []byte("#!/bin/sh\necho not today\nexit 3\n"), 0o700)
		}, "not today"},
	} {
		var out bytes.Buffer
		code := run(context.Background(), &out, c.build)
		if code != 1 || !strings.Contains(out.String(), c.says) || !strings.HasSuffix(out.String(), "\ndemo: 0 passed, 7 failed\n") {
			t.Errorf("%s: code %d:\n%s", name, code, out.String())
		}
	}
}

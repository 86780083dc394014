package main

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestArchiveHoldsBootstrapAndConfig(t *testing.T) {
	binary, config := bytes.Repeat([]byte("ELF "), 1000), []byte(`{"version":1}`)
	data, err := archive(binary, map[string][]byte{configName: config})
	if err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name string
		mode os.FileMode
		data []byte
	}{{"bootstrap", 0o755, binary}, {"config.json", 0o644, config}}
	if len(r.File) != len(want) {
		t.Fatalf("%d entries, want %d", len(r.File), len(want))
	}
	for i, w := range want {
		f := r.File[i]
		if f.Name != w.name || f.Mode() != w.mode {
			t.Errorf("entry %d is %s %v, want %s %v", i, f.Name, f.Mode(), w.name, w.mode)
		}
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, w.data) {
			t.Errorf("%s has %d bytes, want %d", w.name, len(got), len(w.data))
		}
	}
}

func TestArchiveIsDeterministic(t *testing.T) {
	extra := map[string][]byte{"a": {1}, "b": {2}, "c": {3}, "d": {4}}
	first, err := archive([]byte("binary"), extra)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, err := archive([]byte("binary"), extra)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, again) {
			t.Fatal("the same contents gave other bytes")
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	if names, err := find(dir); err == nil {
		t.Errorf("an empty folder gave %v and no error", names)
	}
	for _, file := range []string{"worker/main.go", "admission/main.go", "internal/pack.go"} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	names, err := find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"admission", "worker"}; !slices.Equal(names, want) {
		t.Errorf("found %v, want %v", names, want)
	}
}

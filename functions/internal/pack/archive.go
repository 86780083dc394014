package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"
)

const (
	// bootstrapName is what the provided.al2023 runtime starts.
	bootstrapName = "bootstrap"
	// configName is the compiled configuration beside it.
	configName = "config.json"
)

// archive returns a zip of the binary as bootstrap (mode 0755) and of the
// extra files (mode 0644), the same bytes for the same contents: entries are
// sorted and dated 1980-01-01, the earliest time that a zip can hold.
func archive(binary []byte, extra map[string][]byte) ([]byte, error) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestCompression)
	})
	if err := add(w, bootstrapName, 0o755, binary); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if err := add(w, name, 0o644, extra[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func add(w *zip.Writer, name string, mode fs.FileMode, data []byte) error {
	header := &zip.FileHeader{
		Name:     name,
		Method:   zip.Deflate,
		Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	header.SetMode(mode)
	out, err := w.CreateHeader(header)
	if err != nil {
		return err
	}
	_, err = out.Write(data)
	return err
}

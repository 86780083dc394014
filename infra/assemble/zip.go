package main

import (
	"archive/zip"
	"bytes"
	"os"
	"time"
)

// zipWorker packs a binary as Lambda's bootstrap with the configuration beside
// it: the same bytes for the same contents, so that nothing unchanged is
// deployed again.
func zipWorker(target, binary string, config []byte) error {
	data, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, entry := range []struct {
		name string
		mode os.FileMode
		data []byte
	}{{"bootstrap", 0o755, data}, {"config.json", 0o644, config}} {
		header := &zip.FileHeader{Name: entry.name, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
		header.SetMode(entry.mode)
		part, err := w.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := part.Write(entry.data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(target, buf.Bytes(), 0o644)
}

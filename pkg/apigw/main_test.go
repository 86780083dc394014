package apigw_test

import (
	"io"
	"log/slog"
	"os"
	"testing"
)

// TestMain keeps expected warnings out of the output.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

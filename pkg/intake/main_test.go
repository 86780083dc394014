package intake_test

import (
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

var config *policy.Config

// TestMain keeps expected warnings out of the output.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	config = rig.Parse()
	os.Exit(m.Run())
}

package awsboot

import (
	"fmt"
	"log/slog"
	"strconv"

	"github.com/lanekeeper/lanekeeper/pkg/chance"
	"github.com/lanekeeper/lanekeeper/pkg/env"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
)

// tracer writes spans to the function's log.
func tracer(getenv Getenv) (*trace.Tracer, error) {
	share := trace.DefaultShare
	if text := getenv(env.TraceShare); text != "" {
		var err error
		if share, err = strconv.ParseFloat(text, 64); err != nil || !(share >= 0 && share <= 1) {
			return nil, fmt.Errorf("%s must be from 0 to 1, is %q", env.TraceShare, text)
		}
	}
	return trace.New(trace.Options{Share: share, Float: chance.Float, Hex: chance.Hex, Sink: trace.Log(slog.Default())}), nil
}

package simtest

import "testing"

func TestConfig(t *testing.T) {
	cfg, err := Config()
	if err != nil {
		t.Fatal(err)
	}
	for _, lane := range cfg.LaneNames() {
		t.Log(lane, cfg.Slots(lane), cfg.Workers(lane), cfg.FunctionTimeout(lane), cfg.VisibilityTimeout(lane))
	}
}

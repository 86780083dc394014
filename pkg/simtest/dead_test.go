package simtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/execute"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

// relay is a worker that sends what it was given on, as one would that retries
// by sending.
func relay(ctx context.Context, in *Instance, batch []execute.Delivery) {
	for _, d := range batch {
		_ = shell{in}.Send(ctx, in.Lane, queue.Outgoing{Body: string(d.Body)})
	}
}

// TestHarnessSeesAWorkerThatSends: no function that a message started may send
// one; what Lambda would do with it in the end is a matter of hops.
func TestHarnessSeesAWorkerThatSends(t *testing.T) {
	cfg, err := Config()
	if err != nil {
		t.Fatal(err)
	}
	script := alone(time.Second, func(c *Client) {
		c.insist(c.submission("quick", work{Do: "ok"}, "key"))
		c.pause(30*time.Second, 30*time.Second)
	})
	res := Run(t, Options{Seed: 1, Config: cfg, After: relay}, script)
	if len(res.Violations) == 0 || !strings.Contains(res.Violations[0], "sends to lane quick") {
		t.Errorf("a worker that sends went unnoticed: %v", res.Violations)
	}
	sent := 0
	res = Run(t, Options{Seed: 1, Config: cfg, Relays: true, After: func(ctx context.Context, in *Instance, batch []execute.Delivery) {
		sent += len(batch)
		relay(ctx, in, batch)
	}}, script)
	if len(res.Violations) > 0 || res.Loops != 1 || sent != recursionLimit {
		t.Errorf("a chain without end: sent on %d times, %d messages taken for loops, %v", sent, res.Loops, res.Violations)
	}
	if res = Run(t, Options{Seed: 1, Config: cfg}, script); len(res.Violations) > 0 || res.Loops > 0 {
		t.Errorf("without it: %v, %d loops", res.Violations, res.Loops)
	}
}

// TestHarnessSeesWhatIsForgottenOfADeadLetter: each change of the writes that
// answer one is missed by somebody.
func TestHarnessSeesWhatIsForgottenOfADeadLetter(t *testing.T) {
	cfg, err := Config()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct{ write, attr string }{
		{"dead_delivery.row", "dd"}, {"dead_delivery.row", "da"}, {"dead_delivery.row", "ds"},
		{"undeliverable.row", "st"}, {"undeliverable.row", "dd"}, {"undeliverable.ledger", "work"}, {"claim.row", "dd"},
	} {
		noticed := false
		for _, c := range deadCases() {
			o := c.Options()
			o.Config, o.Mutate = cfg, forget(f.write, f.attr)
			noticed = noticed || len(c.Broken(Run(t, o, c.Script))) > 0
		}
		if !noticed {
			t.Errorf("%s without %s goes unnoticed", f.write, f.attr)
		}
	}
	res := Run(t, Options{Seed: 1, Config: cfg, Mutate: func(w op.Write) op.Write {
		if w.Name == "audit" {
			w.Key.SK += "x"
		}
		return w
	}}, undeliverable(given))
	if len(res.Violations) == 0 {
		t.Error("an unreadable body without its entry in the audit goes unnoticed")
	}
}

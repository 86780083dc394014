// Command run runs the whole system on this machine: `make run`.
//
// PORT (8080) is where it listens, DATA_DIR (.lanekeeper) where it keeps its
// data, LANEKEEPER_CONFIG (localstack/lanekeeper.yaml) what it is configured by.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/localstack/stack"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

// drain is how long running attempts may go on after Ctrl-C.
const drain = 20 * time.Second

func main() {
	if err := run(os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func or(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

func run(getenv func(string) string) error {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	file := or(getenv("LANEKEEPER_CONFIG"), "localstack/lanekeeper.yaml")
	cfg, err := policyfile.Load(file)
	if err != nil {
		return err
	}
	dir := or(getenv("DATA_DIR"), ".lanekeeper")
	s, err := stack.Start(context.Background(), stack.Options{Config: cfg, DataDir: dir, Probes: true, Addr: "127.0.0.1:" + or(getenv("PORT"), "8080")})
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w; choose another port with PORT", err)
	case errors.Is(err, embed.ErrInUse):
		return fmt.Errorf("%w: another Lanekeeper runs on %s; stop it, or choose another folder with DATA_DIR", err, dir)
	case err != nil:
		return err
	}
	greet(s.URL, file, dir, cfg)

	stop := make(chan os.Signal, 2)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
	fmt.Printf("\ndraining: running attempts may finish for %s; again to stop at once\n", drain)
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	go func() {
		<-stop
		cancel()
	}()
	if err := s.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	fmt.Println("stopped; nothing is lost, the next start goes on")
	return nil
}

// greet prints what a newcomer needs next.
func greet(url, file, dir string, cfg *policy.Config) {
	fmt.Printf("Lanekeeper is ready at %s (metrics at %s/metrics)\n", url, url)
	fmt.Printf("configuration %s, data in %s\n\n", file, dir)
	fmt.Println("tenant keys:")
	example := ""
	for _, name := range cfg.TenantNames() {
		t, _ := cfg.Tenant(name)
		for _, key := range t.Keys {
			fmt.Printf("  %-12s tier %-12s %s\n", name, t.Tier, key)
			if example == "" {
				example = key
			}
		}
	}
	for _, key := range cfg.Operators.Keys {
		fmt.Printf("  %-12s %-17s %s\n", "(operator)", "", key)
	}
	classes := cfg.ClassNames()
	if example == "" || len(classes) == 0 {
		return
	}
	fmt.Printf("\nsubmit a task and wait for it:\n")
	fmt.Printf("  curl -si %s/v1/tasks -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' \\\n    -d '{\"class\": \"%s\", \"payload\": {\"sleep_ms\": 500}, \"deadline_seconds\": 60}'\n", url, example, classes[0])
	fmt.Printf("  curl -s '%s/v1/tasks/ID?wait=25' -H 'Authorization: Bearer %s'     # ID from the answer\n\nCtrl-C drains and stops.\n", url, example)
}

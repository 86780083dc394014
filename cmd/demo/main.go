// Command demo plays the burst test: it builds and starts a stack of its own on a free port, talks to it over HTTP,
// and prints what it saw. The last line is "demo: N passed, M failed"; the exit code is 0 only if nothing failed.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/lanekeeper/lanekeeper/localstack/contract"
	"github.com/lanekeeper/lanekeeper/localstack/demo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Stdout, build)
	stop()
	os.Exit(code)
}

// build compiles the runner into dir.
func build(ctx context.Context, dir string) (string, error) { return contract.Build(ctx, dir) }

// run plays the test on the runner that build makes, and gives the exit code.
func run(ctx context.Context, out io.Writer, build func(ctx context.Context, dir string) (string, error)) int {
	fail := func(err error) int {
		_, _ = fmt.Fprintf(out, "FAIL  start: %v\ndemo: 0 passed, 7 failed\n", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "lanekeeper-demo-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bin, err := build(ctx, dir)
	if err != nil {
		return fail(err)
	}
	stack, err := contract.Launch(ctx, bin, demo.Configuration())
	if err != nil {
		return fail(err)
	}
	defer stack.Stop()
	_, _ = fmt.Fprintf(out, "burst test on %s\n", stack.Base)
	if _, failed := demo.Run(ctx, demo.Config{Base: stack.Base, Out: out}); failed > 0 {
		return 1
	}
	return 0
}

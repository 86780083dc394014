// Command run is `make e2e`: it builds and starts the embedded engine on a free
// port and runs the end-to-end suite against it. With BASE_URL it tests what
// answers there, which must run localstack/e2e/lanekeeper.yaml. The last line is
// "e2e: N passed, M failed"; the exit code is 0 only if nothing failed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/lanekeeper/lanekeeper/localstack/contract"
	"github.com/lanekeeper/lanekeeper/localstack/e2e"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	passed, failed := run(ctx, os.Getenv, os.Args[1:], os.Stdout)
	stop()
	fmt.Printf("e2e: %d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func run(ctx context.Context, getenv func(string) string, args []string, out io.Writer) (passed, failed int) {
	fail := func(err error) (int, int) {
		_, _ = fmt.Fprintln(out, "FAIL  start:", err)
		return 0, 1
	}
	flags := flag.NewFlagSet("e2e", flag.ContinueOnError)
	only := flags.String("run", "", "run only the cases whose name matches this regular expression")
	if err := flags.Parse(args); err != nil {
		return fail(err)
	}
	cfg := e2e.Config{Base: getenv("BASE_URL"), Out: out}
	if *only != "" {
		var err error
		if cfg.Only, err = regexp.Compile(*only); err != nil {
			return fail(err)
		}
	}
	if cfg.Base == "" {
		dir, err := os.MkdirTemp("", "lanekeeper-e2e-")
		if err != nil {
			return fail(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		bin, err := contract.Build(ctx, dir)
		if err != nil {
			return fail(err)
		}
		stack, err := contract.Launch(ctx, bin, e2e.Configuration())
		if err != nil {
			return fail(err)
		}
		defer stack.Stop()
		cfg.Base = stack.Base
		passed, failed = e2e.Run(ctx, cfg)
		if failed > 0 {
			_, _ = fmt.Fprintf(out, "the engine printed last:\n%s\n", contract.Tail(stack.Log))
		}
		return passed, failed
	}
	return e2e.Run(ctx, cfg)
}

// Command contract runs the black-box suite of the HTTP API.
//
// With BASE_URL it tests that server, which should run the demonstration's configuration, with the keys of
// CONTRACT_KEY_A, CONTRACT_KEY_B (two tenants) and CONTRACT_KEY_ADMIN (an operator); left out, the demonstration's.
// Without BASE_URL it builds and starts servers of its own. The last line is "contract: N passed, M failed"; the exit
// code is 0 only if nothing failed.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/lanekeeper/lanekeeper/localstack/contract"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Getenv, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, getenv func(string) string, args []string, out io.Writer) int {
	flags := flag.NewFlagSet("contract", flag.ContinueOnError)
	only := flags.String("run", "", "run only the cases whose name matches this regular expression")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	cfg := contract.Config{Base: getenv("BASE_URL"), Out: out}
	demo := contract.DemoKeys()
	cfg.Keys.A = cmp.Or(getenv("CONTRACT_KEY_A"), demo.A)
	cfg.Keys.B = cmp.Or(getenv("CONTRACT_KEY_B"), demo.B)
	cfg.Keys.Admin = cmp.Or(getenv("CONTRACT_KEY_ADMIN"), demo.Admin)
	if *only != "" {
		var err error
		if cfg.Only, err = regexp.Compile(*only); err != nil {
			_, _ = fmt.Fprintln(out, err)
			return 2
		}
	}
	fail := func(err error) int {
		_, _ = fmt.Fprintf(out, "FAIL  start: %v\ncontract: 0 passed, 1 failed\n", err)
		return 1
	}
	if cfg.Base == "" {
		dir, err := os.MkdirTemp("", "lanekeeper-contract-bin-")
		if err != nil {
			return fail(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		bin, err := contract.Build(ctx, dir)
		if err != nil {
			return fail(err)
		}
		cfg.Start = func(ctx context.Context, config []byte) (*contract.Stack, error) {
			return contract.Launch(ctx, bin, config)
		}
		cfg.StartFailing = contract.LaunchFailing
		slog.SetDefault(slog.New(slog.DiscardHandler)) // a server that runs in this process says what it is made to
		stack, err := cfg.Start(ctx, nil)
		if err != nil {
			return fail(err)
		}
		defer stack.Stop()
		cfg.Base = stack.Base
	}
	if _, failed := contract.Run(ctx, cfg); failed > 0 {
		return 1
	}
	return 0
}

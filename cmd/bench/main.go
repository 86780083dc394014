// Command bench measures Lanekeeper and prints one table: the pure decision,
// the admission handler, the whole road on the embedded engine, and DynamoDB
// units per task.
//
// Its last two lines are the units of a task that had to wait and of one that
// did not. With -only, sections are chosen by name: decision, handler, road,
// units.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/lanekeeper/lanekeeper/localstack/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("only", strings.Join(bench.Sections(), ","), "sections to run, separated by commas")
	if err := flags.Parse(args); err != nil {
		return err
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	return bench.Run(ctx, out, strings.Split(*only, ","))
}

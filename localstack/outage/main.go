// Command outage measures in real time, on the embedded engine, what other work feels of a downstream that is out.
//
// It plays the same load three times, each on a fresh engine in this process: without an outage, with one in
// which the downstream answers 503 at once, and with one in which it hangs until attempts meet their time limit. 500 tasks
// that need it are submitted over the outage. Printed is the start delay (submission to first attempt) of fresh
// work that does not need it, which came between the outage's beginning and half its length after its end.
//
//	go run ./localstack/outage [-outage 60s] [-tasks 500]
//
// These are figures, not a gate: they are as good as the machine is quiet. The gate is in make fair, on a virtual clock. It fails
// only when a task that needs the downstream does not succeed in the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "outage:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("outage", flag.ContinueOnError)
	l := load{}
	flags.DurationVar(&l.outage, "outage", time.Minute, "`LENGTH` of the outage, from 1s")
	flags.IntVar(&l.tasks, "tasks", 500, "`NUMBER` of tasks that need the downstream")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if l.outage < time.Second || l.tasks < 1 {
		return errors.New("-outage must be at least 1s, -tasks at least 1")
	}
	_, _ = fmt.Fprintf(out, "an outage of %s while %d tasks need the downstream; start delays p50 / p95 in ms\n", l.outage, l.tasks)
	_, _ = fmt.Fprintf(out, "%-14s", "downstream")
	for _, o := range others {
		_, _ = fmt.Fprintf(out, "%22s", o.name)
	}
	_, _ = fmt.Fprintf(out, "%14s%10s\n", "succeeded", "attempts")
	lost := 0
	for _, how := range []state{up, answers503, hangs} {
		got, err := l.play(ctx, how)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "%-14s", how)
		for _, o := range others {
			d := got.delays[o.class]
			_, _ = fmt.Fprintf(out, "%22s", fmt.Sprintf("%d / %d (%d)", quantile(d, 50), quantile(d, 95), len(d)))
		}
		_, _ = fmt.Fprintf(out, "%14d%10d\n", got.succeeded, got.attempts)
		lost += l.tasks - got.succeeded
	}
	if lost > 0 {
		return fmt.Errorf("%d tasks that need the downstream did not succeed", lost)
	}
	return nil
}

// quantile is the percentile of v by nearest rank, 0 of nothing.
func quantile(v []int64, percent int) int64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[min(len(v)*percent/100, len(v)-1)]
}

// Command coldstart measures how long the admission function takes from the
// start of its process to its first poll of the Lambda Runtime API, and shows that
// it makes no network call before its first invocation.
//
// It builds the very package that is deployed, for this machine's processor, and
// starts it again and again against a Runtime API of its own on the loopback.
// AWS's endpoints, the instance metadata service and the proxy all lead to a
// listener that counts connections. After each start the function gets a request
// that needs no store, by whose answer nothing may have been counted, and then one
// that does, by whose answer something must have been: a counter that cannot count
// proves nothing.
//
//	go run ./localstack/coldstart [-n 50] [-config localstack/lanekeeper.yaml]
//
// It fails when a connection was made too early or when p50 is over the goal and
// -strict was given: a busy machine is no fault of the code.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// goal is what p50 should stay under, on two shared cores.
const goal = 25 * time.Millisecond

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "coldstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("coldstart", flag.ContinueOnError)
	n := flags.Int("n", 50, "`NUMBER` of starts")
	config := flags.String("config", "localstack/lanekeeper.yaml", "configuration `FILE`")
	strict := flags.Bool("strict", false, "fail when p50 is over the goal")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *n < 1 {
		return errors.New("-n must be at least 1")
	}
	dir, err := os.MkdirTemp("", "lanekeeper-coldstart-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := build(ctx, *config, dir); err != nil {
		return err
	}
	bench, err := newBench(dir)
	if err != nil {
		return err
	}
	defer bench.close()

	var took []time.Duration
	early := 0
	for range *n {
		s, err := bench.start(ctx)
		if err != nil {
			return err
		}
		took = append(took, s.toFirstPoll)
		early += s.early
	}
	slices.Sort(took)
	p50 := quantile(took, 0.5)
	verdict := "met"
	if p50 >= goal {
		verdict = "missed"
	}
	_, _ = fmt.Fprintf(out, "admission, %d starts, process start to first poll: p50 %s ms  p95 %s ms  max %s ms  goal p50 < %s ms: %s\n",
		*n, ms(p50), ms(quantile(took, 0.95)), ms(took[len(took)-1]), ms(goal), verdict)
	_, _ = fmt.Fprintf(out, "coldstart: p50=%s ms  connections_before_first_invocation=%d\n", ms(p50), early)
	if early > 0 {
		return fmt.Errorf("%d connections before the first invocation", early)
	}
	if *strict && p50 >= goal {
		return fmt.Errorf("p50 of %s ms is over the goal", ms(p50))
	}
	return nil
}

// quantile by nearest rank; sorted is not empty.
func quantile(sorted []time.Duration, q float64) time.Duration {
	rank := int(q * float64(len(sorted)))
	if float64(rank) < q*float64(len(sorted)) {
		rank++
	}
	return sorted[max(rank, 1)-1]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }

// Command deployed is the inner part of `make localstack-test`: it deploys all
// stacks with the CDK's command line to the endpoint of AWS_ENDPOINT_URL, runs
// the end-to-end suite through API Gateway, deploys a changed configuration on
// top while tasks are under way, destroys everything and looks whether anything
// is left. The last line is "localstack: N passed, M failed".
//
// It refuses to run without AWS_ENDPOINT_URL: it is for emulators, and destroys
// what it deploys.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/e2e"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	passed, failed := run(ctx, os.Getenv, os.Stdout)
	stop()
	fmt.Printf("localstack: %d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

// tester counts what is done around the suite as cases of their own.
type tester struct {
	*deployment
	ctx            context.Context
	out            io.Writer
	passed, failed int
}

// do runs a step and says whether it passed.
func (t *tester) do(name string, step func() error) bool {
	began := clock.System()
	_, _ = fmt.Fprintf(t.out, "...   %s\n", name)
	err := step()
	took := clock.System().Sub(began).Round(100 * time.Millisecond)
	if err != nil {
		t.failed++
		_, _ = fmt.Fprintf(t.out, "FAIL  %s (%v): %v\n", name, took, err)
		return false
	}
	t.passed++
	_, _ = fmt.Fprintf(t.out, "ok    %s (%v)\n", name, took)
	return true
}

func run(ctx context.Context, getenv func(string) string, out io.Writer) (passed, failed int) {
	endpoint, err := url.Parse(getenv("AWS_ENDPOINT_URL"))
	if err != nil || endpoint.Host == "" {
		_, _ = fmt.Fprintln(out, "FAIL  start:", errors.Join(err, errors.New("AWS_ENDPOINT_URL must be an emulator's address")))
		return 0, 1
	}
	d, err := newDeployment(ctx, endpoint, out)
	if err != nil {
		_, _ = fmt.Fprintln(out, "FAIL  start:", err)
		return 0, 1
	}
	defer d.cleanUp()
	t := &tester{deployment: d, ctx: ctx, out: out}
	t.all()
	return t.passed, t.failed
}

func (t *tester) all() {
	ok := t.do("cdk bootstrap", func() error { return t.bootstrap(t.ctx) }) &&
		t.do("cdk deploy of all stacks", func() error { return t.deploy(t.ctx, e2e.Configuration()) }) &&
		t.do("lanekeeper preflight", func() error { return t.lanekeeper(t.ctx, "preflight") }) &&
		t.do("lanekeeper bootstrap writes keys", func() error { return t.lanekeeper(t.ctx, "bootstrap", "--seed") }) &&
		t.do("the API answers", func() error { return t.open(t.ctx) })
	if ok {
		skip := t.concurrency(t.ctx)
		passed, failed := e2e.Run(t.ctx, e2e.Config{Base: t.base, Out: t.out, Cases: slices.Concat(e2e.Cases(), t.cases()), Skip: skip})
		t.passed, t.failed = t.passed+passed, t.failed+failed
		ok = failed == 0
	}
	if !ok {
		t.printLogs(context.WithoutCancel(t.ctx))
	}
	// Even after a failure, so that the endpoint can be used again.
	end := context.WithoutCancel(t.ctx)
	t.do("cdk destroy", func() error { return t.destroy(end) })
	t.do("nothing is left", func() error { return t.nothingLeft(end) })
}

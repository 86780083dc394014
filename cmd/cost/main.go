// Command cost prints docs/cost.md: what tasks, lanes and metrics cost on AWS,
// computed from measured units per task and dated prices. With -o it writes the file.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"

	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("cost", flag.ContinueOnError)
	config := flags.String("config", "localstack/lanekeeper.yaml", "configuration `FILE` whose series are counted")
	file := flags.String("o", "", "`FILE` to write, instead of printing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cfg, err := policyfile.Load(*config)
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	if err := write(&buf, cfg); err != nil {
		return err
	}
	if *file != "" {
		return os.WriteFile(*file, buf.Bytes(), 0o644)
	}
	_, err = buf.WriteTo(os.Stdout)
	return err
}

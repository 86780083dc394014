package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

func newConfig() *cobra.Command {
	group := &cobra.Command{Use: "config", Short: "Work with configuration files", Args: cobra.NoArgs, RunE: needsSubcommand}
	group.AddCommand(&cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file and report every fault at once",
		Long: `Check a configuration file (- reads standard input) and report every fault at once, one per line, as
FILE:LINE:COLUMN: KEY: what is wrong.

For a sound file it prints the hash of its compiled form, warnings, which lanes tasks may run in beside their own, the keys
that are accepted but not yet in force, and how many metric series it makes at most, with their price.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return checkConfig(args[0], cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	})
	return group
}

func checkConfig(file string, in io.Reader, out, errOut io.Writer) error {
	c, err := readConfig(file, in)
	var faults *policy.Faults
	if errors.As(err, &faults) {
		fmt.Fprintf(errOut, "%v\n%s: %s\n", faults, faults.Name, count(len(faults.List), "fault"))
		return errFaulty
	}
	if err != nil {
		return err
	}
	name := file
	if file == "-" {
		name = stdinName
	}
	fmt.Fprintf(out, "%s: ok\nhash: %s\n", name, c.Hash())
	section(out, "warnings", c.Warnings())
	section(out, "other lanes, by learning and by tier", c.Moves())
	section(out, "not yet in force", policy.NotYetInForce(c))
	printSeries(out, c.Series())
	return nil
}

const stdinName = "standard input"

func readConfig(file string, in io.Reader) (*policy.Config, error) {
	if file != "-" {
		return policyfile.Load(file)
	}
	data, err := io.ReadAll(io.LimitReader(in, policyfile.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return policyfile.Parse(stdinName, data)
}

func section(out io.Writer, title string, lines []string) {
	if len(lines) == 0 {
		fmt.Fprintf(out, "%s: none\n", title)
		return
	}
	fmt.Fprintf(out, "%s:\n", title)
	for _, l := range lines {
		fmt.Fprintf(out, "  %s\n", l)
	}
}

func printSeries(out io.Writer, series []policy.Series) {
	total := 0
	for _, s := range series {
		total += s.Count
	}
	fmt.Fprintf(out, "metrics: at most %d series, $%.2f a month at $%.2f each:\n", total,
		float64(total)*policy.DollarsPerSeries, policy.DollarsPerSeries)
	for _, s := range series {
		fmt.Fprintf(out, "  %6d  %s = %s\n", s.Count, s.Metric, s.How)
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Command lanekeeper is the command line for those who run Lanekeeper.
//
//	lanekeeper config check FILE    check a configuration; - reads standard input
//	lanekeeper preflight --env E    ask the account whether a deployment's reserves fit
//	lanekeeper bootstrap --env E    write a first operator's key into a deployed table
//
// It exits with 0 if all is well, 1 if what was checked is at fault, 2 if it was called wrongly or could not read its input.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// errFaulty ends the command with 1; what is wrong has been printed.
var errFaulty = errors.New("faulty")

// run is the command with its exit status.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	switch err := root.ExecuteContext(context.Background()); {
	case err == nil:
		return 0
	case errors.Is(err, errFaulty):
		return 1
	default:
		fmt.Fprintf(errOut, "lanekeeper: %v\n", err)
		return 2
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "lanekeeper",
		Short:         "Lanekeeper's command line",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          needsSubcommand,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newConfig(), newPreflight(), newBootstrap())
	return root
}

// needsSubcommand makes a bare group an error of usage, with its help.
func needsSubcommand(cmd *cobra.Command, _ []string) error {
	fmt.Fprint(cmd.ErrOrStderr(), cmd.UsageString())
	return errors.New("a subcommand is needed")
}

//go:build cdk

// Command infra is the CDK app: it renders one environment's plan into
// CloudFormation and checks it against cdk-nag's AwsSolutions rules. A finding
// fails it.
//
//	infra -env infra/environments/dev.yaml -packages build/dev
//
// The packages are made by infra/assemble. CDK_OUTDIR says where the templates go.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/lanekeeper/lanekeeper/infra/plan"
	"github.com/lanekeeper/lanekeeper/infra/stacks"
	"github.com/lanekeeper/lanekeeper/pkg/environment"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

func main() {
	err := run(os.Args[1:])
	jsii.Close() // ends the Node process
	if err != nil {
		fmt.Fprintln(os.Stderr, "infra:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("infra", flag.ContinueOnError)
	file := flags.String("env", "infra/environments/dev.yaml", "the environment's `FILE`")
	packages := flags.String("packages", "", "`folder` with the functions' zips; default build/<environment>")
	if err := flags.Parse(args); err != nil {
		return err
	}
	e, err := environment.Load(*file)
	if err != nil {
		return err
	}
	cfg, err := policyfile.Load(e.ConfigPath())
	if err != nil {
		return err
	}
	if *packages == "" {
		*packages = filepath.Join("build", e.Name)
	}
	_, err = os.Stat(filepath.Join(*packages, environment.Redrive+".zip"))
	p, err := plan.New(e, cfg, plan.Options{Redrive: err == nil})
	if err != nil {
		return err
	}
	app := awscdk.NewApp(&awscdk.AppProps{AnalyticsReporting: jsii.Bool(false)})
	made := stacks.New(app, p, *packages)
	stacks.Nag(app)
	app.Synth(nil)
	for _, s := range made {
		fmt.Println(*s.StackName())
	}
	if faults := stacks.Findings(made); len(faults) > 0 {
		return fmt.Errorf("%d findings of AwsSolutions:\n%v", len(faults), faults)
	}
	return nil
}

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/spf13/cobra"

	"github.com/lanekeeper/lanekeeper/pkg/environment"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

// environmentFlag adds --env, a name or a file.
func environmentFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("env", "dev", "the environment: a name, for infra/environments/NAME.yaml, or a file")
}

func loadEnvironment(nameOrFile string) (*environment.Environment, *policy.Config, error) {
	file := nameOrFile
	if !strings.ContainsAny(nameOrFile, "./\\") {
		file = filepath.Join("infra", "environments", nameOrFile+".yaml")
	}
	e, err := environment.Load(file)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := policyfile.Load(e.ConfigPath())
	return e, cfg, err
}

func loadAWS(ctx context.Context) (aws.Config, error) {
	conf, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return conf, fmt.Errorf("AWS configuration: %w", err)
	}
	return conf, nil
}

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"github.com/lanekeeper/lanekeeper/pkg/dynamo"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

func newBootstrap() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Write a first operator's key into a deployed table and print it once",
		Long: `Write an operator's key into the table of a deployment and print it. Only its hash is stored, so it cannot be shown
again. With this key, tenants and their keys are made over the API.

With --seed, the tenants and keys that the configuration lists are written too, for demonstrations and tests. What is there
already is left alone.`,
		Args: cobra.NoArgs,
	}
	env := environmentFlag(cmd)
	seed := cmd.Flags().Bool("seed", false, "write the configuration's tenants and keys too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e, cfg, err := loadEnvironment(*env)
		if err != nil {
			return err
		}
		conf, err := loadAWS(cmd.Context())
		if err != nil {
			return err
		}
		if !*seed {
			cfg = nil
		}
		return bootstrap(cmd.Context(), dynamo.New(dynamodb.NewFromConfig(conf), e.Table(), dynamo.Options{}), e.Table(), cfg, cmd.OutOrStdout())
	}
	return cmd
}

// bootstrap writes a new operator's key, and the tenants and keys of seed if it is not nil.
func bootstrap(ctx context.Context, table op.Table, name string, seed *policy.Config, out io.Writer) error {
	key := "lk_" + rand.Text() // 130 bits
	writes := []op.Write{taskop.PutCredential(key, taskop.Credential{Operator: true})}
	if seed != nil {
		writes = append(writes, seedWrites(seed)...)
	}
	for _, w := range writes {
		if _, err := table.Write(ctx, w); err != nil && op.FailedCond(err) == nil {
			var down *op.Unavailable
			if errors.As(err, &down) {
				return fmt.Errorf("table %s: %w", name, down)
			}
			return fmt.Errorf("table %s (is the environment deployed, in this account and region?): %w", name, err)
		}
	}
	_, err := fmt.Fprintf(out, "operator's key of %s, shown only now:\n%s\n", name, key)
	return err
}

func seedWrites(cfg *policy.Config) []op.Write {
	var writes []op.Write
	for _, name := range cfg.TenantNames() {
		t, _ := cfg.Tenant(name)
		writes = append(writes, taskop.PutTenant(name, t.Tier))
		for _, key := range t.Keys {
			writes = append(writes, taskop.PutCredential(key, taskop.Credential{Tenant: name}))
		}
	}
	for _, key := range cfg.Operators.Keys {
		writes = append(writes, taskop.PutCredential(key, taskop.Credential{Operator: true}))
	}
	return writes
}

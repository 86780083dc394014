package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/spf13/cobra"

	"github.com/lanekeeper/lanekeeper/pkg/environment"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

func newPreflight() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Ask the account whether a deployment's reserves fit its quota",
		Long: `Ask the account for its quota of concurrent executions and for what is reserved already, and say whether the
deployment's reserves fit. Run it before the first deployment and before raising workers.reserved.`,
		Args: cobra.NoArgs,
	}
	env := environmentFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e, cfg, err := loadEnvironment(*env)
		if err != nil {
			return err
		}
		conf, err := loadAWS(cmd.Context())
		if err != nil {
			return err
		}
		return preflight(cmd.Context(), lambda.NewFromConfig(conf), e, cfg, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

// quotaAPI is what preflight asks.
type quotaAPI interface {
	GetAccountSettings(context.Context, *lambda.GetAccountSettingsInput, ...func(*lambda.Options)) (*lambda.GetAccountSettingsOutput, error)
	GetFunctionConcurrency(context.Context, *lambda.GetFunctionConcurrencyInput, ...func(*lambda.Options)) (*lambda.GetFunctionConcurrencyOutput, error)
}

func preflight(ctx context.Context, api quotaAPI, e *environment.Environment, cfg *policy.Config, out, errOut io.Writer) error {
	settings, err := api.GetAccountSettings(ctx, &lambda.GetAccountSettingsInput{})
	if err != nil {
		return fmt.Errorf("asking for the account's quota: %w", err)
	}
	if settings.AccountLimit == nil {
		return errors.New("the account named no quota")
	}
	quota := int(settings.AccountLimit.ConcurrentExecutions)
	elsewhere := 0
	if settings.AccountLimit.UnreservedConcurrentExecutions != nil {
		elsewhere = quota - int(*settings.AccountLimit.UnreservedConcurrentExecutions)
	}
	want := 0
	fmt.Fprintf(out, "account: %d concurrent executions, %d of them reserved\n", quota, elsewhere)
	for _, lane := range cfg.LaneNames() {
		now, err := reservedNow(ctx, api, e.Worker(lane))
		if err != nil {
			return err
		}
		elsewhere -= now
		n := e.Reserved(cfg, lane)
		want += n
		fmt.Fprintf(out, "lane %-12s reserves %4d, now %4d\n", lane, n, now)
	}
	if err := e.CheckReserves(want, quota-elsewhere); err != nil {
		fmt.Fprintf(errOut, "preflight: %v\n", err)
		if elsewhere > 0 {
			fmt.Fprintf(errOut, "preflight: %d of the account's %d are reserved by other functions\n", elsewhere, quota)
		}
		return errFaulty
	}
	if !e.Reservations {
		fmt.Fprintln(out, "reservations are off: lanes are kept apart by MaximumConcurrency alone, and can take each other's concurrency")
		return nil
	}
	fmt.Fprintf(out, "ok: %d reserved, %d stay free for everything else\n", want, quota-elsewhere-want)
	return nil
}

// reservedNow is what a function reserves already, 0 if there is none yet.
func reservedNow(ctx context.Context, api quotaAPI, function string) (int, error) {
	got, err := api.GetFunctionConcurrency(ctx, &lambda.GetFunctionConcurrencyInput{FunctionName: &function})
	var missing *types.ResourceNotFoundException
	switch {
	case errors.As(err, &missing):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("asking what %s reserves: %w", function, err)
	case got.ReservedConcurrentExecutions == nil:
		return 0, nil
	}
	return int(*got.ReservedConcurrentExecutions), nil
}

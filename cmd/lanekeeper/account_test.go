package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/lanekeeper/lanekeeper/pkg/environment"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// account is an account with a quota, and what its functions reserve.
type account struct {
	quota      int32
	unreserved int32
	functions  map[string]int32
	err        error
}

func (a account) GetAccountSettings(context.Context, *lambda.GetAccountSettingsInput, ...func(*lambda.Options)) (*lambda.GetAccountSettingsOutput, error) {
	return &lambda.GetAccountSettingsOutput{AccountLimit: &types.AccountLimit{ConcurrentExecutions: a.quota, UnreservedConcurrentExecutions: &a.unreserved}}, a.err
}

func (a account) GetFunctionConcurrency(_ context.Context, in *lambda.GetFunctionConcurrencyInput, _ ...func(*lambda.Options)) (*lambda.GetFunctionConcurrencyOutput, error) {
	n, ok := a.functions[*in.FunctionName]
	if !ok {
		return nil, &types.ResourceNotFoundException{}
	}
	return &lambda.GetFunctionConcurrencyOutput{ReservedConcurrentExecutions: aws.Int32(n)}, nil
}

func demoEnvironment(t *testing.T) (*environment.Environment, *policy.Config) {
	t.Helper()
	e, cfg, err := loadEnvironment("../../infra/environments/dev.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return e, cfg
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	ours := map[string]int32{"lanekeeper-dev-worker-critical": 4, "lanekeeper-dev-worker-standard": 4, "lanekeeper-dev-worker-heavy": 2, "lanekeeper-dev-worker-retry": 2}
	for _, c := range []struct {
		name    string
		account account
		off     bool
		err     error
		says    string
	}{
		{"fits", account{quota: 1000, unreserved: 1000}, false, nil, "ok: 12 reserved, 988 stay free"},
		{"a new account", account{quota: 10, unreserved: 10}, false, errFaulty, "leaves 0"},
		{"a new account, reservations off", account{quota: 10, unreserved: 10}, true, nil, "reservations are off"},
		{"others reserve", account{quota: 1000, unreserved: 105}, false, errFaulty, "895 of the account's 1000 are reserved by other functions"},
		{"deployed already", account{quota: 120, unreserved: 108, functions: ours}, false, nil, "ok: 12 reserved, 108 stay free"},
		{"exactly", account{quota: 112, unreserved: 112}, false, nil, "ok: 12 reserved"},
		{"one too few", account{quota: 111, unreserved: 111}, false, errFaulty, "reservations: false"},
	} {
		e, cfg := demoEnvironment(t)
		e.Reservations = !c.off
		var out, errOut bytes.Buffer
		err := preflight(context.Background(), c.account, e, cfg, &out, &errOut)
		if !errors.Is(err, c.err) || !strings.Contains(out.String()+errOut.String(), c.says) {
			t.Errorf("%s: %v\n%s%s", c.name, err, &out, &errOut)
		}
	}
	e, cfg := demoEnvironment(t)
	if err := preflight(context.Background(), account{err: errors.New("denied")}, e, cfg, &bytes.Buffer{}, &bytes.Buffer{}); err == nil || errors.Is(err, errFaulty) {
		t.Errorf("an account that does not answer: %v", err)
	}
}

func TestBootstrap(t *testing.T) {
	t.Parallel()
	_, cfg := demoEnvironment(t)
	table := memtable.New(memtable.Options{})
	keys := map[string]bool{}
	for range 2 {
		var out bytes.Buffer
		if err := bootstrap(context.Background(), table, "lanekeeper-dev", cfg, &out); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		key := lines[len(lines)-1]
		if len(key) < 25 || keys[key] {
			t.Errorf("the key is %q", key)
		}
		keys[key] = true
		if c, ok := taskop.DecodeCredential(table.Peek(taskop.CredentialKey(key))); !ok || !c.Operator {
			t.Errorf("the printed key stands for %+v", c)
		}
	}
	if c, ok := taskop.DecodeCredential(table.Peek(taskop.CredentialKey("demo-alpha"))); !ok || c.Tenant != "alpha" || c.Operator {
		t.Errorf("the seeded key stands for %+v", c)
	}
	if c, ok := taskop.DecodeCredential(table.Peek(taskop.CredentialKey("demo-admin"))); !ok || !c.Operator {
		t.Errorf("the seeded operator's key stands for %+v", c)
	}
	table.Each(func(k op.Key, it op.Item) {
		for secret := range keys {
			if strings.Contains(k.PK+k.SK, secret) {
				t.Errorf("the key itself is stored: %v", k)
			}
		}
	})
	bare := memtable.New(memtable.Options{})
	if err := bootstrap(context.Background(), bare, "lanekeeper-dev", nil, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	if taskop.DecodeTenant(bare.Peek(taskop.TenantKey("alpha"))) != "" {
		t.Error("tenants were written without --seed")
	}
}

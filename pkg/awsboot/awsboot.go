package awsboot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lanekeeper/lanekeeper/pkg/aggregate"
	"github.com/lanekeeper/lanekeeper/pkg/apigw"
	"github.com/lanekeeper/lanekeeper/pkg/chance"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/dynamo"
	"github.com/lanekeeper/lanekeeper/pkg/env"
	"github.com/lanekeeper/lanekeeper/pkg/execute"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/redrive"
	"github.com/lanekeeper/lanekeeper/pkg/sqsevent"
	"github.com/lanekeeper/lanekeeper/pkg/sqsqueue"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/tickevent"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// Getenv reads an environment variable, as os.Getenv does.
type Getenv func(string) string

// Version is the build's, set by the linker.
var Version = "dev"

// base is what all functions need.
type base struct {
	cfg    *policy.Config
	aws    aws.Config
	table  *dynamo.Table
	queues map[string]string
}

func newBase(ctx context.Context, getenv Getenv, needQueues bool) (*base, error) {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, nil)))
	var errs []error
	table := getenv(env.Table)
	if table == "" {
		errs = append(errs, fmt.Errorf("%s is not set", env.Table))
	}
	cfg, err := readConfig(getenv)
	errs = append(errs, err)
	queues := map[string]string{}
	if needQueues {
		if err := json.Unmarshal([]byte(getenv(env.Queues)), &queues); err != nil {
			errs = append(errs, fmt.Errorf("%s is not a JSON object of URLs by lane", env.Queues))
		}
		if cfg != nil {
			for _, lane := range cfg.LaneNames() {
				if queues[lane] == "" {
					errs = append(errs, fmt.Errorf("%s has no URL for lane %s", env.Queues, lane))
				}
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	conf, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("AWS configuration: %w", err)
	}
	return &base{cfg: cfg, aws: conf, table: dynamo.New(dynamodb.NewFromConfig(conf), table, dynamo.Options{}), queues: queues}, nil
}

func readConfig(getenv Getenv) (*policy.Config, error) {
	path := getenv(env.Config)
	if path == "" {
		path = filepath.Join(getenv("LAMBDA_TASK_ROOT"), env.DefaultConfig)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("compiled configuration: %w", err)
	}
	return policy.FromCompiled(raw)
}

func (b *base) sender() *sqsqueue.Sender { return sqsqueue.New(sqs.NewFromConfig(b.aws), b.queues) }

// Admission is the handler of the admission function.
func Admission(ctx context.Context, getenv Getenv) (func(context.Context, apigw.Request) (apigw.Response, error), error) {
	b, err := newBase(ctx, getenv, true)
	if err != nil {
		return nil, err
	}
	d := intake.Deps{Config: b.cfg, Table: b.table, Queue: b.sender(), Clock: clock.System, Tally: tally.New(), Float: chance.Float, NewID: chance.NewID, Probes: true}
	if d.Trace, err = tracer(getenv); err != nil {
		return nil, err
	}
	if name := getenv(env.Aggregator); name != "" {
		d.Wake = waker(lambda.NewFromConfig(b.aws), name)
	}
	return apigw.New(intake.New(d), Version).WithJWT(apigw.JWT{TenantClaim: getenv(env.JWTTenantClaim), TierClaim: getenv(env.JWTTierClaim)}).Handle, nil
}

// waker invokes the aggregator asynchronously. That it could not be woken is no
// reason to fail a submission: the schedule starts it within a minute.
func waker(client *lambda.Client, name string) func(context.Context) {
	return func(ctx context.Context) {
		payload, err := tickevent.Admission()
		if err == nil {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, err = client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &name, InvocationType: types.InvocationTypeEvent, Payload: payload})
		}
		if err != nil {
			slog.WarnContext(ctx, "the aggregator was not woken", "error", err)
		}
	}
}

// Worker is the handler of a worker function; it serves the lane that the
// environment names with the handlers of mux.
func Worker(ctx context.Context, getenv Getenv, mux *worker.Mux) (*sqsevent.Handler, error) {
	b, err := newBase(ctx, getenv, false)
	if err != nil {
		return nil, err
	}
	lane := getenv(env.Lane)
	if _, ok := b.cfg.Lane(lane); !ok {
		return nil, fmt.Errorf("%s names no lane of the configuration: %q", env.Lane, lane)
	}
	spans, err := tracer(getenv)
	if err != nil {
		return nil, err
	}
	svc := execute.New(execute.Deps{Trace: spans, Config: b.cfg, Table: b.table, Mux: mux, Clock: clock.System, Tally: tally.New(), Float: chance.Float, NewID: chance.NewToken})
	return sqsevent.New(svc, lane), nil
}

// Aggregator is the handler of the aggregator function.
func Aggregator(ctx context.Context, getenv Getenv) (*tickevent.Handler, error) {
	b, err := newBase(ctx, getenv, true)
	if err != nil {
		return nil, err
	}
	d := aggregate.Deps{Config: b.cfg, Table: b.table, Queue: b.sender(), Clock: clock.System, Tally: tally.New(),
		Float: chance.Float, NewID: chance.NewToken}
	if d.Trace, err = tracer(getenv); err != nil {
		return nil, err
	}
	b.report(&d, getenv)
	return tickevent.New(aggregate.New(d)), nil
}

// Redrive is the handler of the redrive function, which serves every
// dead-letter queue.
func Redrive(ctx context.Context, getenv Getenv) (*sqsevent.Dead, error) {
	b, err := newBase(ctx, getenv, false)
	if err != nil {
		return nil, err
	}
	return sqsevent.NewDead(redrive.New(redrive.Deps{Config: b.cfg, Table: b.table, Clock: clock.System, Tally: tally.New()})), nil
}

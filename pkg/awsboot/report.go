package awsboot

import (
	"os"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lanekeeper/lanekeeper/pkg/aggregate"
	"github.com/lanekeeper/lanekeeper/pkg/env"
	"github.com/lanekeeper/lanekeeper/pkg/sqsqueue"
	"github.com/lanekeeper/lanekeeper/pkg/telemetry"
)

// report makes the aggregator emit metrics, if the environment names a
// namespace for them.
func (b *base) report(d *aggregate.Deps, getenv Getenv) {
	namespace := getenv(env.MetricsNamespace)
	if namespace == "" {
		return
	}
	d.Metrics = telemetry.New(os.Stdout, namespace)
	if suffix := getenv(env.DeadLetters); suffix != "" {
		urls := map[string]string{}
		for lane, url := range b.queues {
			urls[lane] = url + suffix
		}
		d.DeadLetters = sqsqueue.NewCounter(sqs.NewFromConfig(b.aws), urls)
	}
}

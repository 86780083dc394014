package awsboot

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lanekeeper/lanekeeper/pkg/aggregate"
	"github.com/lanekeeper/lanekeeper/pkg/env"
	"github.com/lanekeeper/lanekeeper/pkg/sqsqueue"
	"github.com/lanekeeper/lanekeeper/pkg/telemetry"
)

// report makes the aggregator emit metrics, if the environment names a
// namespace for them.
func (b *base) report(d *aggregate.Deps, getenv Getenv) error {
	namespace := getenv(env.MetricsNamespace)
	if namespace == "" {
		return nil
	}
	d.Metrics = telemetry.New(os.Stdout, namespace)
	if text := getenv(env.DeadLetters); text != "" {
		urls := map[string]string{}
		if err := json.Unmarshal([]byte(text), &urls); err != nil {
			return fmt.Errorf("%s is not a JSON object of URLs by lane", env.DeadLetters)
		}
		d.DeadLetters = sqsqueue.NewCounter(sqs.NewFromConfig(b.aws), urls)
	}
	return nil
}

package main

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/e2e"
	"github.com/lanekeeper/lanekeeper/pkg/env"
	"github.com/lanekeeper/lanekeeper/pkg/environment"
)

const (
	fragile = "fragile" // the lane whose worker is broken
	// brokenTimeoutS and brokenVisibilityS are short, so that five receives are over in seconds.
	brokenTimeoutS    = 3
	brokenVisibilityS = "3"
)

// breakAndMend takes the table's name from a lane's function, so that it ends
// while starting, as with any fault of an environment; and gives it back.
func (t *tester) breakAndMend(c *e2e.C) {
	before, err := t.worker(c.Context)
	c.Must(err)
	broken := maps.Clone(before.Environment.Variables)
	delete(broken, env.Table)
	c.Must(t.setWorker(c.Context, broken, brokenTimeoutS))
	queue, err := sqs.NewFromConfig(t.conf).GetQueueUrl(c.Context, &sqs.GetQueueUrlInput{QueueName: aws.String(t.env.Queue(fragile))})
	c.Must(err)
	_, err = sqs.NewFromConfig(t.conf).SetQueueAttributes(c.Context, &sqs.SetQueueAttributesInput{
		QueueUrl: queue.QueueUrl, Attributes: map[string]string{"VisibilityTimeout": brokenVisibilityS}})
	c.Must(err)

	task := c.Submit(tenant, "e2e.fragile", `{"sleep_ms": 10}`)
	// What redrive says of a task whose wake-up it found among the dead letters.
	c.Eventually("redrive taking up the dead wake-up", func() (bool, string) {
		lines, err := t.lines(c.Context, t.env.LogGroup(environment.Redrive))
		c.Must(err)
		for _, line := range lines {
			if strings.Contains(line, task.ID) {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%d lines of redrive, none of task %s", len(lines), task.ID)
	})
	c.Must(t.setWorker(c.Context, before.Environment.Variables, aws.ToInt32(before.Timeout)))
	healed := c.Until(tenant, task.ID, events.StateSucceeded)
	if healed.Attempt != 1 {
		c.Failf("it took %d attempts, although none began while the worker was broken", healed.Attempt)
	}
}

func (t *tester) worker(ctx context.Context) (*lambda.GetFunctionConfigurationOutput, error) {
	return lambda.NewFromConfig(t.conf).GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: aws.String(t.env.Worker(fragile))})
}

func (t *tester) setWorker(ctx context.Context, variables map[string]string, timeoutS int32) error {
	_, err := lambda.NewFromConfig(t.conf).UpdateFunctionConfiguration(ctx, &lambda.UpdateFunctionConfigurationInput{
		FunctionName: aws.String(t.env.Worker(fragile)), Timeout: &timeoutS, Environment: &types.Environment{Variables: variables}})
	return err
}

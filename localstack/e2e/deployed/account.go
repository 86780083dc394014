package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// printLogs shows what each function printed last.
func (d *deployment) printLogs(ctx context.Context) {
	groups, err := d.logGroups(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(d.out, "the functions' logs cannot be read:", err)
		return
	}
	for _, group := range groups {
		lines, err := d.lines(ctx, group)
		_, _ = fmt.Fprintf(d.out, "--- %s (%d lines, the last 15)\n", group, len(lines))
		if err != nil {
			_, _ = fmt.Fprintln(d.out, err)
		}
		for _, line := range lines[max(0, len(lines)-15):] {
			if !strings.Contains(line, `"_aws"`) {
				_, _ = fmt.Fprintf(d.out, "%.500s\n", strings.TrimSpace(line))
			}
		}
	}
}

func (d *deployment) logGroups(ctx context.Context) ([]string, error) {
	out, err := cloudwatchlogs.NewFromConfig(d.conf).DescribeLogGroups(ctx, &cloudwatchlogs.DescribeLogGroupsInput{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range out.LogGroups {
		if strings.Contains(*g.LogGroupName, d.env.Table()) {
			names = append(names, *g.LogGroupName)
		}
	}
	return names, nil
}

func (d *deployment) lines(ctx context.Context, group string) ([]string, error) {
	client := cloudwatchlogs.NewFromConfig(d.conf)
	in := &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &group}
	var lines []string
	for {
		out, err := client.FilterLogEvents(ctx, in)
		if err != nil {
			return lines, err
		}
		for _, e := range out.Events {
			lines = append(lines, aws.ToString(e.Message))
		}
		if out.NextToken == nil || aws.ToString(in.NextToken) == *out.NextToken {
			return lines, nil
		}
		in.NextToken = out.NextToken
	}
}

// emitted are the metrics that the aggregator really printed: namespace, name, and
// dimensions with their values.
func (d *deployment) emitted(ctx context.Context) (map[string]bool, error) {
	lines, err := d.lines(ctx, d.env.LogGroup(environmentAggregator))
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, text := range lines {
		var line struct {
			AWS struct {
				CloudWatchMetrics []struct {
					Namespace  string
					Dimensions [][]string
					Metrics    []struct{ Name string }
				}
			} `json:"_aws"`
		}
		var root map[string]any
		if json.Unmarshal([]byte(text), &line) != nil || json.Unmarshal([]byte(text), &root) != nil {
			continue
		}
		for _, m := range line.AWS.CloudWatchMetrics {
			for _, set := range m.Dimensions {
				var dims []string
				for _, name := range set {
					dims = append(dims, fmt.Sprint(name, "=", root[name]))
				}
				slices.Sort(dims)
				for _, one := range m.Metrics {
					found[fmt.Sprint(m.Namespace, " ", one.Name, " ", dims)] = true
				}
			}
		}
	}
	return found, nil
}

// watched are the metrics of our own that alarms look at, in the same form.
func (d *deployment) watched(ctx context.Context) (map[string]string, error) {
	client := cloudwatch.NewFromConfig(d.conf)
	in := &cloudwatch.DescribeAlarmsInput{AlarmNamePrefix: aws.String(d.env.Table() + "-")}
	found := map[string]string{}
	for {
		out, err := client.DescribeAlarms(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, a := range out.MetricAlarms {
			if aws.ToString(a.Namespace) != d.env.Namespace() {
				continue
			}
			var dims []string
			for _, dim := range a.Dimensions {
				dims = append(dims, *dim.Name+"="+*dim.Value)
			}
			slices.Sort(dims)
			found[fmt.Sprint(*a.Namespace, " ", *a.MetricName, " ", dims)] = *a.AlarmName
		}
		if aws.ToString(out.NextToken) == "" {
			return found, nil
		}
		in.NextToken = out.NextToken
	}
}

func (d *deployment) queues(ctx context.Context) ([]string, error) {
	out, err := sqs.NewFromConfig(d.conf).ListQueues(ctx, &sqs.ListQueuesInput{})
	if err != nil {
		return nil, err
	}
	return out.QueueUrls, nil
}

// nothingLeft looks for anything that carries the environment's name.
func (d *deployment) nothingLeft(ctx context.Context) error {
	var left []string
	note := func(kind string, names ...string) {
		for _, n := range names {
			if strings.Contains(n, d.env.Table()) {
				left = append(left, kind+" "+n)
			}
		}
	}
	tables, err := dynamodb.NewFromConfig(d.conf).ListTables(ctx, &dynamodb.ListTablesInput{})
	if err != nil {
		return err
	}
	note("table", tables.TableNames...)
	queues, err := d.queues(ctx)
	if err != nil {
		return err
	}
	note("queue", queues...)
	functions, err := lambda.NewFromConfig(d.conf).ListFunctions(ctx, &lambda.ListFunctionsInput{})
	if err != nil {
		return err
	}
	for _, f := range functions.Functions {
		note("function", *f.FunctionName)
	}
	mappings, err := lambda.NewFromConfig(d.conf).ListEventSourceMappings(ctx, &lambda.ListEventSourceMappingsInput{})
	if err != nil {
		return err
	}
	for _, m := range mappings.EventSourceMappings {
		note("mapping", aws.ToString(m.EventSourceArn))
	}
	groups, err := d.logGroups(ctx)
	if err != nil {
		return err
	}
	note("log group", groups...)
	alarms, err := d.watched(ctx)
	if err != nil {
		return err
	}
	for _, a := range alarms {
		note("alarm", a)
	}
	if len(left) > 0 {
		return fmt.Errorf("left: %s", strings.Join(left, ", "))
	}
	return nil
}

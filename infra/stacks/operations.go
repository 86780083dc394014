//go:build cdk

package stacks

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsscheduler"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lanekeeper/lanekeeper/infra/plan"
)

func (s *stack) operations() {
	s.aggregator()
	if s.Redrive != nil {
		s.redrive()
	}
	s.alarms(s.topic())
	awscloudwatch.NewCfnDashboard(s.cdk, jsii.String("Dashboard"), &awscloudwatch.CfnDashboardProps{
		DashboardName: jsii.String("lanekeeper-" + s.Env.Name), DashboardBody: sub(s.Dashboard),
	})
}

// aggregator makes the function and what starts it every minute. A start that
// fails is not repeated: the next one comes anyway.
func (s *stack) aggregator() {
	scope := constructs.NewConstruct(s.cdk, jsii.String("Aggregator"))
	f := s.function(scope, s.Aggregator)
	awslambda.NewCfnEventInvokeConfig(scope, jsii.String("Invoke"), &awslambda.CfnEventInvokeConfigProps{
		FunctionName: f.Ref(), Qualifier: jsii.String("$LATEST"),
		MaximumRetryAttempts: number(plan.AggregatorRetries), MaximumEventAgeInSeconds: number(plan.AggregatorMaxAgeS),
	})
	schedule := constructs.NewConstruct(s.cdk, jsii.String("Schedule"))
	role := s.role(schedule, "scheduler.amazonaws.com",
		map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": s.cdk.Account()}},
		[]any{map[string]any{"Sid": "Start", "Effect": "Allow", "Action": []string{"lambda:InvokeFunction"}, "Resource": f.AttrArn()}})
	awsscheduler.NewCfnSchedule(schedule, jsii.String("EveryMinute"), &awsscheduler.CfnScheduleProps{
		Name: jsii.String(s.Env.Function("aggregator")), Description: jsii.String("Starts the aggregator"),
		ScheduleExpression: jsii.String("rate(1 minute)"),
		FlexibleTimeWindow: &awsscheduler.CfnSchedule_FlexibleTimeWindowProperty{Mode: jsii.String("OFF")},
		Target: &awsscheduler.CfnSchedule_TargetProperty{
			Arn: f.AttrArn(), RoleArn: role.AttrArn(), Input: jsii.String(`{"v":1,"source":"schedule"}`),
			RetryPolicy: &awsscheduler.CfnSchedule_RetryPolicyProperty{MaximumRetryAttempts: number(plan.AggregatorRetries), MaximumEventAgeInSeconds: number(plan.AggregatorMaxAgeS)},
		},
	})
}

// redrive makes the function that empties the dead-letter queues.
func (s *stack) redrive() {
	scope := constructs.NewConstruct(s.cdk, jsii.String("Redrive"))
	f := s.function(scope, *s.Redrive)
	for _, l := range s.Lanes {
		awslambda.NewCfnEventSourceMapping(scope, jsii.String("Mapping-"+l.Name), &awslambda.CfnEventSourceMappingProps{
			FunctionName: f.Ref(), EventSourceArn: sub(plan.QueueARN(l.DeadLetters)), BatchSize: number(10),
			FunctionResponseTypes: jsii.Strings("ReportBatchItemFailures"),
			ScalingConfig:         &awslambda.CfnEventSourceMapping_ScalingConfigProperty{MaximumConcurrency: number(plan.MinConcurrency)},
		})
	}
}

// topic is where alarms go: TLS only, and only this account's alarms may publish.
func (s *stack) topic() awssns.CfnTopic {
	props := &awssns.CfnTopicProps{TopicName: jsii.String(s.Env.Function("alarms")), DisplayName: jsii.String("Lanekeeper " + s.Env.Name)}
	if s.Env.AlarmEmail != "" {
		props.Subscription = &[]any{&awssns.CfnTopic_SubscriptionProperty{Protocol: jsii.String("email"), Endpoint: jsii.String(s.Env.AlarmEmail)}}
	}
	topic := awssns.NewCfnTopic(s.cdk, jsii.String("Alarms"), props)
	awssns.NewCfnTopicPolicy(s.cdk, jsii.String("AlarmsPolicy"), &awssns.CfnTopicPolicyProps{
		Topics: jsii.Strings(*topic.Ref()),
		PolicyDocument: document(
			map[string]any{"Sid": "AlarmsPublish", "Effect": "Allow", "Principal": map[string]any{"Service": "cloudwatch.amazonaws.com"}, "Action": "sns:Publish",
				"Resource": topic.Ref(), "Condition": map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": s.cdk.Account()}}},
			map[string]any{"Sid": "TLSOnly", "Effect": "Deny", "Principal": map[string]any{"AWS": "*"}, "Action": "sns:Publish", "Resource": topic.Ref(),
				"Condition": map[string]any{"Bool": map[string]any{"aws:SecureTransport": "false"}}},
		),
	})
	return topic
}

func (s *stack) alarms(topic awssns.CfnTopic) {
	scope := constructs.NewConstruct(s.cdk, jsii.String("Alarm"))
	for _, a := range s.Alarms {
		props := &awscloudwatch.CfnAlarmProps{
			AlarmName: jsii.String(s.Env.Function(a.Key)), AlarmDescription: jsii.String(a.Description),
			ComparisonOperator: jsii.String(a.Comparison), Threshold: jsii.Number(a.Threshold),
			EvaluationPeriods: number(a.Periods), DatapointsToAlarm: number(a.Datapoints), TreatMissingData: jsii.String(a.Missing),
			AlarmActions: &[]any{topic.Ref()}, OkActions: &[]any{topic.Ref()},
		}
		if len(a.Queries) == 1 {
			m := a.Queries[0].Metric
			props.Namespace, props.MetricName, props.Statistic, props.Period = jsii.String(m.Namespace), jsii.String(m.Name), jsii.String(m.Stat), number(m.PeriodS)
			props.Dimensions = dimensions(m)
		} else {
			props.Metrics = queries(a.Queries)
		}
		awscloudwatch.NewCfnAlarm(scope, jsii.String(a.Key), props)
	}
}

func dimensions(m plan.Metric) *[]any {
	list := []any{}
	for _, d := range m.Dimensions {
		list = append(list, &awscloudwatch.CfnAlarm_DimensionProperty{Name: jsii.String(d.Name), Value: jsii.String(d.Value)})
	}
	return &list
}

func queries(list []plan.Query) *[]any {
	var made []any
	for i, q := range list {
		p := &awscloudwatch.CfnAlarm_MetricDataQueryProperty{Id: jsii.String(q.ID), ReturnData: jsii.Bool(i == len(list)-1)}
		if q.Expression != "" {
			p.Expression, p.Label = jsii.String(q.Expression), jsii.String(q.Label)
		} else {
			p.MetricStat = &awscloudwatch.CfnAlarm_MetricStatProperty{
				Metric: &awscloudwatch.CfnAlarm_MetricProperty{Namespace: jsii.String(q.Metric.Namespace), MetricName: jsii.String(q.Metric.Name), Dimensions: dimensions(q.Metric)},
				Stat:   jsii.String(q.Metric.Stat), Period: number(q.Metric.PeriodS),
			}
		}
		made = append(made, p)
	}
	return &made
}

//go:build cdk

package stacks

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lanekeeper/lanekeeper/infra/plan"
)

// queueRetentionS is the longest that SQS keeps a message, 14 days.
const queueRetentionS = 14 * 24 * 60 * 60

func (s *stack) lane(l plan.Lane) {
	scope := constructs.NewConstruct(s.cdk, jsii.String("Lane-"+l.Name))
	s.queues(scope, l)
	f := s.function(constructs.NewConstruct(scope, jsii.String("Worker")), l.Worker)
	mapping := awslambda.NewCfnEventSourceMapping(scope, jsii.String("Mapping"), &awslambda.CfnEventSourceMappingProps{
		FunctionName:                   f.Ref(),
		EventSourceArn:                 sub(plan.QueueARN(l.Queue)),
		BatchSize:                      number(l.BatchSize),
		MaximumBatchingWindowInSeconds: number(l.WindowS),
		FunctionResponseTypes:          jsii.Strings("ReportBatchItemFailures"),
		ScalingConfig:                  &awslambda.CfnEventSourceMapping_ScalingConfigProperty{MaximumConcurrency: number(l.MaxConcurrency)},
	})
	queue, _ := scope.Node().FindChild(jsii.String("Queue")).(awssqs.CfnQueue)
	mapping.AddResourceDependency(queue, nil)
}

// queues makes a lane's queue and dead-letter queue. Each names the other by
// ARN, which follows from its name: references would be a circle.
func (s *stack) queues(scope constructs.Construct, l plan.Lane) {
	dead := awssqs.NewCfnQueue(scope, jsii.String("DeadLetters"), &awssqs.CfnQueueProps{
		QueueName:              jsii.String(l.DeadLetters),
		MessageRetentionPeriod: number(l.DLQRetentionS),
		VisibilityTimeout:      number(l.DLQVisibilityS),
		SqsManagedSseEnabled:   jsii.Bool(true),
		RedriveAllowPolicy:     map[string]any{"redrivePermission": "byQueue", "sourceQueueArns": []*string{sub(plan.QueueARN(l.Queue))}},
	})
	s.removal(dead)
	queue := awssqs.NewCfnQueue(scope, jsii.String("Queue"), &awssqs.CfnQueueProps{
		QueueName:              jsii.String(l.Queue),
		MessageRetentionPeriod: number(queueRetentionS),
		VisibilityTimeout:      number(l.VisibilityS),
		SqsManagedSseEnabled:   jsii.Bool(true),
		RedrivePolicy:          map[string]any{"deadLetterTargetArn": dead.AttrArn(), "maxReceiveCount": l.MaxReceives},
	})
	for _, q := range []awssqs.CfnQueue{queue, dead} {
		awssqs.NewCfnQueuePolicy(scope, jsii.String(*q.Node().Id()+"Policy"), &awssqs.CfnQueuePolicyProps{
			Queues: jsii.Strings(*q.Ref()),
			PolicyDocument: document(map[string]any{
				"Sid": "TLSOnly", "Effect": "Deny", "Principal": map[string]any{"AWS": "*"}, "Action": "sqs:*", "Resource": q.AttrArn(),
				"Condition": map[string]any{"Bool": map[string]any{"aws:SecureTransport": "false"}},
			}),
		})
	}
}

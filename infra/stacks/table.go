//go:build cdk

package stacks

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/jsii-runtime-go"

	"github.com/lanekeeper/lanekeeper/pkg/dynamo"
	"github.com/lanekeeper/lanekeeper/pkg/environment"
)

// table renders the schema that the DynamoDB adapter states.
func (s *stack) table() {
	schema := dynamo.Schema(s.Env.Table())
	var attributes []any
	for _, a := range schema.AttributeDefinitions {
		attributes = append(attributes, &awsdynamodb.CfnGlobalTable_AttributeDefinitionProperty{AttributeName: a.AttributeName, AttributeType: jsii.String(string(a.AttributeType))})
	}
	var indexes []any
	for _, ix := range schema.GlobalSecondaryIndexes {
		var keys []any
		for _, k := range ix.KeySchema {
			keys = append(keys, &awsdynamodb.CfnGlobalTable_KeySchemaProperty{AttributeName: k.AttributeName, KeyType: jsii.String(string(k.KeyType))})
		}
		indexes = append(indexes, &awsdynamodb.CfnGlobalTable_GlobalSecondaryIndexProperty{
			IndexName: ix.IndexName, KeySchema: &keys,
			Projection: &awsdynamodb.CfnGlobalTable_ProjectionProperty{ProjectionType: jsii.String(string(ix.Projection.ProjectionType))},
		})
	}
	var keys []any
	for _, k := range schema.KeySchema {
		keys = append(keys, &awsdynamodb.CfnGlobalTable_KeySchemaProperty{AttributeName: k.AttributeName, KeyType: jsii.String(string(k.KeyType))})
	}
	t := awsdynamodb.NewCfnGlobalTable(s.cdk, jsii.String("Table"), &awsdynamodb.CfnGlobalTableProps{
		TableName:              schema.TableName,
		BillingMode:            jsii.String(string(schema.BillingMode)),
		AttributeDefinitions:   &attributes,
		KeySchema:              &keys,
		GlobalSecondaryIndexes: &indexes,
		SseSpecification:       &awsdynamodb.CfnGlobalTable_SSESpecificationProperty{SseEnabled: jsii.Bool(true), SseType: jsii.String("KMS")},
		TimeToLiveSpecification: &awsdynamodb.CfnGlobalTable_TimeToLiveSpecificationProperty{
			AttributeName: jsii.String(environment.TTLAttribute), Enabled: jsii.Bool(true)},
		Replicas: &[]any{&awsdynamodb.CfnGlobalTable_ReplicaSpecificationProperty{
			Region:                           s.cdk.Region(),
			DeletionProtectionEnabled:        jsii.Bool(s.Env.DeletionProtection),
			PointInTimeRecoverySpecification: &awsdynamodb.CfnGlobalTable_PointInTimeRecoverySpecificationProperty{PointInTimeRecoveryEnabled: jsii.Bool(true)},
		}},
	})
	s.removal(t)
	awscdk.NewCfnOutput(s.cdk, jsii.String("TableName"), &awscdk.CfnOutputProps{Value: t.Ref()})
}

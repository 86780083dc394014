package dynamo

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// Schema is the table as this package needs it: string keys, on-demand, and
// op's indexes with nothing but keys in them. Emulators and tests create
// their tables from it.
func Schema(table string) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:            aws.String(table),
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            keySchema(op.AttrPK, op.AttrSK),
		AttributeDefinitions: []types.AttributeDefinition{stringAttr(op.AttrPK), stringAttr(op.AttrSK)},
	}
	for _, ix := range op.Indexes() {
		pk, sk := ix.Keys()
		in.AttributeDefinitions = append(in.AttributeDefinitions, stringAttr(pk), stringAttr(sk))
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName:  aws.String(string(ix)),
			KeySchema:  keySchema(pk, sk),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		})
	}
	return in
}

func keySchema(pk, sk string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(pk), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(sk), KeyType: types.KeyTypeRange},
	}
}

func stringAttr(name string) types.AttributeDefinition {
	return types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: types.ScalarAttributeTypeS}
}

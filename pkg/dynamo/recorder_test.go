package dynamo

import (
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// recorder is a client that only notes whose calls it gets.
type recorder struct {
	API
	seen *[]Call
}

var errNothing = errors.New("recorder: does nothing")

func (r recorder) GetItem(c ctx, _ *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	*r.seen = append(*r.seen, CallOf(c))
	return nil, errNothing
}

func (r recorder) Query(c ctx, _ *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	*r.seen = append(*r.seen, CallOf(c))
	return nil, errNothing
}

func (r recorder) TransactWriteItems(c ctx, _ *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	*r.seen = append(*r.seen, CallOf(c))
	return nil, errNothing
}

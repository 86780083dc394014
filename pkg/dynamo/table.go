package dynamo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// API is what the adapter calls of the DynamoDB client.
type API interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

// Table is one DynamoDB table with the indexes of op.Indexes. It is safe for
// concurrent use.
type Table struct {
	api     API
	table   *string
	opts    Options
	retryer aws.Retryer
}

var _ op.Table = (*Table)(nil)

// New returns the table named table behind client, which must exist with the
// keys and indexes of Schema.
func New(client API, table string, opts Options) *Table {
	o := opts.withDefaults()
	return &Table{api: client, table: aws.String(table), opts: o, retryer: o.retryer()}
}

// kind is the sort of item a partition key names: the part before the first
// '#'.
func kind(pk string) string {
	k, _, _ := strings.Cut(pk, "#")
	return k
}

func checkKey(name string, k op.Key) error {
	if k.PK == "" || k.SK == "" {
		return fmt.Errorf("dynamo: %s: empty key %q/%q", name, k.PK, k.SK)
	}
	return nil
}

// Get implements op.Table.
func (t *Table) Get(ctx context.Context, key op.Key, consistent bool) (op.Item, error) {
	name := "get " + kind(key.PK)
	if err := checkKey(name, key); err != nil {
		return nil, err
	}
	out, err := t.api.GetItem(withCall(ctx, name), &dynamodb.GetItemInput{
		TableName: t.table, Key: encodeKey(key), ConsistentRead: aws.Bool(consistent),
	}, t.attempts(false, nil))
	if err != nil {
		return nil, translate(name, err)
	}
	item, err := decodeItem(out.Item)
	if err != nil {
		return nil, garbled(name, err)
	}
	return item, nil
}

// BatchGet implements op.Table. Keys that DynamoDB leaves unprocessed are
// asked for again, with full jitter, for as long as colliding writes are.
func (t *Table) BatchGet(ctx context.Context, keys []op.Key, consistent bool) ([]op.Item, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	name := "batch get " + kind(keys[0].PK)
	if len(keys) > op.MaxBatchGet {
		return nil, fmt.Errorf("dynamo: %s: %d keys, allowed are %d", name, len(keys), op.MaxBatchGet)
	}
	place := make(map[op.Key]int, len(keys))
	want := types.KeysAndAttributes{ConsistentRead: aws.Bool(consistent)}
	for i, k := range keys {
		if err := checkKey(name, k); err != nil {
			return nil, err
		}
		if _, twice := place[k]; twice {
			return nil, fmt.Errorf("dynamo: %s: key %v is asked for twice", name, k)
		}
		place[k] = i
		want.Keys = append(want.Keys, encodeKey(k))
	}
	items := make([]op.Item, len(keys))
	ctx = withCall(ctx, name)
	end := t.opts.Now().Add(t.opts.ConflictTime)
	for n := 0; ; n++ {
		out, err := t.api.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
			RequestItems: map[string]types.KeysAndAttributes{*t.table: want},
		}, t.attempts(false, nil))
		if err != nil {
			return nil, translate(name, err)
		}
		for _, got := range out.Responses[*t.table] {
			row, err := decodeRow(got)
			if err != nil {
				return nil, garbled(name, err)
			}
			i, ours := place[row.Key]
			if !ours {
				return nil, garbled(name, fmt.Errorf("dynamo: answer with the key %v, which was not asked for", row.Key))
			}
			items[i] = row.Item
		}
		want.Keys = out.UnprocessedKeys[*t.table].Keys
		if len(want.Keys) == 0 {
			return items, nil
		}
		wait := t.opts.backoff(n)
		late := t.opts.Now().Add(wait).After(end)
		if late || t.opts.Sleep(ctx, wait) != nil {
			return nil, &op.Unavailable{Name: name, Reason: op.Throttled, Err: fmt.Errorf("dynamo: %d keys unprocessed", len(want.Keys))}
		}
	}
}

// Write implements op.Table.
func (t *Table) Write(ctx context.Context, w op.Write) (op.Item, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	if w.Action == op.Put && op.Size(w.Key, w.Item) > op.MaxItemBytes {
		return nil, fmt.Errorf("dynamo: %s: %w: %d bytes", w.Name, op.ErrTooLarge, op.Size(w.Key, w.Item))
	}
	if w.Action > op.Delete {
		return nil, fmt.Errorf("dynamo: write %q: action %d outside a transaction", w.Name, w.Action)
	}
	p, err := renderWrite(w)
	if err != nil {
		return nil, err
	}
	var (
		after op.Item
		seen  outcome
	)
	ctx = withCall(ctx, w.Name, w)
	err = t.inPlace(ctx, func() (err error) {
		after, err = t.write(ctx, w, p, t.attempts(w.Once, &seen))
		return err
	})
	if err == nil {
		return after, nil
	}
	err = translate(w.Name, err)
	if seen.unknown != nil && op.FailedCond(err) != nil {
		// The item that failed the condition may be our own doing.
		reason, _ := unavailable(seen.unknown)
		return nil, &op.Unavailable{Name: w.Name, Reason: reason, Err: fmt.Errorf("%w, after an attempt with unknown outcome: %w", errCondition, seen.unknown)}
	}
	return nil, err
}

// errCondition stands for a failed condition that must not be taken for one.
var errCondition = errors.New("dynamo: condition failed")

func (t *Table) write(ctx context.Context, w op.Write, p write, opts func(*dynamodb.Options)) (op.Item, error) {
	const onFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	switch w.Action {
	case op.Put:
		_, err := t.api.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: t.table, Item: p.row, ConditionExpression: p.cond,
			ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values,
			ReturnValuesOnConditionCheckFailure: onFailure,
		}, opts)
		if err != nil {
			return nil, err
		}
		item := w.Item.Clone()
		if item == nil {
			item = op.Item{}
		}
		return item, nil
	case op.Update:
		out, err := t.api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: t.table, Key: p.key, UpdateExpression: p.update, ConditionExpression: p.cond,
			ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values,
			ReturnValues:                        types.ReturnValueAllNew,
			ReturnValuesOnConditionCheckFailure: onFailure,
		}, opts)
		if err != nil {
			return nil, err
		}
		return decodeItem(out.Attributes)
	default: // a delete
		_, err := t.api.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: t.table, Key: p.key, ConditionExpression: p.cond,
			ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values,
			ReturnValuesOnConditionCheckFailure: onFailure,
		}, opts)
		return nil, err
	}
}

// Transact implements op.Table. The client request token makes repetitions
// after an unknown outcome harmless: DynamoDB answers a token it has applied
// with success and changes nothing (Developer Guide, "DynamoDB transactions:
// how it works", Idempotency; it remembers for ten minutes). The token is kept
// when a cancelled transaction is tried again: an earlier attempt of it may
// still be on its way, and a new token would let both be applied.
func (t *Table) Transact(ctx context.Context, tx op.Tx) error {
	if err := tx.Validate(); err != nil {
		return err
	}
	in := &dynamodb.TransactWriteItemsInput{ClientRequestToken: aws.String(t.opts.Token())}
	total := 0
	for _, w := range tx.Writes {
		if w.Action == op.Put {
			size := op.Size(w.Key, w.Item)
			if total += size; size > op.MaxItemBytes || total > op.MaxTxBytes {
				return fmt.Errorf("dynamo: %s: %w: %s", tx.Name, op.ErrTooLarge, w.Name)
			}
		}
		item, err := transactItem(t.table, w)
		if err != nil {
			return err
		}
		in.TransactItems = append(in.TransactItems, item)
	}
	ctx = withCall(ctx, tx.Name, tx.Writes...)
	return translate(tx.Name, t.inPlace(ctx, func() error {
		_, err := t.api.TransactWriteItems(ctx, in, t.attempts(false, nil))
		return err
	}))
}

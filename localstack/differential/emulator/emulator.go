// Package emulator is an in-process DynamoDB for tests and benchmarks: the
// expression evaluator and the storage of minidyn, mended where minidyn is
// known to be wrong.
//
// Conditions, updates and key conditions are judged by minidyn, which shares
// no code with this repository; so it is a second opinion on what the
// adapter's expressions mean. Mended around it, each after AWS's documentation
// (the package's tests show every fault on plain minidyn, so that a release
// that mends it is noticed):
//
//   - REMOVE of an attribute does nothing, and alone it creates the item;
//   - entries of indexes displace one another, so queries of an index are
//     answered from the items;
//   - a condition on DeleteItem is tried on all items of the table, and the item
//     met is not returned;
//   - of a transaction's failed conditions only the first is reported;
//   - empty bytes come back as a NULL;
//   - client request tokens and the limit of an item's size are ignored.
//
// What is left: numbers are floating point (exact to 2^53), and keys that read
// the same when joined by a dot are one.
package emulator

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/truora/minidyn/aws-v2/client"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

type attrs = map[string]types.AttributeValue

// Client has one table and the calls that the adapter makes. It is safe for
// concurrent use, one call at a time.
type Client struct {
	mu    sync.Mutex
	raw   *client.Client
	table string
	done  map[string]bool // request tokens of applied transactions
}

// scratch is a table of at most one item, where expressions are tried: a
// conditional write on the real table would copy it whole.
const scratch = "scratch"

// New returns an empty table.
func New(table string) (*Client, error) {
	c := &Client{raw: client.NewClient(), table: table, done: map[string]bool{}}
	for _, name := range []string{table, scratch} {
		if err := client.AddTable(context.Background(), c.raw, name, op.AttrPK, op.AttrSK); err != nil {
			return nil, fmt.Errorf("emulator: %w", err)
		}
	}
	return c, nil
}

// GetItem reads one item.
func (c *Client) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	out, err := c.raw.GetItem(ctx, in)
	if err == nil {
		out.Item = mend(out.Item)
	}
	return out, err
}

// mend makes empty bytes of a NULL, which the adapter never writes.
func mend(item attrs) attrs {
	for name, v := range item {
		if _, null := v.(*types.AttributeValueMemberNULL); null {
			item[name] = &types.AttributeValueMemberB{Value: []byte{}}
		}
	}
	return item
}

// BatchGetItem reads items.
func (c *Client) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out, err := c.raw.BatchGetItem(ctx, in)
	if err == nil {
		for _, items := range out.Responses {
			for _, item := range items {
				mend(item)
			}
		}
	}
	return out, err
}

// change is one write in the terms of all four calls.
type change struct {
	key    attrs
	put    attrs   // the item of a put
	update *string // of an update
	remove bool    // a delete
	check  bool    // nothing is written

	cond   *string
	names  map[string]string
	values attrs
}

// result is what a change met and would leave.
type result struct {
	before, after attrs
	failed        bool
}

// PutItem puts an item.
func (c *Client) PutItem(ctx context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	_, err := c.single(ctx, change{
		key: keyOf(in.Item), put: in.Item, cond: in.ConditionExpression,
		names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues,
	})
	if err != nil {
		return nil, err
	}
	return &dynamodb.PutItemOutput{}, nil
}

// UpdateItem updates an item.
func (c *Client) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	r, err := c.single(ctx, change{
		key: in.Key, update: orEmpty(in.UpdateExpression), cond: in.ConditionExpression,
		names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues,
	})
	if err != nil {
		return nil, err
	}
	return &dynamodb.UpdateItemOutput{Attributes: r.after}, nil
}

// DeleteItem deletes an item.
func (c *Client) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	_, err := c.single(ctx, change{
		key: in.Key, remove: true, cond: in.ConditionExpression,
		names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues,
	})
	if err != nil {
		return nil, err
	}
	return &dynamodb.DeleteItemOutput{}, nil
}

// TransactWriteItems performs all writes or none; the answer to a failure
// names every condition that failed.
func (c *Client) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	token := aws.ToString(in.ClientRequestToken)
	if token != "" && c.done[token] {
		return &dynamodb.TransactWriteItemsOutput{}, nil
	}
	changes := make([]change, len(in.TransactItems))
	results := make([]result, len(changes))
	reasons := make([]types.CancellationReason, len(changes))
	failed := false
	for i, item := range in.TransactItems {
		var err error
		if changes[i], err = changeOf(item); err != nil {
			return nil, err
		}
		if results[i], err = c.try(ctx, changes[i]); err != nil {
			return nil, err
		}
		reasons[i].Code = aws.String("None")
		if results[i].failed {
			failed = true
			reasons[i] = types.CancellationReason{Code: aws.String("ConditionalCheckFailed"), Message: aws.String("The conditional request failed"), Item: results[i].before}
		}
	}
	if failed {
		return nil, &types.TransactionCanceledException{Message: aws.String("Transaction cancelled"), CancellationReasons: reasons}
	}
	for i := range changes {
		if err := c.store(ctx, changes[i], results[i]); err != nil {
			return nil, err
		}
	}
	if token != "" {
		c.done[token] = true
	}
	return &dynamodb.TransactWriteItemsOutput{}, nil
}

func changeOf(item types.TransactWriteItem) (change, error) {
	switch {
	case item.Put != nil:
		p := item.Put
		return change{key: keyOf(p.Item), put: p.Item, cond: p.ConditionExpression, names: p.ExpressionAttributeNames, values: p.ExpressionAttributeValues}, nil
	case item.Update != nil:
		u := item.Update
		return change{key: u.Key, update: orEmpty(u.UpdateExpression), cond: u.ConditionExpression, names: u.ExpressionAttributeNames, values: u.ExpressionAttributeValues}, nil
	case item.Delete != nil:
		d := item.Delete
		return change{key: d.Key, remove: true, cond: d.ConditionExpression, names: d.ExpressionAttributeNames, values: d.ExpressionAttributeValues}, nil
	case item.ConditionCheck != nil:
		k := item.ConditionCheck
		return change{key: k.Key, check: true, cond: k.ConditionExpression, names: k.ExpressionAttributeNames, values: k.ExpressionAttributeValues}, nil
	}
	return change{}, fault("a part of the transaction is empty")
}

func (c *Client) single(ctx context.Context, ch change) (result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, err := c.try(ctx, ch)
	if err != nil {
		return result{}, err
	}
	if r.failed {
		return result{}, &types.ConditionalCheckFailedException{Message: aws.String("The conditional request failed"), Item: r.before}
	}
	return r, c.store(ctx, ch, r)
}

// try finds out, in the scratch table, what a change meets and would leave.
func (c *Client) try(ctx context.Context, ch change) (result, error) {
	out, err := c.raw.GetItem(ctx, &dynamodb.GetItemInput{TableName: &c.table, Key: ch.key})
	if err != nil {
		return result{}, err
	}
	r := result{before: mend(out.Item)}
	if len(r.before) == 0 {
		r.before = nil
	} else if _, err := c.raw.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(scratch), Item: r.before}); err != nil {
		return result{}, err
	}
	if err = c.judge(ctx, ch, &r); err == nil && !r.failed {
		err = c.evaluate(ctx, ch, &r)
	}
	_, cleared := c.raw.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(scratch), Key: ch.key})
	if err == nil {
		err = cleared
	}
	return r, err
}

// judge sees whether the change's condition holds.
func (c *Client) judge(ctx context.Context, ch change, r *result) error {
	if ch.cond == nil {
		return nil
	}
	check := &types.ConditionCheck{
		TableName: aws.String(scratch), Key: ch.key, ConditionExpression: ch.cond,
		ExpressionAttributeNames: used(ch.names, *ch.cond), ExpressionAttributeValues: used(ch.values, *ch.cond),
	}
	_, err := c.raw.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{ConditionCheck: check}}})
	var cancelled *types.TransactionCanceledException
	if r.failed = errors.As(err, &cancelled); r.failed {
		return nil
	}
	return err
}

// removed finds the names that an expression removes; the adapter writes that
// clause last.
var removed = regexp.MustCompile(`REMOVE ((?:#\w+(?:, )?)+)$`)

// evaluate finds what the change leaves.
func (c *Client) evaluate(ctx context.Context, ch change, r *result) error {
	switch {
	case ch.check, ch.remove:
		return nil
	case ch.put != nil:
		r.after = ch.put
	case *ch.update == "":
		if r.after = r.before; r.after == nil {
			r.after = ch.key
		}
	case r.before == nil && strings.HasPrefix(*ch.update, "REMOVE "):
		return nil // there is nothing to remove from, so nothing is created
	default:
		out, err := c.raw.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: aws.String(scratch), Key: ch.key, UpdateExpression: ch.update, ReturnValues: types.ReturnValueAllNew,
			ExpressionAttributeNames: used(ch.names, *ch.update), ExpressionAttributeValues: used(ch.values, *ch.update),
		})
		if err != nil {
			return err
		}
		r.after = mend(out.Attributes)
		if m := removed.FindStringSubmatch(*ch.update); m != nil {
			for _, n := range strings.Split(m[1], ", ") {
				delete(r.after, ch.names[n])
			}
		}
	}
	if size := sizeOf(r.after); size > op.MaxItemBytes {
		return fault(fmt.Sprintf("Item size has exceeded the maximum allowed size (%d)", size))
	}
	return nil
}

func (c *Client) store(ctx context.Context, ch change, r result) error {
	var err error
	switch {
	case ch.check, !ch.remove && r.after == nil:
	case ch.remove:
		_, err = c.raw.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &c.table, Key: ch.key})
	default:
		_, err = c.raw.PutItem(ctx, &dynamodb.PutItemInput{TableName: &c.table, Item: r.after})
	}
	return err
}

func keyOf(item attrs) attrs { return attrs{op.AttrPK: item[op.AttrPK], op.AttrSK: item[op.AttrSK]} }

func orEmpty(s *string) *string {
	if s == nil {
		return new(string)
	}
	return s
}

// used keeps the placeholders that occur in the expression; minidyn refuses
// others, as DynamoDB does.
func used[V any](placeholders map[string]V, expression string) map[string]V {
	var out map[string]V
	for p, v := range placeholders {
		if strings.Contains(expression, p) {
			if out == nil {
				out = map[string]V{}
			}
			out[p] = v
		}
	}
	return out
}

func fault(message string) error {
	return &smithy.GenericAPIError{Code: "ValidationException", Message: message, Fault: smithy.FaultClient}
}

// sizeOf is about an item's size in bytes: numbers count with their digits.
func sizeOf(item attrs) int {
	size := 0
	for name, v := range item {
		size += len(name)
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			size += len(v.Value)
		case *types.AttributeValueMemberB:
			size += len(v.Value)
		case *types.AttributeValueMemberN:
			size += len(v.Value)/2 + 1
		}
	}
	return size
}

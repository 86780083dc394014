package emulator

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// pageBytes is where DynamoDB ends a page.
const pageBytes = 1 << 20

// Query reads a page of the table or of an index. Which items belong to it is
// judged by minidyn; order, pages and projection are made here. As on AWS, a
// page that ends at its limit has a last key even when nothing follows.
func (c *Client) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, err := c.raw.Scan(ctx, &dynamodb.ScanInput{
		TableName: in.TableName, FilterExpression: in.KeyConditionExpression,
		ExpressionAttributeNames: in.ExpressionAttributeNames, ExpressionAttributeValues: in.ExpressionAttributeValues,
	})
	if err != nil {
		return nil, err
	}
	ix := op.Index(aws.ToString(in.IndexName))
	_, isk := ix.Keys()
	var rows []attrs
	for _, item := range found.Items {
		mend(item)
		if ix == op.IndexNone {
			rows = append(rows, item)
		} else if e := entry(ix, item); e != nil {
			rows = append(rows, e)
		}
	}
	compare := func(a, b attrs) int {
		for _, name := range []string{isk, op.AttrPK, op.AttrSK} {
			if order := strings.Compare(text(a[name]), text(b[name])); order != 0 {
				if in.ScanIndexForward != nil && !*in.ScanIndexForward {
					order = -order
				}
				return order
			}
		}
		return 0
	}
	slices.SortFunc(rows, compare)
	if start := in.ExclusiveStartKey; len(start) > 0 {
		n, found := slices.BinarySearchFunc(rows, start, compare)
		if found {
			n++
		}
		rows = rows[n:]
	}
	return page(rows, ix, int(aws.ToInt32(in.Limit))), nil
}

func page(rows []attrs, ix op.Index, limit int) *dynamodb.QueryOutput {
	out := &dynamodb.QueryOutput{}
	bytes := 0
	for _, row := range rows {
		out.Items = append(out.Items, row)
		bytes += sizeOf(row)
		if len(out.Items) == limit || bytes >= pageBytes {
			out.LastEvaluatedKey = keyOf(row)
			if ix != op.IndexNone {
				out.LastEvaluatedKey = row
			}
			break
		}
	}
	out.Count = int32(len(out.Items))
	return out
}

// entry is the item as a keys-only index holds it, nil if it is not in it.
func entry(ix op.Index, item attrs) attrs {
	pk, sk := ix.Keys()
	if item[pk] == nil || item[sk] == nil {
		return nil
	}
	e := keyOf(item)
	e[pk], e[sk] = item[pk], item[sk]
	return e
}

func text(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

package dynamo

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// Query implements op.Table.
func (t *Table) Query(ctx context.Context, q op.Query) (op.Page, error) {
	name := "query " + kind(q.PK)
	if q.Index != op.IndexNone {
		name = "query " + string(q.Index)
	}
	switch {
	case q.PK == "" || q.Limit < 0:
		return op.Page{}, fmt.Errorf("dynamo: %s: partition %q, limit %d", name, q.PK, q.Limit)
	case q.Index != op.IndexNone && q.Consistent:
		return op.Page{}, fmt.Errorf("dynamo: %s: an index is never consistent", name)
	}
	if q.From != "" && q.To != "" && q.From > q.To {
		return op.Page{}, nil // DynamoDB refuses such a BETWEEN
	}
	var r renderer
	cond, err := r.keyCond(q)
	if err != nil {
		return op.Page{}, err
	}
	in := &dynamodb.QueryInput{
		TableName: t.table, KeyConditionExpression: aws.String(cond),
		ExpressionAttributeNames: r.names, ExpressionAttributeValues: r.values,
		ScanIndexForward: aws.Bool(!q.Descending),
	}
	if q.Index == op.IndexNone {
		in.ConsistentRead = aws.Bool(q.Consistent)
	} else {
		in.IndexName = aws.String(string(q.Index))
	}
	if q.Limit > 0 {
		in.Limit = aws.Int32(int32(min(q.Limit, math.MaxInt32)))
	}
	if q.Cursor != "" {
		if in.ExclusiveStartKey, err = readCursor(q); err != nil {
			return op.Page{}, fmt.Errorf("dynamo: %s: %w", name, err)
		}
	}
	out, err := t.api.Query(withCall(ctx, name), in, t.attempts(false, nil))
	if err != nil {
		return op.Page{}, translate(name, err)
	}
	var page op.Page
	for _, got := range out.Items {
		row, err := decodeRow(got)
		if err != nil {
			return op.Page{}, garbled(name, err)
		}
		page.Rows = append(page.Rows, row)
	}
	// A page without rows still leads on when DynamoDB stopped in the middle.
	if page.Cursor, err = writeCursor(q, out.LastEvaluatedKey); err != nil {
		return op.Page{}, fmt.Errorf("dynamo: %s: %w", name, err)
	}
	return page, nil
}

// cursor is the place where a page ended: the last item's key and, on an
// index, its index key. It also says which query it belongs to.
type cursor struct {
	Index op.Index `json:"x,omitempty"`
	PK    string   `json:"p"`
	SK    string   `json:"s"`
	IPK   string   `json:"ip,omitempty"`
	ISK   string   `json:"is,omitempty"`
}

func writeCursor(q op.Query, last attrs) (string, error) {
	if len(last) == 0 {
		return "", nil
	}
	c := cursor{Index: q.Index}
	ipk, isk := q.Index.Keys()
	for name, to := range map[string]*string{op.AttrPK: &c.PK, op.AttrSK: &c.SK} {
		*to = str(last[name])
	}
	if q.Index != op.IndexNone {
		c.IPK, c.ISK = str(last[ipk]), str(last[isk])
	}
	text, err := json.Marshal(c)
	return base64.RawURLEncoding.EncodeToString(text), err
}

// readCursor turns q.Cursor into DynamoDB's start key, if it was made by a
// query of the same index and partition and lies within q's bounds: DynamoDB
// would refuse any other with a ValidationException.
func readCursor(q op.Query) (attrs, error) {
	text, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil {
		return nil, fmt.Errorf("%w: no base64", op.ErrBadCursor)
	}
	var c cursor
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("%w: no JSON", op.ErrBadCursor)
	}
	pk, sk := c.PK, c.SK
	if q.Index != op.IndexNone {
		pk, sk = c.IPK, c.ISK
	}
	switch {
	case c.Index != q.Index || pk != q.PK:
		return nil, fmt.Errorf("%w: of another query", op.ErrBadCursor)
	case c.PK == "" || c.SK == "" || sk == "":
		return nil, fmt.Errorf("%w: without a key", op.ErrBadCursor)
	case (q.From != "" && sk < q.From) || (q.To != "" && sk > q.To):
		return nil, fmt.Errorf("%w: outside the bounds", op.ErrBadCursor)
	}
	start := encodeKey(op.Key{PK: c.PK, SK: c.SK})
	if q.Index != op.IndexNone {
		ipk, isk := q.Index.Keys()
		start[ipk] = &types.AttributeValueMemberS{Value: c.IPK}
		start[isk] = &types.AttributeValueMemberS{Value: c.ISK}
	}
	return start, nil
}

func str(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

package dynamo

import (
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// attrs is an item or a key as DynamoDB's client has it.
type attrs = map[string]types.AttributeValue

func encodeValue(v op.Value) (types.AttributeValue, error) {
	switch v.Kind() {
	case op.KindString:
		return &types.AttributeValueMemberS{Value: v.Str()}, nil
	case op.KindInt:
		return &types.AttributeValueMemberN{Value: strconv.FormatInt(v.Int(), 10)}, nil
	case op.KindBytes:
		b := v.Bytes()
		if b == nil {
			b = []byte{} // nil would be rendered as a NULL
		}
		return &types.AttributeValueMemberB{Value: b}, nil
	case op.KindNone:
	}
	return nil, fmt.Errorf("dynamo: a value of kind %d cannot be written", v.Kind())
}

func decodeValue(v types.AttributeValue) (op.Value, error) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return op.S(v.Value), nil
	case *types.AttributeValueMemberN:
		n, err := parseInt(v.Value)
		return op.N(n), err
	case *types.AttributeValueMemberB:
		return op.B(v.Value), nil
	}
	return op.Value{}, fmt.Errorf("dynamo: attribute of type %T is none of ours", v)
}

// parseInt reads a whole number of DynamoDB, which may come as "1E+3" or
// "1000.0" from some emulators.
func parseInt(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil {
		return n, nil
	}
	if f, ferr := strconv.ParseFloat(s, 64); ferr == nil {
		const exact = 1 << 53
		if n := int64(f); float64(n) == f && n > -exact && n < exact {
			return n, nil
		}
	}
	return 0, fmt.Errorf("dynamo: number %q is no int64", s)
}

func encodeKey(k op.Key) attrs {
	return attrs{
		op.AttrPK: &types.AttributeValueMemberS{Value: k.PK},
		op.AttrSK: &types.AttributeValueMemberS{Value: k.SK},
	}
}

func encodeRow(k op.Key, item op.Item) (attrs, error) {
	out := encodeKey(k)
	for name, v := range item {
		enc, err := encodeValue(v)
		if err != nil {
			return nil, fmt.Errorf("%w (attribute %q)", err, name)
		}
		out[name] = enc
	}
	return out, nil
}

// decodeRow splits DynamoDB's attributes into key and item. The item is nil
// when there are no attributes at all: DynamoDB's way to say "no item".
func decodeRow(in attrs) (op.Row, error) {
	if len(in) == 0 {
		return op.Row{}, nil
	}
	row := op.Row{Item: make(op.Item, max(len(in)-2, 0))}
	for name, v := range in {
		dec, err := decodeValue(v)
		if err != nil {
			return op.Row{}, fmt.Errorf("%w (attribute %q)", err, name)
		}
		switch name {
		case op.AttrPK:
			row.Key.PK = dec.Str()
		case op.AttrSK:
			row.Key.SK = dec.Str()
		default:
			row.Item[name] = dec
		}
	}
	return row, nil
}

func decodeItem(in attrs) (op.Item, error) {
	row, err := decodeRow(in)
	return row.Item, err
}

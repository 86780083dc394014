package dynamo

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// renderer collects the placeholders of one request. Names and values are
// numbered in order of appearance, so that the same op value always gives the
// same text; equal ones share a placeholder. The numbers have a fixed width,
// so that no placeholder is a prefix of another (some emulators replace them
// as text). Three digits are enough: an expression has at most 4 KB.
type renderer struct {
	names   map[string]string // placeholder → attribute
	values  attrs             // placeholder → value
	nameOf  map[string]string
	valueOf map[op.Value]string
}

func (r *renderer) name(attr string) (string, error) {
	if attr == "" {
		return "", errors.New("dynamo: an empty attribute name")
	}
	if p, ok := r.nameOf[attr]; ok {
		return p, nil
	}
	if r.names == nil {
		r.names, r.nameOf = map[string]string{}, map[string]string{}
	}
	p := fmt.Sprintf("#n%03d", len(r.names))
	r.names[p], r.nameOf[attr] = attr, p
	return p, nil
}

func (r *renderer) value(v op.Value) (string, error) {
	if p, ok := r.valueOf[v]; ok {
		return p, nil
	}
	enc, err := encodeValue(v)
	if err != nil {
		return "", err
	}
	if r.values == nil {
		r.values, r.valueOf = attrs{}, map[op.Value]string{}
	}
	p := fmt.Sprintf(":v%03d", len(r.values))
	r.values[p], r.valueOf[v] = enc, p
	return p, nil
}

// cond renders a condition; "" for nil.
func (r *renderer) cond(c op.Cond) (string, error) {
	if c == nil {
		return "", nil
	}
	text, _, err := r.term(c)
	return text, err
}

// term renders a condition; compound says that it is several terms joined,
// which need brackets inside another term. Brackets are never doubled and a
// lone term has none: DynamoDB refuses redundant ones.
func (r *renderer) term(c op.Cond) (text string, compound bool, err error) {
	switch c := c.(type) {
	case op.Exists:
		n, err := r.name(c.Attr)
		return "attribute_exists(" + n + ")", false, err
	case op.Missing:
		n, err := r.name(c.Attr)
		return "attribute_not_exists(" + n + ")", false, err
	case op.Cmp:
		n, err := r.name(c.Attr)
		if err != nil {
			return "", false, err
		}
		if c.Op > op.Ge {
			return "", false, fmt.Errorf("dynamo: unknown comparison %d", uint8(c.Op))
		}
		v, err := r.value(c.Value)
		return n + " " + c.Op.String() + " " + v, false, err
	case op.CmpAttr:
		if c.Op > op.Ge {
			return "", false, fmt.Errorf("dynamo: unknown comparison %d", uint8(c.Op))
		}
		if c.Attr == c.Other {
			return r.term(withItself(c))
		}
		a, err := r.name(c.Attr)
		if err != nil {
			return "", false, err
		}
		b, err := r.name(c.Other)
		return a + " " + c.Op.String() + " " + b, false, err
	case op.All:
		return r.join(c, " AND ")
	case op.Any:
		return r.join(c, " OR ")
	case nil:
		return "", false, errors.New("dynamo: a term of a condition is nil")
	}
	return "", false, fmt.Errorf("dynamo: unknown condition %T", c)
}

// withItself puts the comparison of an attribute with itself another way:
// DynamoDB refuses operands that are the same.
func withItself(c op.CmpAttr) op.Cond {
	if c.Op == op.Lt || c.Op == op.Gt {
		return op.All{op.Exists{Attr: c.Attr}, op.Missing{Attr: c.Attr}} // never
	}
	return op.Exists{Attr: c.Attr}
}

func (r *renderer) join(terms []op.Cond, with string) (string, bool, error) {
	if len(terms) == 0 {
		return "", false, errors.New("dynamo: a condition without terms")
	}
	if len(terms) == 1 {
		return r.term(terms[0])
	}
	parts := make([]string, len(terms))
	for i, t := range terms {
		text, compound, err := r.term(t)
		if err != nil {
			return "", false, err
		}
		if compound {
			text = "(" + text + ")"
		}
		parts[i] = text
	}
	return strings.Join(parts, with), true, nil
}

// changes renders an update expression; "" for no changes.
func (r *renderer) changes(cs []op.Change) (string, error) {
	var set, add, remove []string
	for _, c := range cs {
		n, err := r.name(c.Attr)
		if err != nil {
			return "", err
		}
		if c.Verb == op.VerbRemove {
			remove = append(remove, n)
			continue
		}
		v, err := r.value(c.Value)
		if err != nil {
			return "", err
		}
		switch c.Verb {
		case op.VerbSet:
			set = append(set, n+" = "+v)
		case op.VerbAdd:
			add = append(add, n+" "+v)
		default:
			return "", fmt.Errorf("dynamo: unknown verb %d", c.Verb)
		}
	}
	var clauses []string
	for _, clause := range []struct {
		verb  string
		parts []string
	}{{"SET ", set}, {"ADD ", add}, {"REMOVE ", remove}} {
		if len(clause.parts) > 0 {
			clauses = append(clauses, clause.verb+strings.Join(clause.parts, ", "))
		}
	}
	return strings.Join(clauses, " "), nil
}

// keyCond renders a query's key condition.
func (r *renderer) keyCond(q op.Query) (string, error) {
	pk, sk := q.Index.Keys()
	text, err := r.cond(op.Is(pk, op.S(q.PK)))
	if err != nil || (q.From == "" && q.To == "") {
		return text, err
	}
	var bound string
	switch {
	case q.From != "" && q.To != "":
		n, nerr := r.name(sk)
		from, ferr := r.value(op.S(q.From))
		to, terr := r.value(op.S(q.To))
		bound, err = n+" BETWEEN "+from+" AND "+to, errors.Join(nerr, ferr, terr)
	case q.From != "":
		bound, err = r.cond(op.Cmp{Attr: sk, Op: op.Ge, Value: op.S(q.From)})
	default:
		bound, err = r.cond(op.Cmp{Attr: sk, Op: op.Le, Value: op.S(q.To)})
	}
	return text + " AND " + bound, err
}

// write is one op.Write as DynamoDB's expressions.
type write struct {
	key    attrs // nil for a put
	row    attrs // put only
	cond   *string
	update *string
	names  map[string]string
	values attrs
}

// renderWrite renders w, which must be valid. The update comes before the
// condition only in the numbering of placeholders.
func renderWrite(w op.Write) (write, error) {
	var (
		out write
		r   renderer
		err error
	)
	if w.Action == op.Put {
		out.row, err = encodeRow(w.Key, w.Item)
	} else {
		out.key = encodeKey(w.Key)
	}
	if err != nil {
		return write{}, err
	}
	update, err := r.changes(w.Changes)
	if err != nil {
		return write{}, fmt.Errorf("%w (write %q)", err, w.Name)
	}
	cond, err := r.cond(w.Cond)
	if err != nil {
		return write{}, fmt.Errorf("%w (write %q)", err, w.Name)
	}
	out.update, out.cond = optional(update), optional(cond)
	out.names, out.values = r.names, r.values
	return out, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// transactItem renders w as one part of a transaction.
func transactItem(table *string, w op.Write) (types.TransactWriteItem, error) {
	p, err := renderWrite(w)
	if err != nil {
		return types.TransactWriteItem{}, err
	}
	const onFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	switch w.Action {
	case op.Put:
		return types.TransactWriteItem{Put: &types.Put{
			TableName: table, Item: p.row, ConditionExpression: p.cond,
			ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values,
			ReturnValuesOnConditionCheckFailure: onFailure,
		}}, nil
	case op.Update:
		if p.update == nil {
			return types.TransactWriteItem{}, fmt.Errorf("dynamo: write %q updates nothing, which a transaction cannot hold", w.Name)
		}
		return types.TransactWriteItem{Update: &types.Update{
			TableName: table, Key: p.key, UpdateExpression: p.update, ConditionExpression: p.cond,
			ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values,
			ReturnValuesOnConditionCheckFailure: onFailure,
		}}, nil
	case op.Delete:
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: table, Key: p.key, ConditionExpression: p.cond,
			ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values,
			ReturnValuesOnConditionCheckFailure: onFailure,
		}}, nil
	case op.Check:
		return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: table, Key: p.key, ConditionExpression: p.cond,
			ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values,
			ReturnValuesOnConditionCheckFailure: onFailure,
		}}, nil
	}
	return types.TransactWriteItem{}, fmt.Errorf("dynamo: write %q has the unknown action %d", w.Name, w.Action)
}

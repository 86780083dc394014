package differential

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/truora/minidyn/aws-v2/client"

	"github.com/lanekeeper/lanekeeper/localstack/differential/emulator"
	"github.com/lanekeeper/lanekeeper/pkg/dynamo"
	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// fact is something that DynamoDB does and some emulator does not.
type fact struct {
	name string
	aws  string // where it is documented, or was seen on DynamoDB
	// right says whether the engine does so.
	right func(ctx context.Context, t op.Table) (bool, error)
}

// deviations lists for each engine the facts that it gets wrong. A fact that
// an engine gets right after all must be taken out, and so may what was done
// because of it.
var deviations = map[string][]string{
	"minidyn": { // v0.8.2
		"REMOVE removes", "REMOVE alone creates nothing", "an item that enters an index displaces no other",
		"a condition of a delete judges its own item", "a failed delete returns the item it met",
		"all failed conditions of a transaction are reported", "empty bytes stay bytes", "items over 400 KB are refused",
		"numbers are exact", "a comparison of different types is false", "keys joined by a dot differ",
	},
	"emulator":  {"numbers are exact", "a comparison of different types is false", "keys joined by a dot differ"},
	"embedded":  {},
	"moto":      {"REMOVE alone creates nothing", "a comparison of different types is false", "two missing attributes are not equal"}, // 5.2.5
	"ministack": {"REMOVE alone creates nothing", "two missing attributes are not equal"},                                             // 1.5.33
}

var (
	one = op.Key{PK: "T#a", SK: "1"}
	two = op.Key{PK: "T#a", SK: "2"}
)

func put(k op.Key, item op.Item) op.Write {
	return op.Write{Name: "put", Key: k, Item: item}
}

func update(k op.Key, cond op.Cond, cs ...op.Change) op.Write {
	return op.Write{Name: "update", Key: k, Action: op.Update, Cond: cond, Changes: cs}
}

// after performs the writes, then looks.
func after(ctx context.Context, t op.Table, look func() (bool, error), ws ...op.Write) (bool, error) {
	for _, w := range ws {
		if _, err := t.Write(ctx, w); err != nil {
			return false, err
		}
	}
	return look()
}

func entries(ctx context.Context, t op.Table, place string) (int, error) {
	p, err := t.Query(ctx, op.Query{Index: op.IndexDue, PK: place})
	return len(p.Rows), err
}

func at(place, order string) op.Item { return op.Item{"dk": op.S(place), "ds": op.S(order)} }

var facts = []fact{
	{name: "REMOVE removes", aws: "API Reference, UpdateItem, UpdateExpression: REMOVE removes one or more attributes from an item",
		right: func(ctx context.Context, t op.Table) (bool, error) {
			return after(ctx, t, func() (bool, error) {
				it, err := t.Get(ctx, one, true)
				return !it.Has("n"), err
			}, put(one, op.Item{"n": op.N(1)}), update(one, nil, op.Remove("n")))
		}},
	{name: "REMOVE alone creates nothing", aws: "seen on DynamoDB by scylladb/scylladb issue 5862: an update that only deletes does not create the item",
		right: func(ctx context.Context, t op.Table) (bool, error) {
			return after(ctx, t, func() (bool, error) {
				it, err := t.Get(ctx, one, true)
				return it == nil, err
			}, update(one, nil, op.Remove("n")))
		}},
	{name: "an item that enters an index displaces no other", aws: "Developer Guide, Global secondary indexes: every item with the key attributes is in the index",
		right: func(ctx context.Context, t op.Table) (bool, error) {
			return after(ctx, t, func() (bool, error) {
				n, err := entries(ctx, t, "d")
				return n == 2, err
			}, put(one, at("d", "1")), put(two, op.Item{}), update(two, nil, op.SetS("dk", "d"), op.SetS("ds", "2")))
		}},
	{name: "a condition of a delete judges its own item", aws: "API Reference, DeleteItem, ConditionExpression: a condition on the item of the key; attribute_not_exists holds when there is none",
		right: func(ctx context.Context, t op.Table) (bool, error) {
			_, err := t.Write(ctx, put(two, op.Item{}))
			if err != nil {
				return false, err
			}
			_, err = t.Write(ctx, op.Write{Name: "delete", Key: one, Action: op.Delete, Cond: op.ItemMissing})
			return err == nil, nil
		}},
	{name: "a failed delete returns the item it met", aws: "API Reference, DeleteItem, ReturnValuesOnConditionCheckFailure: ALL_OLD returns the item attributes",
		right: func(ctx context.Context, t op.Table) (bool, error) {
			return after(ctx, t, func() (bool, error) {
				_, err := t.Write(ctx, op.Write{Name: "delete", Key: one, Action: op.Delete, Cond: op.Is("n", op.N(2))})
				it, failed := op.FailedCond(err).On(0)
				return failed && it.Int("n") == 1, nil
			}, put(one, op.Item{"n": op.N(1)}))
		}},
	{name: "all failed conditions of a transaction are reported", aws: "API Reference, TransactWriteItems: the cancellation reasons are ordered by the items, each with its own code",
		right: func(ctx context.Context, t op.Table) (bool, error) {
			err := t.Transact(ctx, op.Tx{Name: "tx", Writes: []op.Write{update(one, op.ItemExists, op.Add("n", 1)), update(two, op.ItemExists, op.Add("n", 1))}})
			ce := op.FailedCond(err)
			return ce != nil && len(ce.Failed) == 2, nil
		}},
	{name: "empty bytes stay bytes", aws: "Developer Guide, Data types: an empty binary value is allowed when the attribute is not a key",
		right: func(ctx context.Context, t op.Table) (bool, error) {
			return after(ctx, t, func() (bool, error) {
				it, err := t.Get(ctx, one, true)
				return err == nil && it["b"] == op.B(nil), nil
			}, put(one, op.Item{"b": op.B(nil)}))
		}},
	{name: "items over 400 KB are refused", aws: "Developer Guide, Quotas: the maximum item size is 400 KB",
		right: func(ctx context.Context, t op.Table) (bool, error) {
			half := op.B(make([]byte, 300<<10))
			return after(ctx, t, func() (bool, error) {
				_, err := t.Write(ctx, update(one, nil, op.Set("b", half)))
				return errors.Is(err, op.ErrTooLarge), nil
			}, put(one, op.Item{"a": half}))
		}},
	{name: "numbers are exact", aws: "Developer Guide, Data types: numbers have up to 38 digits of precision",
		right: func(ctx context.Context, t op.Table) (bool, error) {
			_, err := t.Write(ctx, put(one, op.Item{"n": op.N(math.MaxInt64 - 1)}))
			if err != nil {
				return false, err
			}
			it, err := t.Write(ctx, update(one, nil, op.Add("n", 1)))
			return err == nil && it.Int("n") == math.MaxInt64, nil
		}},
	{name: "a comparison of different types is false", aws: "API Reference, Condition: an element of a different type than the one provided does not match",
		right: func(ctx context.Context, t op.Table) (bool, error) {
			return after(ctx, t, func() (bool, error) {
				_, err := t.Write(ctx, update(one, op.Cmp{Attr: "n", Op: op.Lt, Value: op.S("a")}, op.Add("n", 1)))
				return op.FailedCond(err) != nil, nil
			}, put(one, op.Item{"n": op.N(1)}))
		}},
	{name: "two missing attributes are not equal", aws: "API Reference, Condition: a comparison needs an attribute to compare; seen on DynamoDB by scylladb/scylladb, test_update_condition_eq_two_unset",
		right: func(ctx context.Context, t op.Table) (bool, error) {
			_, err := t.Write(ctx, update(one, op.CmpAttr{Attr: "a", Op: op.Eq, Other: "b"}, op.Add("n", 1)))
			return op.FailedCond(err) != nil, nil
		}},
	{name: "keys joined by a dot differ", aws: "Developer Guide, Primary key: each item is identified by its partition and its sort key",
		right: func(ctx context.Context, t op.Table) (bool, error) {
			return after(ctx, t, func() (bool, error) {
				it, err := t.Get(ctx, op.Key{PK: "a.b", SK: "c"}, true)
				return it == nil, err
			}, put(op.Key{PK: "a", SK: "b.c"}, op.Item{}))
		}},
}

func openMinidyn(t *testing.T) (*client.Client, op.Table) {
	t.Helper()
	raw := client.NewClient()
	if _, err := raw.CreateTable(t.Context(), dynamo.Schema("tasks")); err != nil {
		t.Fatal(err)
	}
	return raw, dynamo.New(raw, "tasks", dynamo.Options{})
}

// probe holds an engine to every fact: wrong where it is known to be, right
// everywhere else.
func probe(t *testing.T, engine string, open func(*testing.T) op.Table) {
	wrong := map[string]bool{}
	for _, name := range deviations[engine] {
		wrong[name] = true
	}
	for _, f := range facts {
		t.Run(f.name, func(t *testing.T) {
			ok, err := f.right(t.Context(), open(t))
			switch {
			case err != nil:
				t.Error(err)
			case ok && wrong[f.name]:
				t.Errorf("%s now does as AWS documents (%s)", engine, f.aws)
			case !ok && !wrong[f.name]:
				t.Errorf("%s does not do as AWS documents (%s)", engine, f.aws)
			}
		})
	}
}

func TestDeviations(t *testing.T) {
	t.Run("minidyn", func(t *testing.T) {
		probe(t, "minidyn", func(t *testing.T) op.Table { _, table := openMinidyn(t); return table })
	})
	t.Run("emulator", func(t *testing.T) { probe(t, "emulator", openEmulated) })
	t.Run("embedded", func(t *testing.T) { probe(t, "embedded", openEmbedded) })
}

func TestDeviationsAreFacts(t *testing.T) {
	known := map[string]bool{}
	for _, f := range facts {
		known[f.name] = true
		if !strings.Contains(f.aws, ":") {
			t.Errorf("%s: does not say where AWS documents it", f.name)
		}
	}
	for engine, names := range deviations {
		for _, name := range names {
			if !known[name] {
				t.Errorf("%s: %q is no fact", engine, name)
			}
		}
	}
}

// AWS: a token that was applied is answered with success and changes nothing
// (Developer Guide, DynamoDB transactions, Idempotency).
func TestRequestTokens(t *testing.T) {
	raw, _ := openMinidyn(t)
	mended, err := emulator.New("tasks")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		api  dynamo.API
		want int64
	}{"minidyn ignores them": {raw, 2}, "the emulator keeps them": {mended, 1}} {
		t.Run(name, func(t *testing.T) {
			in := &dynamodb.TransactWriteItemsInput{
				ClientRequestToken: aws.String("token"),
				TransactItems: []types.TransactWriteItem{{Update: &types.Update{
					TableName:        aws.String("tasks"),
					Key:              map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: one.PK}, "sk": &types.AttributeValueMemberS{Value: one.SK}},
					UpdateExpression: aws.String("ADD n :one"),
					ExpressionAttributeValues: map[string]types.AttributeValue{
						":one": &types.AttributeValueMemberN{Value: "1"},
					},
				}}},
			}
			for range 2 {
				if _, err := tc.api.TransactWriteItems(t.Context(), in); err != nil {
					t.Fatal(err)
				}
			}
			it, err := dynamo.New(tc.api, "tasks", dynamo.Options{}).Get(t.Context(), one, true)
			if err != nil || it.Int("n") != tc.want {
				t.Errorf("counted %v (%v), want %d", it, err, tc.want)
			}
		})
	}
}

package meter

import (
	"context"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// API is what is metered: the calls of the DynamoDB adapter.
type API interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

// Describe says what a request is for: the operation's name and what it
// writes, in order (nil: not known; a failed update is then charged for the
// item that is there).
type Describe func(context.Context) (name string, writes []op.Write)

// Meter is a client that counts. It is safe for concurrent use, one call at a
// time.
type Meter struct {
	api      API
	describe Describe

	mu     sync.Mutex
	total  Usage
	byName map[string]Usage
}

// New meters the requests to api; describe may be nil.
func New(api API, describe Describe) *Meter {
	if describe == nil {
		describe = func(context.Context) (string, []op.Write) { return "", nil }
	}
	return &Meter{api: api, describe: describe, byName: map[string]Usage{}}
}

// Report returns what was counted since the last Reset.
func (m *Meter) Report() Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := Report{Total: m.total, ByName: make(map[string]Usage, len(m.byName))}
	for n, u := range m.byName {
		r.ByName[n] = u
	}
	return r
}

// Reset starts again from zero.
func (m *Meter) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total, m.byName = Usage{}, map[string]Usage{}
}

// count adds a request; the caller holds the lock.
func (m *Meter) count(ctx context.Context, u Usage) {
	u.Requests = 1
	name, _ := m.describe(ctx)
	m.total = m.total.plus(u)
	m.byName[name] = m.byName[name].plus(u)
}

func share(consistent *bool) float64 {
	if aws.ToBool(consistent) {
		return 1
	}
	return 0.5
}

// GetItem meters a read of one item.
func (m *Meter) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out, err := m.api.GetItem(ctx, in, o...)
	u := Usage{}
	if err == nil {
		u.Read = units(sizeOf(out.Item), readUnit) * share(in.ConsistentRead)
	}
	m.count(ctx, u)
	return out, err
}

// BatchGetItem meters each item that was processed for itself.
func (m *Meter) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out, err := m.api.BatchGetItem(ctx, in, o...)
	u := Usage{}
	if err == nil {
		for table, want := range in.RequestItems {
			half := share(want.ConsistentRead)
			got := out.Responses[table]
			for _, item := range got {
				u.Read += units(sizeOf(item), readUnit) * half
			}
			missing := len(want.Keys) - len(got) - len(out.UnprocessedKeys[table].Keys)
			u.Read += float64(missing) * half
		}
	}
	m.count(ctx, u)
	return out, err
}

// Query meters a page by the sum of its items.
func (m *Meter) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out, err := m.api.Query(ctx, in, o...)
	u := Usage{}
	if err == nil {
		size := 0
		for _, item := range out.Items {
			size += sizeOf(item)
		}
		u.Read = units(size, readUnit) * share(in.ConsistentRead)
	}
	m.count(ctx, u)
	return out, err
}

// PutItem meters a put.
func (m *Meter) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out *dynamodb.PutItemOutput
	err := m.writes(ctx, 1, []target{{in.TableName, in.Item, in.Item}}, func() (err error) {
		out, err = m.api.PutItem(ctx, in, o...)
		return err
	})
	return out, err
}

// UpdateItem meters an update.
func (m *Meter) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out *dynamodb.UpdateItemOutput
	err := m.writes(ctx, 1, []target{{in.TableName, in.Key, nil}}, func() (err error) {
		out, err = m.api.UpdateItem(ctx, in, o...)
		return err
	})
	return out, err
}

// DeleteItem meters a delete.
func (m *Meter) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out *dynamodb.DeleteItemOutput
	err := m.writes(ctx, 1, []target{{in.TableName, in.Key, nil}}, func() (err error) {
		out, err = m.api.DeleteItem(ctx, in, o...)
		return err
	})
	return out, err
}

// TransactWriteItems meters a transaction: twice each write, checks included.
func (m *Meter) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	targets := make([]target, len(in.TransactItems))
	for i, item := range in.TransactItems {
		switch {
		case item.Put != nil:
			targets[i] = target{item.Put.TableName, item.Put.Item, item.Put.Item}
		case item.Update != nil:
			targets[i] = target{item.Update.TableName, item.Update.Key, nil}
		case item.Delete != nil:
			targets[i] = target{item.Delete.TableName, item.Delete.Key, nil}
		case item.ConditionCheck != nil:
			targets[i] = target{item.ConditionCheck.TableName, item.ConditionCheck.Key, nil}
		default:
			return nil, fmt.Errorf("meter: part %d of the transaction is empty", i)
		}
	}
	var out *dynamodb.TransactWriteItemsOutput
	err := m.writes(ctx, 2, targets, func() (err error) {
		out, err = m.api.TransactWriteItems(ctx, in, o...)
		return err
	})
	return out, err
}

// target is one item that is written.
type target struct {
	table *string
	key   attrs // the key, or an item that has it
	put   attrs // what a put would store
}

// writes performs a call and counts it. Each target costs times its units in
// the table, whether the call succeeds or not; index entries only what really
// changed.
func (m *Meter) writes(ctx context.Context, times float64, targets []target, call func() error) error {
	_, planned := m.describe(ctx)
	before := make([]attrs, len(targets))
	for i, t := range targets {
		var err error
		if before[i], err = m.read(ctx, t); err != nil {
			return err
		}
	}
	failed := call()
	u := Usage{}
	for i, t := range targets {
		after, err := m.read(ctx, t)
		if err != nil {
			return err
		}
		size := max(sizeOf(before[i]), sizeOf(after), sizeOf(t.put))
		if failed != nil && len(planned) == len(targets) {
			size = max(size, wouldBe(planned[i], before[i]))
		}
		u.TableWrite += times * units(size, writeUnit)
		u.IndexWrite += indexUnits(before[i], after)
	}
	m.count(ctx, u)
	return failed
}

// read gets an item past the meter.
func (m *Meter) read(ctx context.Context, t target) (attrs, error) {
	out, err := m.api.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: t.table, ConsistentRead: aws.Bool(true),
		Key: attrs{op.AttrPK: t.key[op.AttrPK], op.AttrSK: t.key[op.AttrSK]},
	})
	if err != nil {
		return nil, fmt.Errorf("meter: read beside a write: %w", err)
	}
	return out.Item, nil
}

// wouldBe is the size of the item that a failed update would have made of the
// one it met: what it sets comes in, what it replaces or removes goes. A sum
// is taken for as long as the number that is added.
func wouldBe(w op.Write, before attrs) int {
	if w.Action != op.Update {
		return 0
	}
	item := make(attrs, len(before))
	for n, v := range before {
		item[n] = v
	}
	size := 0
	for _, c := range w.Changes {
		old, had := item[c.Attr]
		if c.Verb == op.VerbAdd && had {
			if _, number := old.(*types.AttributeValueMemberN); number {
				continue // about as long as before
			}
		}
		delete(item, c.Attr)
		if c.Verb != op.VerbRemove {
			size += op.Size(op.Key{}, op.Item{c.Attr: c.Value}) - op.Size(op.Key{}, nil)
		}
	}
	if before == nil {
		size += op.Size(w.Key, nil)
	}
	return size + sizeOf(item)
}

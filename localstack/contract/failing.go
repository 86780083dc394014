package contract

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"github.com/lanekeeper/lanekeeper/localstack/stack"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

// Failing is a server whose store fails while it is told to.
type Failing struct {
	Stack
	down *atomic.Bool
}

// Down makes every call of the store fail from now on, or none.
func (f *Failing) Down(down bool) { f.down.Store(down) }

// LaunchFailing starts the embedded system in this process, on a free port with an empty data directory, over
// a store that can be made to fail: what no separate process lets anyone do. It ends with ctx and with Stop.
func LaunchFailing(ctx context.Context, config []byte) (*Failing, error) {
	cfg, err := policyfile.Parse("contract.yaml", config)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lanekeeper-contract-")
	if err != nil {
		return nil, err
	}
	var down atomic.Bool
	s, err := stack.Start(ctx, stack.Options{Config: cfg, DataDir: dir, Addr: "127.0.0.1:0", Table: func(t op.Table) op.Table { return fragile{t, &down} }})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	var once sync.Once
	stop := func() {
		once.Do(func() {
			down.Store(false)
			now, cancel := context.WithCancel(context.Background())
			cancel() // nothing here is worth waiting for
			_ = s.Stop(now)
			_ = os.RemoveAll(dir)
		})
	}
	context.AfterFunc(ctx, stop)
	return &Failing{Stack: Stack{Base: s.URL, stop: stop}, down: &down}, nil
}

// fragile is a table that fails while it is down, as a store does that has a fault of its own.
type fragile struct {
	op.Table
	down *atomic.Bool
}

func (f fragile) fault(name string) error {
	if !f.down.Load() {
		return nil
	}
	return &op.Unavailable{Name: name, Reason: op.Internal, Err: errors.New("injected")}
}

func (f fragile) Get(ctx context.Context, key op.Key, consistent bool) (op.Item, error) {
	if err := f.fault("get"); err != nil {
		return nil, err
	}
	return f.Table.Get(ctx, key, consistent)
}

func (f fragile) BatchGet(ctx context.Context, keys []op.Key, consistent bool) ([]op.Item, error) {
	if err := f.fault("batch get"); err != nil {
		return nil, err
	}
	return f.Table.BatchGet(ctx, keys, consistent)
}

func (f fragile) Query(ctx context.Context, q op.Query) (op.Page, error) {
	if err := f.fault("query"); err != nil {
		return op.Page{}, err
	}
	return f.Table.Query(ctx, q)
}

func (f fragile) Write(ctx context.Context, w op.Write) (op.Item, error) {
	if err := f.fault(w.Name); err != nil {
		return nil, err
	}
	return f.Table.Write(ctx, w)
}

func (f fragile) Transact(ctx context.Context, tx op.Tx) error {
	if err := f.fault("transaction"); err != nil {
		return err
	}
	return f.Table.Transact(ctx, tx)
}

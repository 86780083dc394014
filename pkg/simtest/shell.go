package simtest

import (
	"context"
	"hash/fnv"
	"runtime"
	"strconv"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

// shell is the table and the queues as one instance sees them.
type shell struct{ in *Instance }

var (
	_ op.Table     = shell{}
	_ queue.Sender = shell{}
)

func where(k op.Key) string { return k.PK + "/" + k.SK }

func (s shell) Get(ctx context.Context, key op.Key, consistent bool) (item op.Item, err error) {
	err = s.in.call(ctx, Read, "get", where(key), func() (err error) {
		item, err = s.in.w.table.Get(ctx, key, consistent)
		return err
	})
	return item, err
}

func (s shell) BatchGet(ctx context.Context, keys []op.Key, consistent bool) (items []op.Item, err error) {
	at := ""
	if len(keys) > 0 {
		at = where(keys[0])
	}
	err = s.in.call(ctx, Read, "batch_get", at, func() (err error) {
		items, err = s.in.w.table.BatchGet(ctx, keys, consistent)
		return err
	})
	return items, err
}

func (s shell) Write(ctx context.Context, w op.Write) (item op.Item, err error) {
	w = s.in.w.mutated(w)
	c := &Call{In: s.in, Kind: Write, Name: w.Name, Where: where(w.Key)}
	c.do = func() (err error) {
		item, err = s.in.w.table.Write(ctx, w)
		return err
	}
	if !w.Once {
		c.repeats = func() error { _, err := s.in.w.table.Write(ctx, w); return err }
	}
	err = s.in.send(ctx, c)
	return item, err
}

func (s shell) Transact(ctx context.Context, tx op.Tx) error {
	c := &Call{In: s.in, Kind: Transact, Name: tx.Name}
	writes := make([]op.Write, len(tx.Writes))
	for i, w := range tx.Writes {
		writes[i] = s.in.w.mutated(w)
		c.Where = where(tx.Writes[0].Key)
	}
	tx.Writes = writes
	c.do = func() error { return s.in.w.table.Transact(ctx, tx) }
	c.repeats = c.do
	w := s.in.w
	if w.opts.Watch == nil {
		return s.in.send(ctx, c)
	}
	began, err := w.now(), error(&op.Unavailable{Name: tx.Name, Reason: op.Timeout, Err: errInjected})
	defer func() { w.opts.Watch(tx, began, w.now(), err) }() // also when the instance dies meanwhile
	err = s.in.send(ctx, c)
	return err
}

func (s shell) Query(ctx context.Context, q op.Query) (page op.Page, err error) {
	at := string(q.Index) + ":" + q.PK + " " + q.Cursor
	if q.Index == op.IndexDue && s.in.w.direct(at) {
		if s.in.gone() {
			runtime.Goexit()
		}
		return s.in.w.table.Query(ctx, q)
	}
	err = s.in.call(ctx, Read, "query", at, func() (err error) {
		page, err = s.in.w.table.Query(ctx, q)
		return err
	})
	return page, err
}

// direct says whether a query of the due index skips the scheduler: an
// aggregator makes sixteen of them a second, which would be all that a
// simulation does. Whether this one does is a function of the seed, what is asked and when.
func (w *World) direct(what string) bool {
	if w.opts.All {
		return false
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(what))
	_, _ = h.Write([]byte(strconv.FormatInt(w.now().UnixNano(), 36)))
	_, _ = h.Write([]byte(strconv.FormatUint(w.opts.Seed, 36)))
	return h.Sum32()%32 != 0
}

func (w *World) mutated(wr op.Write) op.Write {
	if w.opts.Mutate == nil {
		return wr
	}
	return w.opts.Mutate(wr)
}

func (s shell) Send(ctx context.Context, lane string, m queue.Outgoing) error {
	return s.in.call(ctx, Send, "send", lane+" "+m.Body, func() error {
		s.in.w.queues[lane].send(s.in, m)
		return nil
	})
}

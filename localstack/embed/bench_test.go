package embed_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

// clients runs b.N calls from n goroutines and reports calls a second.
func clients(b *testing.B, n int, call func(i int) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range n {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= b.N; i = int(next.Add(1)) {
				if err := call(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

func row(i int) op.Item {
	return op.Item{
		"state": op.S("queued"), "class": op.S("report.export"), "n": op.N(int64(i)), "amount": op.N(3000),
		"dk": op.S(fmt.Sprint("due#", i%16)), "ds": op.S(fmt.Sprintf("%016d", i)), "payload": op.B(make([]byte, 300)),
	}
}

func BenchmarkTable(b *testing.B) {
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprintf("update/clients=%d", n), func(b *testing.B) {
			table := open(b, embed.Options{}).Table()
			clients(b, n, func(i int) error {
				_, err := table.Write(b.Context(), op.Write{Name: "add", Key: op.Key{PK: fmt.Sprint("ledger#", i%32), SK: "l"}, Action: op.Update,
					Cond: op.AtMost("work", 1<<60), Changes: []op.Change{op.Add("work", 1)}})
				return err
			})
		})
		// What an accept or a claim costs: two conditional updates and a put of
		// a row that is in an index.
		b.Run(fmt.Sprintf("two-updates-and-put/clients=%d", n), func(b *testing.B) {
			table := open(b, embed.Options{}).Table()
			clients(b, n, func(i int) error {
				add := func(pk string) op.Write {
					return op.Write{Name: "add", Key: op.Key{PK: fmt.Sprint(pk, i%8), SK: "l"}, Action: op.Update,
						Cond: op.AtMost("work", 1<<60), Changes: []op.Change{op.Add("work", 1)}}
				}
				return table.Transact(b.Context(), op.Tx{Name: "accept", Writes: []op.Write{add("ledger#"), add("lane#"),
					{Name: "row", Key: op.Key{PK: fmt.Sprint("task#", i%16), SK: fmt.Sprintf("%08d", i)}, Action: op.Put, Cond: op.ItemMissing, Item: row(i)}}})
			})
		})
		b.Run(fmt.Sprintf("get/clients=%d", n), func(b *testing.B) {
			table := open(b, embed.Options{}).Table()
			for i := range 1000 {
				if _, err := table.Write(b.Context(), op.Write{Name: "put", Key: op.Key{PK: "t", SK: fmt.Sprint(i)}, Action: op.Put, Item: row(i)}); err != nil {
					b.Fatal(err)
				}
			}
			clients(b, n, func(i int) error {
				_, err := table.Get(b.Context(), op.Key{PK: "t", SK: fmt.Sprint(i % 1000)}, true)
				return err
			})
		})
	}
}

// A message's whole way: sent, received by a long poll, deleted.
func BenchmarkQueue(b *testing.B) {
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprintf("send-receive-delete/clients=%d", n), func(b *testing.B) {
			queues := open(b, embed.Options{}).Queues()
			if err := queues.Create(b.Context(), "q", embed.QueueConfig{}); err != nil {
				b.Fatal(err)
			}
			clients(b, n, func(i int) error {
				if err := queues.Send(b.Context(), "q", queue.Outgoing{Body: `{"v":1,"tenant":"alpha","task":"t","gen":1}`}); err != nil {
					return err
				}
				got, err := queues.Receive(b.Context(), "q", 1, time.Second, 0)
				if err != nil || len(got) == 0 {
					return err
				}
				return queues.Delete(b.Context(), "q", got[0].ReceiptHandle)
			})
		})
	}
}

package chain_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/chain"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

type bench struct {
	*rig.Rig
	t  *testing.T
	in *intake.Service
}

func run(t *testing.T, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{Rig: rig.New(rig.Config(t), memtable.New(memtable.Options{}), nil), t: t}
		b.in = b.Intake()
		test(b)
	})
}

func (b *bench) submit(key string) *task.Task {
	b.t.Helper()
	out, err := b.in.Submit(b.t.Context(), b.Who("alpha"), intake.Submission{Class: "short", OrderingKey: key, RequestHash: "h", DeadlineMS: 3_600_000})
	if err != nil {
		b.t.Fatal(err)
	}
	time.Sleep(time.Millisecond)
	return out.Task
}

func (b *bench) is(x *task.Task, state task.State, held bool) *task.Task {
	b.t.Helper()
	now := b.Task(b.t, "alpha", x.ID)
	if now.State != state || now.Held != held || held && !now.Parked {
		b.t.Errorf("number %d is %s, held %t, parked %t; want %s, %t", now.Seq, now.State, now.Held, now.Parked, state, held)
	}
	return now
}

func (b *bench) cancel(x *task.Task) {
	b.t.Helper()
	if _, _, err := b.in.Cancel(b.t.Context(), b.Who("alpha"), x.ID); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) chain(key string) taskop.Chain {
	b.t.Helper()
	item, err := b.Raw.Get(b.t.Context(), taskop.ChainKey("alpha", key), true)
	if err != nil {
		b.t.Fatal(err)
	}
	return taskop.DecodeChain(item)
}

func TestOnlyTheHeadIsEligible(t *testing.T) {
	run(t, func(b *bench) {
		first, second, third, other := b.submit("k"), b.submit("k"), b.submit("k"), b.submit("another")
		b.is(first, task.Queued, false)
		b.is(second, task.Waiting, true)
		b.is(third, task.Waiting, true)
		b.is(other, task.Queued, false)
		if c := b.chain("k"); c != (taskop.Chain{Head: 1, Last: 3, WorkMS: 3000}) {
			b.t.Errorf("%+v", c)
		}
		if third.Prediction.WaitMS < 2000 {
			b.t.Errorf("two seconds of its key stand before it, predicted are %d ms", third.Prediction.WaitMS)
		}
		running := b.Claim(b.t, b.Task(b.t, "alpha", first.ID))
		if err := chain.Ended(b.t.Context(), b.Table, running); err != nil { // it is not over
			b.t.Fatal(err)
		}
		b.is(second, task.Waiting, true)
		b.cancel(second)
		b.Succeed(b.t, running)
		if err := chain.Ended(b.t.Context(), b.Table, running); err != nil {
			b.t.Fatal(err)
		}
		b.is(third, task.Waiting, false)
		b.CheckLanes(b.t, true)
		b.cancel(third)
		b.cancel(other)
		for _, key := range []string{"k", "another"} {
			if c := b.chain(key); c != (taskop.Chain{}) {
				b.t.Errorf("chain %s is left: %+v", key, c)
			}
		}
		b.CheckQuiet(b.t)
		b.is(b.submit("k"), task.Queued, false)
	})
}

// TestPassingOnIsRepairedWhereverItStops tries every call at which it can stop, with
// every fault, once, and then looks again as a visit does.
func TestPassingOnIsRepairedWhereverItStops(t *testing.T) {
	points := 0
	for n := 1; ; n++ {
		done := false
		for _, fault := range rig.Faults() {
			run(t, func(b *bench) {
				var tasks []*task.Task
				for range 4 {
					tasks = append(tasks, b.submit("k"))
				}
				running := b.Claim(b.t, b.Task(b.t, "alpha", tasks[0].ID))
				b.cancel(tasks[1])
				b.Succeed(b.t, running)
				b.Table.Fail(func(c rig.Call) rig.Fault {
					if c.N == n {
						return fault
					}
					return rig.None
				})
				err := chain.Ended(b.t.Context(), b.Table, running)
				done = b.Table.Calls() < n
				if (err == nil) != done {
					b.t.Fatalf("call %d %v: %v", n, fault, err)
				}
				b.Table.Fail(nil)
				if err := chain.Ended(context.WithoutCancel(b.t.Context()), b.Table, running); err != nil {
					b.t.Fatal(err)
				}
				b.is(tasks[2], task.Waiting, false)
				b.is(tasks[3], task.Waiting, true)
				if c := b.chain("k"); c != (taskop.Chain{Head: 3, Last: 4, WorkMS: 2000}) {
					b.t.Errorf("call %d %v: %+v", n, fault, c)
				}
				b.CheckLanes(b.t, false)
			})
		}
		if done {
			break
		}
		points++
	}
	if points < 8 {
		t.Errorf("only %d calls", points)
	}
}

// TestAVisitFindsTheTurnThatNobodyPassedOn: the worker died between the end and the passing
// on; the aggregator's visit does it.
func TestAVisitFindsTheTurnThatNobodyPassedOn(t *testing.T) {
	run(t, func(b *bench) {
		first, second := b.submit("k"), b.submit("k")
		b.Succeed(b.t, b.Claim(b.t, b.Task(b.t, "alpha", first.ID)))
		ctx, stop := context.WithCancel(b.t.Context())
		defer time.AfterFunc(2*time.Minute, stop).Stop()
		if _, err := b.Aggregate().Run(ctx, true); err != nil {
			b.t.Fatal(err)
		}
		if now := b.Task(b.t, "alpha", second.ID); now.Held || now.State != task.Queued {
			b.t.Errorf("it is %s, held %t", now.State, now.Held)
		}
	})
}

// TestParallelSubmissionsOfAKeyFormOneChain: each has a number of its own, and one
// is the head.
func TestParallelSubmissionsOfAKeyFormOneChain(t *testing.T) {
	run(t, func(b *bench) {
		const n = 6
		got := make(chan *task.Task, n)
		for range n {
			go func() {
				out, err := b.Intake().Submit(b.t.Context(), b.Who("alpha"), intake.Submission{Class: "short", OrderingKey: "k", RequestHash: "h", DeadlineMS: 3_600_000})
				if err != nil {
					b.t.Error(err)
				}
				got <- out.Task
			}()
		}
		seen, heads := map[int64]bool{}, 0
		for range n {
			x := <-got
			if x == nil {
				continue
			}
			if seen[x.Seq] {
				b.t.Errorf("number %d twice", x.Seq)
			}
			seen[x.Seq] = true
			if !x.Held {
				heads++
			}
		}
		if heads != 1 || fmt.Sprint(b.chain("k")) != fmt.Sprint(taskop.Chain{Head: 1, Last: n, WorkMS: n * 1000}) {
			b.t.Errorf("%d heads, %+v", heads, b.chain("k"))
		}
		b.CheckLanes(b.t, true)
		b.CheckHoldings(b.t)
	})
}

// TestALateCopyOfAPassOnPassesOverNobody: the chain was left by all and begins afresh, with
// the same numbers; then the call that had emptied it arrives a second time.
func TestALateCopyOfAPassOnPassesOverNobody(t *testing.T) {
	run(t, func(b *bench) {
		first := b.submit("k")
		before := b.chain("k")
		entry, err := b.Raw.Query(b.t.Context(), taskop.ChainEntries("alpha", "k", 1))
		if err != nil || len(entry.Rows) != 1 {
			b.t.Fatal(entry, err)
		}
		ended, err := taskop.DecodeChainEntry(entry.Rows[0].Key, entry.Rows[0].Item)
		if err != nil {
			b.t.Fatal(err)
		}
		b.cancel(first)
		second := b.submit("k")
		if b.chain("k") != before {
			b.t.Fatalf("%+v, before %+v: the test says nothing", b.chain("k"), before)
		}
		if err := b.Raw.Transact(b.t.Context(), taskop.PassOn("alpha", "k", before, ended, 0)); op.FailedCond(err) == nil {
			b.t.Errorf("the late copy: %v", err)
		}
		third := b.submit("k")
		b.is(second, task.Queued, false)
		b.is(third, task.Waiting, true)
	})
}

package fair

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// An outage: the vendor whom outageTasks tasks need is out for a minute. Figures
// are taken from its beginning until a minute after its end, when what failed is tried again.
const (
	outageTasks = 500
	outageFrom  = 30_000
	outageTo    = 90_000
	outageUntil = 150_000
	outageEnd   = 400_000
)

// How the vendor is out.
const (
	works int32 = iota
	fails       // it answers 503 at once
	hangs       // it does not answer: attempts end at their time limit
)

const needy = "t0" // who submits what needs the vendor, in lane work

// others submit work that does not need it.
var others = []struct {
	tenant, class, name string
	every               time.Duration
	gate                bool
}{
	{"t1", "quick", "critical", 100 * time.Millisecond, true},
	{"t2", "aside", "heavy", 100 * time.Millisecond, true},
	{"t3", "calm", "its own lane", 300 * time.Millisecond, false},
}

func outageConfig(critical, aside string) *policy.Config {
	return config("KINDS", `  needy: {lane: work, prior: {p50: 300ms, p95: 600ms}, cap: 10s}
  calm: {lane: work, prior: {p50: 200ms, p95: 200ms}, cap: 10s, target: {builtin: sleep}}
  quick: {lane: `+critical+`, prior: {p50: 200ms, p95: 200ms}, cap: 10s, target: {builtin: sleep}}
  aside: {lane: `+aside+`, prior: {p50: 200ms, p95: 200ms}, cap: 10s, target: {builtin: sleep}}
`, "attempt_timeout: 2m", "attempt_timeout: 10s", "max_attempts: 3, backoff_base: 1s", "max_attempts: 30, backoff_base: 1s")
}

// vendor is the handler of class needy.
func vendor(w *world, how *atomic.Int32) worker.Handler {
	return func(ctx context.Context, _ *worker.Task) (any, error) {
		switch how.Load() {
		case fails:
			time.Sleep(50 * time.Millisecond)
			return nil, worker.WithCode("http_503", errors.New("the vendor answered 503"))
		case hangs:
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		time.Sleep(w.about(300 * time.Millisecond))
		return nil, nil
	}
}

// arrivals submits at random times that are the same in every world, on average
// every so often, so that two runs differ by nothing but the outage.
func (w *world) arrivals(seed uint64, every time.Duration, submit func()) {
	rng := rand.New(rand.NewPCG(seed, 11))
	w.wg.Go(func() {
		for at := 0.0; ; {
			if at += rng.ExpFloat64() * float64(every.Milliseconds()); at >= outageUntil || w.ctx.Err() != nil {
				return
			}
			w.sleepUntil(int64(at))
			w.wg.Go(submit)
		}
	})
}

// outageLoad plays an outage; it returns how many of the tasks that need the vendor succeeded.
func outageLoad(out int32, succeeded *int) func(w *world) {
	return func(w *world) {
		var how atomic.Int32
		w.mux.Handle("needy", vendor(w, &how))
		for i, other := range others {
			w.arrivals(uint64(i), other.every, func() { w.submit(other.tenant, other.class, "", 200*time.Millisecond) })
		}
		w.sleepUntil(outageFrom)
		how.Store(out)
		var ids []string
		for i := range outageTasks {
			w.sleepUntil(outageFrom + int64(i)*(outageTo-outageFrom)/outageTasks)
			ids = append(ids, w.submit(needy, "needy", "", 0))
		}
		w.sleepUntil(outageTo)
		how.Store(works)
		w.sleepUntil(outageUntil + 5000)
		for *succeeded = w.succeeded(needy, ids); *succeeded < outageTasks && w.sinceMS() < outageEnd; *succeeded = w.succeeded(needy, ids) {
			time.Sleep(5 * time.Second)
		}
	}
}

// succeeded is how many of a tenant's tasks have succeeded.
func (w *world) succeeded(tenant string, ids []string) (n int) {
	for _, id := range ids {
		key := taskop.RowKey(tenant, id)
		if t, err := taskop.DecodeRow(key, w.table.Peek(key)); err == nil && t.State == task.Succeeded {
			n++
		}
	}
	return n
}

// outage: work in other lanes does not feel that a vendor is out, and nothing
// that needs it is lost. With short only the worse of the two, and nothing beside it.
func (r *Report) outage(t *testing.T, short bool) {
	var done int
	delays := func(w *world, tenant string) [2]int64 {
		d := w.delays(outageFrom, outageUntil, tenant)
		return [2]int64{quantile(d, 0.5), quantile(d, 0.95)}
	}
	lanes, single := outageConfig("critical", "heavy"), outageConfig("work", "work")
	alone := play(t, lanes, without{}, outageLoad(works, &done))
	for _, way := range []struct {
		how  int32
		name string
	}{{fails, "answers 503"}, {hangs, "hangs"}} {
		if short && way.how != hangs {
			continue
		}
		off := &world{stage: &stage{}}
		if !short { // the same work in one lane of ten slots; retries have their own still
			off = play(t, single, without{}, outageLoad(way.how, &done))
		}
		on := play(t, lanes, without{}, outageLoad(way.how, &done))
		for _, other := range others {
			a, b, c := delays(alone, other.tenant), delays(on, other.tenant), delays(off, other.tenant)
			name := fmt.Sprintf("60 s outage (%s): start delay in %s, p50, p95", way.name, other.name)
			figure, beside := both(b), both(c)
			if short {
				beside = ""
			}
			if !other.gate {
				r.figure(name, figure, "(without outage "+both(a)+")", beside)
				continue
			}
			r.line(b[0]*10 <= a[0]*11 && b[1]*10 <= a[1]*11, name, figure, "<= 1.1 × "+both(a), beside)
		}
		starts := len(on.log(of(needy)))
		r.line(done == outageTasks, fmt.Sprintf("60 s outage (%s): the tasks that need it succeed", way.name), fmt.Sprintf("%d in %d attempts", done, starts), fmt.Sprint(outageTasks), "")
	}
}

func both(d [2]int64) string { return fmt.Sprintf("%.3f, %s", float64(d[0])/1000, seconds(d[1])) }

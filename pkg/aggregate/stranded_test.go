package aggregate

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// Tasks in a lane that was removed from the configuration disturb no tick, are named, and expire.
func TestTasksOfARemovedLaneAreNamedAndExpire(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	b := newBed(t)
	b.write(taskop.CreateLane("gone", 2))
	b.write(op.Write{Name: "test", Key: taskop.LaneKey("gone"), Action: op.Update, Cond: op.ItemExists, Changes: []op.Change{op.Add("open", 1), op.Add("ready", 2)}})
	var tasks []*task.Task
	for _, state := range []task.State{task.Queued, task.Waiting, task.Waiting} {
		tasks = append(tasks, b.put(task.Task{Class: "job", Lane: "gone", State: state, DueMS: b.now + 500}))
	}
	for range 90 {
		b.tick()
	}
	if n := strings.Count(log.String(), "still holds tasks"); n != 2 || !strings.Contains(log.String(), "lane=gone tasks=3") {
		t.Errorf("named %d times in 90 s, want 2:\n%s", n, log.String())
	}
	if b.sent["gone"] != 0 {
		t.Error("it sent to the queue of a lane that is gone")
	}
	b.now += 2 * time.Hour.Milliseconds()
	b.tick()
	for _, x := range tasks {
		row, err := b.db.Table().Get(context.Background(), taskop.RowKey(x.Tenant, x.ID), true)
		if err != nil {
			t.Fatal(err)
		}
		if now, err := taskop.DecodeRow(taskop.RowKey(x.Tenant, x.ID), row); err != nil || now.State != task.Expired {
			t.Errorf("%s (it was %s), %v", now.State, x.State, err)
		}
	}
}

// An attempt that a removed lane's worker left behind goes on in the retry lane, by that lane's rules.
func TestALostAttemptOfARemovedLaneIsRetried(t *testing.T) {
	b := newBed(t)
	x := b.put(task.Task{Class: "job", Lane: "gone", State: task.Queued, DueMS: b.now + 60_000})
	if err := b.db.Table().Transact(context.Background(), taskop.Claim(x, taskop.Lease{Token: "t", NowMS: b.now, UntilMS: b.now + 500})); err != nil {
		t.Fatal(err)
	}
	b.tick()
	if now := b.read(x); now.State != task.RetryWait || now.Failures != 1 || now.Error == nil || now.Error.Code != "lost_worker" {
		t.Fatalf("%+v, %+v", now, now.Error)
	}
	for range 120 {
		b.tick()
	}
	if now := b.read(x); now.AtLane != b.cfg.RetryLane() || now.State != task.Queued || b.sent[b.cfg.RetryLane()] == 0 {
		t.Errorf("%+v, sent %v", now, b.sent)
	}
}

// visits counts the due times that are moved, by task.
type visits struct {
	op.Table
	of map[string]int
}

func (v visits) Write(ctx context.Context, w op.Write) (op.Item, error) {
	if strings.HasPrefix(w.Name, "move_due") {
		v.of[w.Key.SK]++
	}
	return v.Table.Write(ctx, w)
}

// What waits in a lane that is gone, which may be a whole backlog, is not looked at twice a minute for as long
// as it waits: nobody would come to leases and retries. What had a slot there is, and those are few.
func TestABacklogOfARemovedLaneIsVisitedEverMoreRarely(t *testing.T) {
	b := newBed(t)
	v := visits{b.r.Table, map[string]int{}}
	b.r.Table = v
	b.write(taskop.CreateLane("gone", 2))
	waiting := b.put(task.Task{Class: "job", Lane: "gone", State: task.Waiting, DueMS: b.now + 500})
	queued := b.put(task.Task{Class: "job", Lane: "gone", State: task.Queued, DueMS: b.now + 500})
	resend := int(b.cfg.Tasks.ResendAfter.MS() / 1000)
	const ticks = 1000
	b.ticks(ticks)
	if n := v.of[waiting.ID]; n < 3 || n > 8 {
		t.Errorf("what waits was visited %d times in %d s", n, ticks)
	}
	if n := v.of[queued.ID]; n < ticks/resend-2 || n > ticks/resend+1 {
		t.Errorf("what had a slot was visited %d times in %d s", n, ticks)
	}
}

// faster is a table on which somebody else creates a lane first.
type faster struct{ op.Table }

func (f faster) Write(ctx context.Context, w op.Write) (op.Item, error) {
	if w.Name == taskop.CreateLane("a", 1).Name {
		if _, err := f.Table.Write(ctx, w); err != nil {
			return nil, err
		}
	}
	return f.Table.Write(ctx, w)
}

// The first admission of a lane and the first tick may both create it.
func TestALaneThatSomebodyElseCreatesFailsNoTick(t *testing.T) {
	b := newBed(t)
	b.r.Table = faster{b.r.Table}
	b.tick()
}

package aggregate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// minutes keeps what it is told.
type minutes struct{ got []Minute }

func (m *minutes) Emit(_ context.Context, one Minute) error {
	m.got = append(m.got, one)
	return nil
}

type deadLetters map[string]int64

func (d deadLetters) DeadLetters(_ context.Context, lane string) (int64, error) {
	if n, ok := d[lane]; ok {
		return n, nil
	}
	return 0, errors.New("no such queue")
}

type reporter struct {
	*testing.T
	cfg   *policy.Config
	now   time.Time
	table *memtable.Table
	tally *tally.Recorder
	out   minutes
	dead  deadLetters
}

func newReporter(t *testing.T) *reporter {
	t.Helper()
	cfg, err := policyfile.Load("../../localstack/lanekeeper.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := &reporter{T: t, cfg: cfg, now: time.UnixMilli(1_700_000_000_000), table: memtable.New(memtable.Options{}), tally: tally.New(), dead: deadLetters{}}
	for _, lane := range cfg.LaneNames() {
		r.dead[lane] = 0
	}
	return r
}

// run is a fresh run, as another instance's would be.
func (r *reporter) run() *run {
	s := New(Deps{Config: r.cfg, Table: r.table, Clock: func() time.Time { return r.now }, Tally: r.tally, Metrics: &r.out, DeadLetters: r.dead,
		Float: func() float64 { return 0 }, NewID: func() string { return "id" }})
	return &run{Service: s}
}

// tick reports if it is time, and gives what was reported then.
func (r *reporter) tick(on *run) *Minute {
	r.Helper()
	lanes := map[string]*taskop.Lane{}
	for _, name := range r.cfg.LaneNames() {
		item, err := r.table.Get(context.Background(), taskop.LaneKey(name), true)
		if err != nil {
			r.Fatal(err)
		}
		l, err := taskop.DecodeLane(name, item)
		if err != nil {
			r.Fatal(err)
		}
		lanes[name] = &l
	}
	before := len(r.out.got)
	if err := on.metrics(context.Background(), lanes); err != nil {
		r.Fatal(err)
	}
	if len(r.out.got) == before {
		return nil
	}
	return &r.out.got[len(r.out.got)-1]
}

func (r *reporter) start(delayMS int64) {
	r.tally.Started(r.now, tally.Start{Class: "mail.send", Bucket: "default", Lane: "critical", DelayMS: delayMS})
}

func TestMetricsAreReportedOnceAMinute(t *testing.T) {
	r := newReporter(t)
	first, second := r.run(), r.run()
	r.start(5)
	r.start(90)
	m := r.tick(first)
	if m == nil || m.Counts[tally.GroupLane]["critical"]["d.0"] != 1 || m.Counts[tally.GroupStart]["critical|mail.send"]["err.n"] != 2 || m.LatenessMS != 0 {
		t.Fatalf("the first report is %+v", m)
	}
	r.start(5)
	for range 3 {
		if again := r.tick(first); again != nil {
			t.Fatal("a second report in the same minute")
		}
		if again := r.tick(second); again != nil {
			t.Fatal("another run reported the same minute")
		}
	}
	r.now = r.now.Add(75 * time.Second)
	m = r.tick(second)
	if m == nil || m.Counts[tally.GroupLane]["critical"]["d.0"] != 1 || m.Counts[tally.GroupLane]["critical"]["d.3"] != 0 {
		t.Fatalf("the second report is %+v; it must hold what came since the first", m)
	}
	if m.LatenessMS != 15_000 {
		t.Errorf("late by %d ms, want 15000", m.LatenessMS)
	}
	if again := r.tick(first); again != nil {
		t.Error("the first run reported the minute again")
	}
	r.now = r.now.Add(time.Minute)
	if m = r.tick(first); m == nil || len(m.Counts) != 0 {
		t.Errorf("a minute in which nothing happened has the counts %+v", m)
	}
}

func TestMetricsKeepTheUsualDelay(t *testing.T) {
	r := newReporter(t)
	on := r.run()
	var usual int64
	for i := range 200 {
		if i < 100 {
			r.start(5)
		} else {
			r.start(4000)
		}
		if m := r.tick(on); m != nil {
			for _, l := range m.Lanes {
				if l.Name == "critical" {
					usual = l.UsualMS
				}
			}
		}
		if i == 99 && usual > 10 {
			t.Errorf("usually %d ms after minutes of 5 ms", usual)
		}
		r.now = r.now.Add(time.Minute)
	}
	if usual < 2000 || usual > 4000 {
		t.Errorf("usually %d ms after 100 minutes of 4 s", usual)
	}
}

func TestMetricsSayHowLanesStand(t *testing.T) {
	r := newReporter(t)
	r.dead["heavy"] = 7
	ctx, nowMS := context.Background(), r.now.UnixMilli()
	writes := []func() error{
		func() error { _, err := r.table.Write(ctx, taskop.CreateLane("heavy", 2)); return err },
		func() error {
			_, err := r.table.Write(ctx, taskop.EnterSlot("heavy", taskop.Open{ID: "a", Class: "agent.migration", Bucket: "default", Tenant: "alpha", SinceMS: nowMS - 4000, AmountMS: 1000}, nil))
			return err
		},
	}
	for _, w := range writes {
		if err := w(); err != nil {
			t.Fatal(err)
		}
	}
	m := r.tick(r.run())
	if m == nil || len(m.Lanes) != 4 {
		t.Fatalf("%+v", m)
	}
	for _, l := range m.Lanes {
		want := LaneNow{Name: l.Name, TargetMS: l.TargetMS}
		if l.Name == "heavy" {
			want = LaneNow{Name: "heavy", TargetMS: 300_000, WorkMS: 1000, Slots: 2, QueuedMS: 4000, DeadLetters: 7}
		}
		if l != want {
			t.Errorf("%+v, want %+v", l, want)
		}
	}
}

func TestMetricsSurviveACounterThatFails(t *testing.T) {
	r := newReporter(t)
	delete(r.dead, "heavy")
	r.start(5)
	on := r.run()
	if err := on.metrics(context.Background(), map[string]*taskop.Lane{"critical": {Name: "critical"}, "heavy": {Name: "heavy"}, "retry": {Name: "retry"}, "standard": {Name: "standard"}}); err == nil {
		t.Fatal("no error although dead letters could not be counted")
	}
	r.dead["heavy"] = 1
	if m := r.tick(on); m == nil || m.Counts[tally.GroupLane]["critical"]["d.0"] != 1 {
		t.Errorf("what happened was lost: %+v", m)
	}
}

func TestRiseOfCounters(t *testing.T) {
	last := map[string]map[string]int64{"lane#a": {"x": 5, "y": 3}}
	next := map[string]map[string]int64{"lane#a": {"x": 7, "y": 3, "z": 1}, "start#a|b": {"n": 2}}
	got := rise(last, next)
	if len(got["lane"]["a"]) != 2 || got["lane"]["a"]["x"] != 2 || got["lane"]["a"]["z"] != 1 || got["start"]["a|b"]["n"] != 2 {
		t.Errorf("%v", got)
	}
	if got = rise(next, map[string]map[string]int64{"lane#a": {"x": 2}}); got["lane"]["a"]["x"] != 2 {
		t.Errorf("an item that was removed has risen by %v", got)
	}
}

// behind shows an older version of what was last reported.
type behind struct {
	*memtable.Table
	item op.Item
}

func (b behind) Get(ctx context.Context, key op.Key, consistent bool) (op.Item, error) {
	if key == taskop.MetricsKey() {
		return b.item, nil
	}
	return b.Table.Get(ctx, key, consistent)
}

// TestMetricsOfTwoRunsAtOnce: both read what was last reported before either
// reports; one of them does.
func TestMetricsOfTwoRunsAtOnce(t *testing.T) {
	r := newReporter(t)
	ctx := context.Background()
	for round := range 2 { // the first report, and a later one
		before, err := r.table.Get(ctx, taskop.MetricsKey(), true)
		if err != nil {
			t.Fatal(err)
		}
		r.start(5)
		late := r.run()
		late.Table = behind{r.table, before}
		if m := r.tick(r.run()); m == nil {
			t.Fatalf("round %d: nobody reported", round)
		}
		if m := r.tick(late); m != nil {
			t.Errorf("round %d: reported twice", round)
		}
		r.now = r.now.Add(time.Minute)
	}
}

package embed_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
	"github.com/lanekeeper/lanekeeper/pkg/queue/queuetest"
)

// clock is an injected clock.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// advance moves the clock and lets the polls of db notice.
func (c *clock) advance(db *embed.DB, d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	c.mu.Unlock()
	db.Wake()
}

func openClock(t *testing.T, opts embed.Options) (*embed.DB, *clock) {
	t.Helper()
	c := newClock()
	opts.Now = c.Now
	return open(t, opts), c
}

func TestQueuesConform(t *testing.T) {
	db, c := openClock(t, embed.Options{})
	queuetest.Exercise(t, func(t *testing.T) queuetest.Engine {
		return queuetest.Engine{Queue: db.Queues(), Now: c.Now, Advance: func(d time.Duration) { c.advance(db, d) }}
	}, queuetest.Options{})
}

func TestQueueOldestAge(t *testing.T) {
	db, c := openClock(t, embed.Options{})
	q, ctx := db.Queues(), t.Context()
	create(t, q, "q", embed.QueueConfig{Retention: time.Hour})
	age := func(want time.Duration) {
		t.Helper()
		if got, err := q.OldestAge(ctx, "q"); err != nil || got != want {
			t.Fatalf("age %s, %v; want %s", got, err, want)
		}
	}
	age(0)
	send(t, q, "q", "a")
	c.advance(db, time.Minute)
	send(t, q, "q", "b")
	age(time.Minute)
	for i := range 5 { // poison does not hide from it, nor does what is in flight
		got := receive(t, q, "q", 2)
		if len(got) != 2 || got[0].Receives != i+1 {
			t.Fatalf("received %v", got)
		}
		c.advance(db, 30*time.Second)
	}
	age(3*time.Minute + 30*time.Second)
	c.advance(db, time.Hour)
	age(0)
}

func TestQueueMove(t *testing.T) {
	db, c := openClock(t, embed.Options{})
	q, ctx := db.Queues(), t.Context()
	create(t, q, "dlq", embed.QueueConfig{})
	create(t, q, "q", embed.QueueConfig{MaxReceives: 1, DeadLetter: "dlq", Visibility: time.Second})
	ids := map[string]bool{}
	for range 250 {
		send(t, q, "q", "x")
	}
	for len(ids) < 250 {
		for _, m := range receive(t, q, "q", 10) {
			ids[m.ID] = true
		}
	}
	c.advance(db, 2*time.Second)
	if got := receive(t, q, "q", 10); len(got) != 0 {
		t.Fatalf("received %v", got)
	}
	hidden := receive(t, q, "dlq", 1) // in flight: not moved
	if !ids[hidden[0].ID] {
		t.Fatal("the dead-letter queue gave the message another id")
	}
	n, err := q.StartMove(ctx, "dlq", "q")
	if err != nil || n != 249 {
		t.Fatalf("moved %d, %v", n, err)
	}
	for _, m := range receive(t, q, "q", 10) {
		if ids[m.ID] || m.Receives != 1 || !m.SentAt.Equal(c.Now()) || m.Body != "x" {
			t.Fatalf("moved message %+v", m)
		}
	}
	if _, err := q.StartMove(ctx, "q", "q"); err == nil {
		t.Fatal("moved a queue to itself")
	}
	if _, err := q.StartMove(ctx, "none", "q"); err == nil {
		t.Fatal("moved from no queue")
	}
}

func TestQueueDuplicates(t *testing.T) {
	db := open(t, embed.Options{QueueFaults: embed.QueueFaults{Seed: 7, Duplicates: 0.3}})
	q := db.Queues()
	create(t, q, "q", embed.QueueConfig{Visibility: time.Hour})
	const n = 100
	for range n {
		send(t, q, "q", "x")
	}
	deliveries, ids := 0, map[string]int{}
	for got := receive(t, q, "q", 10); len(got) > 0; got = receive(t, q, "q", 10) {
		for _, m := range got {
			deliveries++
			ids[m.ID]++
			if m.Receives != ids[m.ID] {
				t.Fatalf("delivery %d says %d", ids[m.ID], m.Receives)
			}
		}
	}
	if len(ids) != n || deliveries < n+15 || deliveries > n+90 {
		t.Fatalf("%d messages in %d deliveries", len(ids), deliveries)
	}
}

func TestQueueUnordered(t *testing.T) {
	order := func(share float64) (bodies string) {
		db := open(t, embed.Options{QueueFaults: embed.QueueFaults{Seed: 7, Unordered: share}})
		create(t, db.Queues(), "q", embed.QueueConfig{Visibility: time.Hour})
		for _, body := range "abcdefghijklmnopqrstuvwxyz" {
			send(t, db.Queues(), "q", string(body))
		}
		for got := receive(t, db.Queues(), "q", 5); len(got) > 0; got = receive(t, db.Queues(), "q", 5) {
			for _, m := range got {
				bodies += m.Body
			}
		}
		return bodies
	}
	straight, one, two := order(0), order(0.5), order(0.5)
	if straight != "abcdefghijklmnopqrstuvwxyz" || one == straight || one != two || len(one) != 26 {
		t.Fatalf("in order %q, unordered %q and %q", straight, one, two)
	}
}

func create(t testing.TB, q *embed.Queues, name string, cfg embed.QueueConfig) {
	t.Helper()
	if err := q.Create(t.Context(), name, cfg); err != nil {
		t.Fatal(err)
	}
}

func send(t testing.TB, q *embed.Queues, name, body string) {
	t.Helper()
	if err := q.Send(t.Context(), name, queue.Outgoing{Body: body}); err != nil {
		t.Fatal(err)
	}
}

func receive(t testing.TB, q *embed.Queues, name string, most int) []queue.Message {
	t.Helper()
	got, err := q.Receive(context.WithoutCancel(t.Context()), name, most, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// An expired message is not delivered even if it has not been removed yet.
func TestQueueExpiredBetweenSweeps(t *testing.T) {
	db, c := openClock(t, embed.Options{})
	q := db.Queues()
	create(t, q, "q", embed.QueueConfig{Retention: time.Minute, Visibility: time.Second})
	send(t, q, "q", "old")
	c.advance(db, 30*time.Second)
	send(t, q, "q", "young")
	if got := receive(t, q, "q", 10); len(got) != 2 {
		t.Fatalf("received %v", got)
	}
	c.advance(db, 31*time.Second)
	if got := receive(t, q, "q", 10); len(got) != 1 || got[0].Body != "young" {
		t.Fatalf("received %v", got)
	}
}

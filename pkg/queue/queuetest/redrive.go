package queuetest

import (
	"maps"

	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

func redriveCases() []Case {
	return []Case{
		{"redrive/after-max-receives", func(c *check) {
			dead := c.name + "-dlq"
			c.create(dead, queue.Config{})
			c.create(c.name, queue.Config{Visibility: c.unit, MaxReceives: 2, DeadLetter: dead})
			attrs := map[string]string{"traceparent": "00-abc"}
			if err := c.Queue.Send(c.ctx(), c.name, queue.Outgoing{Body: "poison", Attributes: attrs}); err != nil {
				c.Fatal(err)
			}
			var last queue.Message
			for i := range 2 {
				if last = c.one(); last.Receives != i+1 {
					c.Fatalf("receive %d says %d", i+1, last.Receives)
				}
				c.Advance(c.unit + c.unit/10)
			}
			c.none()
			c.counts(c.name, queue.Counts{})
			c.counts(dead, queue.Counts{Visible: 1})
			m := c.oneOf(dead)
			if m.Body != "poison" || !maps.Equal(m.Attributes, attrs) || !m.SentAt.Equal(last.SentAt) {
				c.Fatalf("sent %+v, dead %+v", last, m)
			}
		}},
		{"redrive/does-not-hide-others", func(c *check) {
			// Messages that move away leave room for the others in one receive.
			dead := c.name + "-dlq"
			c.create(dead, queue.Config{})
			c.create(c.name, queue.Config{Visibility: c.unit, MaxReceives: 1, DeadLetter: dead})
			for range 3 {
				c.send("poison", 0)
			}
			if got := len(c.receive(c.name, queue.MaxReceive)); got != 3 {
				c.Fatalf("received %d messages", got)
			}
			c.Advance(c.unit + c.unit/10)
			c.send("good", 0)
			got, err := c.Queue.Receive(c.ctx(), c.name, 1, queue.MaxWait, 0)
			if err != nil || len(got) != 1 || got[0].Body != "good" {
				c.Fatalf("received %v, %v", got, err)
			}
			c.counts(dead, queue.Counts{Visible: 3})
		}},
		{"redrive/wakes-readers-of-the-dead", func(c *check) {
			dead := c.name + "-dlq"
			c.create(dead, queue.Config{})
			c.create(c.name, queue.Config{Visibility: c.unit, MaxReceives: 1, DeadLetter: dead})
			c.send("x", 0)
			c.one()
			reader := *c
			reader.name = dead
			got := reader.poll(queue.MaxWait)
			c.Advance(c.unit + c.unit/10)
			c.none()
			c.arrives(got)
		}},
		{"redrive/deleted-does-not-move", func(c *check) {
			dead := c.name + "-dlq"
			c.create(dead, queue.Config{})
			c.create(c.name, queue.Config{Visibility: c.unit, MaxReceives: 1, DeadLetter: dead})
			c.send("x", 0)
			c.remove(c.one())
			c.Advance(c.unit + c.unit/10)
			c.none()
			c.counts(dead, queue.Counts{})
		}},
		{"redrive/retention-from-first-send", func(c *check) {
			dead := c.name + "-dlq"
			c.create(dead, queue.Config{Retention: 2 * queue.MinRetention})
			c.create(c.name, queue.Config{Visibility: c.unit, MaxReceives: 1, DeadLetter: dead, Retention: 2 * queue.MinRetention})
			c.send("x", 0)
			c.one()
			c.Advance(queue.MinRetention)
			c.none()
			c.counts(dead, queue.Counts{Visible: 1})
			c.Advance(queue.MinRetention + c.unit/10)
			c.counts(dead, queue.Counts{})
		}},
		{"redrive/no-dead-letter-queue", func(c *check) {
			c.is("a dead-letter queue that is not there",
				c.Queue.Create(c.ctx(), c.name, queue.Config{MaxReceives: 1, DeadLetter: c.name + "-none"}), queue.ErrNoQueue)
			c.create(c.name, queue.Config{Visibility: c.unit})
			c.send("x", 0)
			for i := range 12 {
				if m := c.one(); m.Receives != i+1 {
					c.Fatalf("receive %d says %d", i+1, m.Receives)
				}
				c.Advance(c.unit + c.unit/10)
			}
		}},
	}
}

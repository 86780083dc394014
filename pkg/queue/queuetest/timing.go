package queuetest

import (
	"context"
	"errors"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

func timeCases() []Case {
	return []Case{
		{"visibility-ends", func(c *check) {
			c.create(c.name, queue.Config{Visibility: 2 * c.unit})
			c.send("x", 0)
			first := c.one()
			c.Advance(c.unit)
			c.none()
			c.Advance(c.unit + c.unit/10)
			second := c.one()
			if second.ID != first.ID || second.Receives != 2 || second.ReceiptHandle == first.ReceiptHandle ||
				!second.SentAt.Equal(first.SentAt) || !second.FirstReceived.Equal(first.FirstReceived) {
				c.Fatalf("first %+v, second %+v", first, second)
			}
		}},
		{"visibility-of-receive", func(c *check) {
			c.create(c.name, queue.Config{Visibility: 50 * c.unit})
			c.send("x", 0)
			if got, err := c.Queue.Receive(c.ctx(), c.name, 1, 0, c.unit); err != nil || len(got) != 1 {
				c.Fatalf("received %v, %v", got, err)
			}
			c.none()
			c.Advance(c.unit + c.unit/10)
			c.one()
		}},
		{"stale-handle", func(c *check) {
			// A delete with it succeeds and deletes nothing; hiding with it fails.
			c.create(c.name, queue.Config{Visibility: c.unit})
			c.send("x", 0)
			first := c.one()
			c.Advance(c.unit + c.unit/10)
			second := c.one()
			c.remove(first)
			c.counts(c.name, queue.Counts{InFlight: 1})
			if err := c.Queue.ChangeVisibility(c.ctx(), c.name, first.ReceiptHandle, 0); err == nil {
				c.counts(c.name, queue.Counts{InFlight: 1})
			}
			c.remove(second)
			c.counts(c.name, queue.Counts{})
		}},
		{"late-delete", func(c *check) {
			// The last handle deletes even after its visibility timeout.
			c.create(c.name, queue.Config{Visibility: c.unit})
			c.send("x", 0)
			m := c.one()
			c.Advance(c.unit + c.unit/10)
			c.remove(m)
			c.none()
			c.counts(c.name, queue.Counts{})
		}},
		{"extend", func(c *check) {
			c.create(c.name, queue.Config{Visibility: 2 * c.unit})
			c.send("x", 0)
			m := c.one()
			c.Advance(c.unit)
			if err := c.Queue.ChangeVisibility(c.ctx(), c.name, m.ReceiptHandle, 3*c.unit); err != nil {
				c.Fatal(err)
			}
			c.Advance(2 * c.unit)
			c.none()
			c.Advance(c.unit + c.unit/10)
			c.one()
		}},
		{"give-back", func(c *check) {
			c.create(c.name, queue.Config{})
			c.send("x", 0)
			m := c.one()
			if err := c.Queue.ChangeVisibility(c.ctx(), c.name, m.ReceiptHandle, 0); err != nil {
				c.Fatal(err)
			}
			if again := c.one(); again.Receives != 2 {
				c.Fatalf("receives %d", again.Receives)
			}
		}},
		{"not-in-flight", func(c *check) {
			c.create(c.name, queue.Config{Visibility: c.unit})
			c.send("x", 0)
			m := c.one()
			c.Advance(c.unit + c.unit/10)
			c.is("visible again", c.Queue.ChangeVisibility(c.ctx(), c.name, m.ReceiptHandle, c.unit), queue.ErrNotInFlight)
			m = c.one()
			c.remove(m)
			c.is("deleted", c.Queue.ChangeVisibility(c.ctx(), c.name, m.ReceiptHandle, c.unit), queue.ErrNotInFlight)
		}},
		{"delay", func(c *check) {
			c.create(c.name, queue.Config{})
			c.send("x", 2*c.unit)
			c.none()
			c.counts(c.name, queue.Counts{Delayed: 1})
			c.Advance(c.unit)
			c.none()
			c.Advance(c.unit + c.unit/10)
			c.counts(c.name, queue.Counts{Visible: 1})
			if m := c.one(); m.Receives != 1 {
				c.Fatalf("receives %d", m.Receives)
			}
			c.counts(c.name, queue.Counts{InFlight: 1})
		}},
		{"delay-of-queue", func(c *check) {
			c.create(c.name, queue.Config{Delay: c.unit})
			c.send("x", 0)
			c.none()
			c.Advance(c.unit + c.unit/10)
			c.one()
		}},
		{"retention", func(c *check) {
			c.create(c.name, queue.Config{Retention: queue.MinRetention})
			c.send("old", 0)
			c.Advance(queue.MinRetention / 2)
			c.send("young", 0)
			c.Advance(queue.MinRetention/2 + c.unit/10)
			c.counts(c.name, queue.Counts{Visible: 1})
			if m := c.one(); m.Body != "young" {
				c.Fatalf("received %q", m.Body)
			}
			c.Advance(queue.MinRetention)
			c.counts(c.name, queue.Counts{})
			c.none()
		}},
		{"long-poll/send", func(c *check) {
			c.create(c.name, queue.Config{})
			got := c.poll(queue.MaxWait)
			c.send("x", 0)
			c.arrives(got)
		}},
		{"long-poll/delay-ends", func(c *check) {
			c.create(c.name, queue.Config{})
			c.send("x", c.unit)
			got := c.poll(queue.MaxWait)
			c.Advance(c.unit + c.unit/10)
			c.arrives(got)
		}},
		{"long-poll/visibility-ends", func(c *check) {
			c.create(c.name, queue.Config{Visibility: c.unit})
			c.send("x", 0)
			c.one()
			got := c.poll(queue.MaxWait)
			c.Advance(c.unit + c.unit/10)
			c.arrives(got)
		}},
		{"long-poll/given-back", func(c *check) {
			c.create(c.name, queue.Config{})
			c.send("x", 0)
			m := c.one()
			got := c.poll(queue.MaxWait)
			if err := c.Queue.ChangeVisibility(c.ctx(), c.name, m.ReceiptHandle, 0); err != nil {
				c.Fatal(err)
			}
			c.arrives(got)
		}},
		{"long-poll/nothing", func(c *check) {
			c.create(c.name, queue.Config{})
			got := c.poll(c.unit)
			// Moved on until the poll notices: it may have begun after a move.
			for {
				c.Advance(c.unit + c.unit/10)
				select {
				case r := <-got:
					if r.err != nil || len(r.messages) != 0 {
						c.Fatalf("received %v, %v", r.messages, r.err)
					}
					return
				default:
				}
			}
		}},
		{"long-poll/cancelled", func(c *check) {
			c.create(c.name, queue.Config{})
			ctx, cancel := context.WithCancel(c.ctx())
			got := c.pollWith(ctx, queue.MaxWait)
			cancel()
			if r := <-got; !errors.Is(r.err, context.Canceled) {
				c.Fatalf("received %v, %v", r.messages, r.err)
			}
			// And it takes no message with it.
			c.send("x", 0)
			c.one()
		}},
		{"long-poll/one-message-one-reader", func(c *check) {
			c.create(c.name, queue.Config{})
			all := []<-chan polled{c.poll(queue.MaxWait), c.poll(queue.MaxWait), c.poll(queue.MaxWait)}
			for left := len(all); left > 0; left-- {
				c.send("x", 0)
				select {
				case r := <-all[0]:
					c.holdsOne(r)
					all[0] = nil
				case r := <-all[1]:
					c.holdsOne(r)
					all[1] = nil
				case r := <-all[2]:
					c.holdsOne(r)
					all[2] = nil
				}
			}
		}},
	}
}

type polled struct {
	messages []queue.Message
	err      error
}

func (c *check) poll(wait time.Duration) <-chan polled { return c.pollWith(c.ctx(), wait) }

func (c *check) pollWith(ctx context.Context, wait time.Duration) <-chan polled {
	out := make(chan polled, 1)
	go func() {
		messages, err := c.Queue.Receive(ctx, c.name, 1, wait, 0)
		out <- polled{messages, err}
	}()
	return out
}

func (c *check) arrives(got <-chan polled) {
	c.Helper()
	c.holdsOne(<-got)
}

func (c *check) holdsOne(r polled) {
	c.Helper()
	if r.err != nil || len(r.messages) != 1 || r.messages[0].Body != "x" {
		c.Fatalf("received %v, %v", r.messages, r.err)
	}
}

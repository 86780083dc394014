package queuetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

func deliveryCases() []Case {
	return []Case{
		{"message", func(c *check) {
			c.create(c.name, queue.Config{})
			before := c.Now()
			attrs := map[string]string{"traceparent": "00-abc", "Ünïcode": "✓"}
			body := "{\"v\":1}\n\t✓ \U0001F680 \"'<>&"
			if err := c.Queue.Send(c.ctx(), c.name, queue.Outgoing{Body: body, Attributes: attrs}); err != nil {
				c.Fatal(err)
			}
			m := c.one()
			if m.Body != body || !maps.Equal(m.Attributes, attrs) || m.ID == "" || m.ReceiptHandle == "" || m.Receives != 1 {
				c.Fatalf("received %+v", m)
			}
			for _, at := range []time.Time{m.SentAt, m.FirstReceived} {
				if at.Before(before.Add(-time.Second)) || at.After(c.Now().Add(time.Second)) {
					c.Fatalf("sent %s, first received %s, now %s", m.SentAt, m.FirstReceived, c.Now())
				}
			}
			c.remove(m)
			c.counts(c.name, queue.Counts{})
		}},
		{"no-attributes", func(c *check) {
			c.create(c.name, queue.Config{})
			c.send("x", 0)
			if m := c.one(); len(m.Attributes) != 0 {
				c.Fatalf("attributes %v", m.Attributes)
			}
		}},
		{"largest-body", func(c *check) {
			c.create(c.name, queue.Config{})
			body := strings.Repeat("x", 256<<10)
			c.send(body, 0)
			if m := c.one(); m.Body != body {
				c.Fatalf("a body of %d bytes", len(m.Body))
			}
		}},
		{"empty", func(c *check) {
			c.create(c.name, queue.Config{})
			c.none()
			c.counts(c.name, queue.Counts{})
		}},
		{"all-delivered-once-while-hidden", func(c *check) {
			c.create(c.name, queue.Config{Visibility: 3 * c.unit})
			const n = 25
			for i := range n {
				c.send(fmt.Sprint(i), 0)
			}
			c.counts(c.name, queue.Counts{Visible: n})
			bodies, ids := map[string]bool{}, map[string]bool{}
			for len(bodies) < n {
				got := c.receive(c.name, queue.MaxReceive)
				if len(got) == 0 || len(got) > queue.MaxReceive {
					c.Fatalf("received %d messages after %d of %d", len(got), len(bodies), n)
				}
				for _, m := range got {
					if bodies[m.Body] || ids[m.ID] {
						c.Fatalf("%s came twice", m.Body)
					}
					bodies[m.Body], ids[m.ID] = true, true
				}
			}
			c.none()
			c.counts(c.name, queue.Counts{InFlight: n})
		}},
		{"receive-at-most", func(c *check) {
			c.create(c.name, queue.Config{})
			for i := range 5 {
				c.send(fmt.Sprint(i), 0)
			}
			if got := c.receive(c.name, 2); len(got) > 2 || len(got) == 0 {
				c.Fatalf("received %d messages, want at most 2", len(got))
			}
		}},
		{"queues-are-apart", func(c *check) {
			other := c.name + "x"
			c.create(c.name, queue.Config{})
			c.create(other, queue.Config{})
			c.send("here", 0)
			if got := c.receive(other, 1); len(got) != 0 {
				c.Fatalf("received %v from another queue", got)
			}
			m := c.one()
			c.is("a foreign handle", c.Queue.Delete(c.ctx(), other, m.ReceiptHandle), queue.ErrBadHandle)
			c.counts(c.name, queue.Counts{InFlight: 1})
		}},
		{"delete-twice", func(c *check) {
			c.create(c.name, queue.Config{})
			c.send("x", 0)
			m := c.one()
			c.remove(m)
			c.remove(m)
		}},
		{"create-again", func(c *check) {
			c.create(c.name, queue.Config{Visibility: 2 * c.unit})
			c.send("x", 0)
			c.create(c.name, queue.Config{Visibility: c.unit})
			c.one()
			c.Advance(c.unit + c.unit/10)
			c.one()
		}},
		{"purge", func(c *check) {
			c.create(c.name, queue.Config{})
			c.send("x", 0)
			c.one()
			c.send("y", 0)
			c.send("z", 10*time.Second)
			if err := c.Queue.Purge(c.ctx(), c.name); err != nil {
				c.Fatal(err)
			}
			c.counts(c.name, queue.Counts{})
			c.none()
		}},
		{"no-queue", func(c *check) {
			_, err := c.Queue.Receive(c.ctx(), c.name, 1, 0, 0)
			c.is("receive", err, queue.ErrNoQueue)
			c.is("send", c.Queue.Send(c.ctx(), c.name, queue.Outgoing{Body: "x"}), queue.ErrNoQueue)
			_, err = c.Queue.Counts(c.ctx(), c.name)
			c.is("counts", err, queue.ErrNoQueue)
		}},
		{"invalid", func(c *check) {
			c.create(c.name, queue.Config{})
			many := map[string]string{}
			for i := range queue.MaxAttributes + 1 {
				many[fmt.Sprint("a", i)] = "v"
			}
			for what, m := range map[string]queue.Outgoing{
				"empty body":      {},
				"too large":       {Body: strings.Repeat("x", queue.MaxMessageBytes+1)},
				"delay":           {Body: "x", Delay: queue.MaxDelay + time.Second},
				"negative delay":  {Body: "x", Delay: -time.Second},
				"part of seconds": {Body: "x", Delay: 1500 * time.Millisecond},
				"attributes":      {Body: "x", Attributes: many},
				"empty attribute": {Body: "x", Attributes: map[string]string{"a": ""}},
			} {
				c.is(what, c.Queue.Send(c.ctx(), c.name, m), queue.ErrInvalid)
			}
			for _, most := range []int{0, -1, queue.MaxReceive + 1} {
				_, err := c.Queue.Receive(c.ctx(), c.name, most, 0, 0)
				c.is(fmt.Sprint("receive ", most), err, queue.ErrInvalid)
			}
			_, err := c.Queue.Receive(c.ctx(), c.name, 1, queue.MaxWait+time.Second, 0)
			c.is("wait", err, queue.ErrInvalid)
			c.is("handle", c.Queue.Delete(c.ctx(), c.name, "garbage"), queue.ErrBadHandle)
			c.is("handle", c.Queue.ChangeVisibility(c.ctx(), c.name, "garbage", time.Second), queue.ErrBadHandle)
			c.counts(c.name, queue.Counts{})
		}},
		{"parallel", func(c *check) {
			// Senders and readers at once: everything arrives, nothing twice
			// within the visibility timeout.
			const senders, each = 4, 25
			c.create(c.name, queue.Config{Visibility: time.Hour})
			ctx, cancel := context.WithCancel(c.ctx())
			defer cancel()
			var wg sync.WaitGroup
			for s := range senders {
				wg.Go(func() {
					for i := range each {
						if err := c.Queue.Send(ctx, c.name, queue.Outgoing{Body: fmt.Sprint(s, "-", i)}); err != nil {
							c.Error(err)
						}
					}
				})
			}
			var mu sync.Mutex
			seen := map[string]int{}
			for range 3 {
				wg.Go(func() {
					for {
						got, err := c.Queue.Receive(ctx, c.name, queue.MaxReceive, queue.MaxWait, 0)
						if err != nil && !errors.Is(err, context.Canceled) {
							c.Error(err)
						}
						if err != nil {
							return
						}
						mu.Lock()
						for _, m := range got {
							seen[m.Body]++
							if err := c.Queue.Delete(c.ctx(), c.name, m.ReceiptHandle); err != nil {
								c.Error(err)
							}
						}
						done := len(seen) == senders*each
						mu.Unlock()
						if done {
							cancel()
						}
					}
				})
			}
			wg.Wait()
			for body, n := range seen {
				if n != 1 {
					c.Errorf("%s came %d times", body, n)
				}
			}
			c.counts(c.name, queue.Counts{})
		}},
	}
}

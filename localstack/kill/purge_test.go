package kill

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/stack"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

// purger is an operator who empties a queue by hand after every third message.
// The message is delayed by a second, so that no worker has it yet.
type purger struct {
	queue.Sender
	stack *stack.Stack // set once it has started

	mu    sync.Mutex
	sends int
	lost  int // messages that nobody had received
	err   error
}

func (p *purger) Send(ctx context.Context, lane string, m queue.Outgoing) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sends++
	if p.sends%3 != 0 || p.stack == nil {
		return p.Sender.Send(ctx, lane, m)
	}
	m.Delay = time.Second
	if err := p.Sender.Send(ctx, lane, m); err != nil {
		return err
	}
	queues := p.stack.DB().Queues()
	n, err := queues.Counts(ctx, lane)
	if err == nil {
		err = queues.Purge(ctx, lane)
	}
	if err != nil {
		p.err = err
	}
	p.lost += n.Visible + n.Delayed
	return nil
}

// TestAPurgedQueueIsHealed empties the lanes' queues again and again amid work.
func TestAPurgedQueueIsHealed(t *testing.T) {
	const tasks = 120
	cfg, err := policyfile.Parse("kill.yaml", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	notes, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = notes.Close() }()
	hand := &purger{}
	s, err := stack.Start(context.Background(), stack.Options{Config: cfg, DataDir: dir, Addr: "127.0.0.1:0", Mux: handlers(notes),
		Queue: func(q queue.Sender) queue.Sender { hand.Sender = q; return hand }})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil && !stopped {
			t.Error(err)
		}
		stopped = true
	}
	t.Cleanup(func() {
		if !stopped {
			stop()
		}
	})
	hand.mu.Lock()
	hand.stack = s
	hand.mu.Unlock()

	p := &process{dir: dir, url: s.URL}
	c := &client{process: p, http: http.Client{Timeout: 20 * time.Second}}
	l := &ledger{over: map[string]events.Task{}}
	for _, r := range requests(tasks) {
		r.cancel = false
		if err := c.submit(l, r); err != nil {
			t.Fatal(err)
		}
	}
	all := waitForQuiet(t, c, l)
	stop()
	if hand.err != nil {
		t.Error(hand.err)
	}
	t.Logf("%d messages sent, %d of them purged before anybody had received them", hand.sends, hand.lost)
	if hand.lost < 10 {
		t.Errorf("only %d messages were lost", hand.lost)
	}
	journal, err := p.journal()
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]events.Task{}
	for _, x := range all {
		byID[x.ID] = x
		ends(t, x, false)
	}
	if len(byID) != tasks {
		t.Errorf("%d tasks, want %d", len(byID), tasks)
	}
	for id, attempts := range read(t, journal, byID) {
		for n, a := range attempts {
			if h := byID[id].Attempts; n > len(h) || words[h[n-1].Outcome] != a.word {
				t.Errorf("%s: its handler noted %q of attempt %d, the task's history is %s", id, a.word, n, fmt.Sprint(h))
			}
		}
		if len(attempts) != byID[id].Attempt {
			t.Errorf("%s has %d attempts, %d ran", id, byID[id].Attempt, len(attempts))
		}
	}
	atRest(t, dir)
}

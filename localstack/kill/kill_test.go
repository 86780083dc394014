package kill

import (
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

const (
	submissions = 1000
	clients     = 4
	kills       = 10
	slots       = 16 + 8 + 5 // attempts that a kill can meet, of all lanes
	apart       = 85         // attempts that begin between two kills
	quietWithin = 90 * time.Second
)

// TestTenKillsAmidAThousandTasks kills the process ten times while a thousand
// tasks are submitted and worked on, and holds three accounts against one another:
// what clients were told, what handlers noted, and what the system says in the end.
func TestTenKillsAmidAThousandTasks(t *testing.T) {
	p := &process{dir: t.TempDir()}
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	c := &client{process: p, http: http.Client{Timeout: 20 * time.Second}}
	l := &ledger{over: map[string]events.Task{}}

	work := make(chan request, submissions)
	for _, r := range requests(submissions) {
		work <- r
	}
	close(work)
	var submitting sync.WaitGroup
	for range clients {
		submitting.Go(func() {
			for r := range work {
				if err := c.submit(l, r); err != nil {
					l.fault(err)
				}
			}
		})
	}
	begun := time.Now()
	for k := range kills {
		waitForAttempts(t, p, apart*(k+1)-apart*(k%2)) // every other time soon after the start
		p.kill()
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
		all, err := c.list(l)
		if err != nil {
			t.Fatal(err)
		}
		repeatSome(l, c, k)
		over := 0
		for _, x := range all {
			if x.State.Terminal() {
				over++
			}
		}
		t.Logf("%4.1f s: kill %d, %d accepted, %d over", time.Since(begun).Seconds(), k+1, l.count(), over)
	}
	submitting.Wait()
	all := waitForQuiet(t, c, l)
	t.Logf("%4.1f s: quiet, %d tasks", time.Since(begun).Seconds(), len(all))
	for _, a := range l.tasks() {
		if a.key != "" {
			if err := c.repeat(a); err != nil {
				l.fault(err)
			}
		}
	}
	journal, err := p.journal()
	if err != nil {
		t.Fatal(err)
	}
	if _, n := p.at(); n != kills {
		t.Errorf("%d kills, want %d", n, kills)
	}
	compare(t, l, all, journal)
	if drift := c.metric(t, "ledger_drift"); drift != "" {
		t.Errorf("ledgers had to be repaired %s times", drift)
	}
	p.kill()
	atRest(t, p.dir)
}

// repeatSome asks again for some of the tasks that were accepted before the last kill.
func repeatSome(l *ledger, c *client, k int) {
	for i, a := range l.tasks() {
		if a.key != "" && a.kills <= k && i%16 == k {
			if err := c.repeat(a); err != nil {
				l.fault(err)
			}
		}
	}
}

// waitForAttempts waits until so many attempts have begun.
func waitForAttempts(t *testing.T, p *process, n int) {
	t.Helper()
	for limit := time.Now().Add(quietWithin); ; time.Sleep(5 * time.Millisecond) {
		journal, err := p.journal()
		have := 0
		for _, e := range journal {
			if e.word == began {
				have++
			}
		}
		if err == nil && have >= n {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%d attempts have begun, not %d (%v)", have, n, err)
		}
	}
}

// waitForQuiet waits until no task is live and no lane counts anything.
func waitForQuiet(t *testing.T, c *client, l *ledger) []events.Task {
	t.Helper()
	said := time.Now()
	for limit := said.Add(quietWithin); ; time.Sleep(250 * time.Millisecond) {
		all, err := c.list(l)
		if err != nil {
			t.Fatal(err)
		}
		live := 0
		for _, x := range all {
			if x.State.Live() {
				live++
			}
		}
		var shown events.LaneList
		if _, _, err := c.call("alpha", "GET", "/v1/lanes", nil, nil, &shown); err != nil {
			t.Fatal(err)
		}
		busy := ""
		for _, lane := range shown.Items {
			if lane.Queued != 0 || lane.Running != 0 || lane.Waiting != 0 || lane.QueuedWork != 0 {
				busy += fmt.Sprintf(" %+v", lane)
			}
		}
		if live == 0 && busy == "" && len(shown.Items) == len(lanes) {
			return all
		}
		if time.Now().After(limit) {
			t.Fatalf("%d tasks live, lanes%s", live, busy)
		}
		if now := time.Now(); now.Sub(said) > 3*time.Second {
			t.Logf("%d live%s", live, busy)
			said = now
		}
	}
}

// atRest opens what the killed process left: every ledger and lane reads zero.
func atRest(t *testing.T, dir string) {
	t.Helper()
	db, err := embed.Open(filepath.Join(dir, "lanekeeper.db"), embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	read := func(key op.Key) op.Item {
		item, err := db.Table().Get(t.Context(), key, true)
		if err != nil {
			t.Fatal(err)
		}
		return item
	}
	for _, tenant := range tenants {
		if l := taskop.DecodeLedger(read(taskop.LedgerKey(tenant))); l.WorkMS != 0 || l.Active != 0 {
			t.Errorf("ledger of %s: %d ms, %d active", tenant, l.WorkMS, l.Active)
		}
	}
	for _, name := range lanes {
		l, err := taskop.DecodeLane(name, read(taskop.LaneKey(name)))
		if err != nil || !l.Empty() || len(l.Tasks) > 0 {
			t.Errorf("lane %s: %+v, %v", name, l, err)
		}
	}
}

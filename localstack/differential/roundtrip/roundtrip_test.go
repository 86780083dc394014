package roundtrip

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

var (
	seedFlag  = flag.Uint64("seed", 1, "decides about faults and clients")
	shareFlag = flag.Float64("share", 0.25, "of round trips that go wrong")
	stepsFlag = flag.Int("steps", 60, "per client")
)

const clients = 6

func TestMain(m *testing.M) {
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

// TestEndpointThroughABadNetwork runs the whole system against the emulator at
// DYNAMODB_ENDPOINT, with faults at every process's round trips. When they have
// ended and all is quiet, what clients were told and what handlers noted must
// agree with the table.
func TestEndpointThroughABadNetwork(t *testing.T) {
	url := os.Getenv("DYNAMODB_ENDPOINT")
	if url == "" {
		t.Skip("DYNAMODB_ENDPOINT is not set: run make differential")
	}
	fmt.Printf("roundtrip: seed %d\n", *seedFlag)
	s := newSystem(t, url, *seedFlag, *shareFlag)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	all := s.start(ctx)
	told := newTold()
	garbage := []string{"no message", `{"v":9,"tenant":"beta","task":"newer","gen":0}`}
	for i, lane := range []string{"quick", "plain"} {
		s.put(lane, garbage[i])
	}
	var at sync.WaitGroup
	for n := range clients {
		c := s.client(ctx, told, *seedFlag, n)
		at.Go(func() {
			for range *stepsFlag {
				c.step(ctx)
				s.rig.CheckLimits(t, c.who.Tenant, 2000)
			}
		})
	}
	at.Wait()
	for s.mends() {
		time.Sleep(200 * time.Millisecond)
	}
	s.net.Heal()
	began := time.Now()
	for s.busy(garbage) != "" && time.Since(began) < 3*time.Minute {
		time.Sleep(500 * time.Millisecond)
	}
	if left := s.busy(garbage); left != "" {
		t.Errorf("no rest after %v: %s", time.Since(began).Round(time.Second), left)
	}
	stop()
	all.Wait()
	s.rig.CheckQuiet(t)
	s.final(told)
	fmt.Printf("roundtrip: %d operations of %d clients, answers %v, %d processes died, %d dead letters delivered\n", told.steps, clients, told.codes, s.deaths, s.dying)
	fmt.Printf("roundtrip: %v\n", s.net)
	for _, f := range s.net.Met() {
		t.Logf("no round trip met the fault %v", f)
	}
}

// mends lets all workers start from now on, unless it waits for wake-ups to die.
func (s *system) mends() (later bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down() {
		return true
	}
	s.failing = 0
	return false
}

// put puts a body into a lane's queue, past the sender.
func (s *system) put(lane, body string) {
	if _, err := s.clean.SendMessage(s.t.Context(), &sqs.SendMessageInput{QueueUrl: aws.String(s.urls[lane]), MessageBody: aws.String(body)}); err != nil {
		s.t.Fatal(err)
	}
}

// busy says what is not at rest yet, "" if all is.
func (s *system) busy(garbage []string) string {
	for _, tenant := range s.cfg.TenantNames() {
		if l := s.rig.Ledger(s.t, tenant); l.WorkMS != 0 || l.Active != 0 {
			return fmt.Sprintf("tenant %s has work %d, active %d", tenant, l.WorkMS, l.Active)
		}
	}
	for _, lane := range s.cfg.LaneNames() {
		if l := s.rig.Lane(s.t, lane); !l.Empty() || len(l.Tasks) > 0 {
			return fmt.Sprintf("lane %s: %+v", lane, l)
		}
	}
	for _, x := range s.rig.Tasks(s.t) {
		if x.State.Live() {
			return fmt.Sprintf("task %s is %s", x.ID, x.State)
		}
	}
	if n := len(s.kept()); n < len(garbage) {
		return fmt.Sprintf("%d of %d unreadable bodies are kept", n, len(garbage))
	}
	return s.letters()
}

// letters says what lies in the dead-letter queues.
func (s *system) letters() string {
	for lane, url := range s.dead {
		out, err := s.clean.GetQueueAttributes(s.t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: aws.String(url), AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll}})
		if err != nil {
			return err.Error()
		}
		if n, m := out.Attributes["ApproximateNumberOfMessages"], out.Attributes["ApproximateNumberOfMessagesNotVisible"]; n != "0" || m != "0" {
			return fmt.Sprintf("%s and %s dead letters of %s", n, m, lane)
		}
	}
	return ""
}

// kept are the entries of the audit about unreadable bodies.
func (s *system) kept() (entries []string) {
	days := []string{taskop.AuditPartition(s.began.UnixMilli()), taskop.AuditPartition(time.Now().UnixMilli())}
	for _, day := range slices.Compact(days) { // a run may go over midnight
		q := op.Query{PK: day, Consistent: true}
		if err := q.All(context.WithoutCancel(s.t.Context()), s.rig.Raw, func(row op.Row) bool {
			if e := taskop.DecodeAudit(row.Key, row.Item); strings.HasPrefix(e.Act, "message.") {
				entries = append(entries, e.Act)
			}
			return true
		}); err != nil {
			s.t.Error(err)
		}
	}
	return entries
}

// final holds what clients were told and what handlers noted against the table.
func (s *system) final(told *told) {
	t, rows, labels := s.t, map[op.Key]*task.Task{}, map[string]int{}
	states := map[task.State]int{}
	for _, x := range s.rig.Tasks(t) {
		rows[taskop.RowKey(x.Tenant, x.ID)] = x
		labels[x.Traceparent]++
		states[x.State]++
		if a := s.journal[fmt.Sprint(x.ID, "/", x.Attempt)]; x.State == task.Succeeded && (a == nil || a.done != 1) {
			t.Errorf("task %s succeeded in attempt %d, of which handlers say %+v", x.ID, x.Attempt, a)
		}
		if x.CancelRequested && x.State != task.Cancelled && x.State != task.Succeeded {
			t.Errorf("a cancel of task %s was requested and it is %s", x.ID, x.State)
		}
	}
	for name, a := range s.journal {
		if a.begun != 1 || a.done > 1 {
			t.Errorf("attempt %s: %+v", name, *a)
		}
	}
	for key := range told.accepted {
		if x := rows[key]; x == nil {
			t.Errorf("task %s was accepted and has no row", key.SK)
		} else if x.State != task.Quarantined && !x.State.Terminal() {
			t.Errorf("task %s was accepted and is %s", key.SK, x.State)
		}
	}
	for key := range told.stopped {
		if x := rows[key]; x == nil || x.State != task.Cancelled {
			t.Errorf("task %s was cancelled and is %+v", key.SK, x)
		}
	}
	for label, n := range labels {
		if code, refused := told.refused[label]; refused {
			t.Errorf("submission %s was refused (%s) and has %d rows", label, code, n)
		}
	}
	if n := len(s.kept()); n != 2 {
		t.Errorf("the audit names %d unreadable messages of 2", n)
	}
	s.probed(told.probes)
	if states[task.Succeeded] < 10 || states[task.Failed] == 0 || states[task.Quarantined]+states[task.Cancelled] == 0 {
		t.Errorf("too little happened: %v", states)
	}
	fmt.Printf("roundtrip: tasks %v, %d attempts, %d probes\n", states, len(s.journal), len(told.probes))
}

// probed holds the bare calls against what they did.
func (s *system) probed(probes []probe) {
	read := func(k op.Key) op.Item {
		it, err := s.rig.Raw.Get(context.WithoutCancel(s.t.Context()), k, true)
		if err != nil {
			s.t.Fatal(err)
		}
		return it
	}
	for _, p := range probes {
		it := read(p.keys[0])
		n := it.Int("n")
		switch {
		case p.kind == "claim":
			if mine := it.Str("who") == p.name; mine && p.lost || !mine && p.ok {
				s.t.Errorf("claim %s was told %+v, the item is %q's", p.name, p, it.Str("who"))
			}
		case n > 1 || p.ok && n != 1:
			s.t.Errorf("probe %s of kind %s (done: %t) counted %d times", p.name, p.kind, p.ok, n)
		case p.kind == "both" && read(p.keys[1]).Int("n") != n:
			s.t.Errorf("probe %s counted on one of its items only", p.name)
		}
	}
}

// Package redrive empties the dead-letter queues: what lies there are wake-ups
// that never became a claim (a worker that fails to start, throttles, bodies
// that nobody can read).
//
// It guarantees that no live task is left without a wake-up, that one which
// cannot be delivered ends in quarantine at the third time, and that what nobody
// could read is kept once for the operator. It sends nothing itself: Lambda
// cuts SQS→Lambda→SQS chains, so a task is made due and the aggregator sends.
package redrive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/chain"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/retry"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// Deps is what the service works with.
type Deps struct {
	Config *policy.Config
	Table  op.Table
	Clock  clock.Clock
	Tally  *tally.Recorder
}

// Service empties dead-letter queues.
type Service struct{ Deps }

// New makes the service.
func New(d Deps) *Service { return &Service{d} }

// Delivery is one message of a dead-letter queue.
type Delivery struct {
	MessageID string
	Queue     string // name or ARN
	Body      string
	SentMS    int64 // when the message was first sent; moving it to a dead-letter queue does not change that
}

const (
	// quarantineAt is the dead wake-up that quarantines a task.
	quarantineAt = 3
	// maxRounds bounds how often a delivery looks again after it lost a race.
	maxRounds = 5
	// maxKept is how much of a body that nobody could read is kept, in bytes.
	maxKept = 4096
	// actor names this function in the audit.
	actor = "redrive"
)

// Batch works through messages, and returns the ids of those that must come
// again because the store failed.
func (s *Service) Batch(ctx context.Context, batch []Delivery) (failed []string) {
	for _, d := range batch {
		if err := s.one(ctx, d); err != nil {
			slog.WarnContext(ctx, "a dead letter has to come again", "queue", d.Queue, "message", d.MessageID, "error", err)
			failed = append(failed, d.MessageID)
		}
	}
	s.Tally.FlushDue(ctx, s.Clock(), s.Table)
	return failed
}

func (s *Service) one(ctx context.Context, d Delivery) error {
	m, err := events.DecodeMessage([]byte(d.Body))
	if err != nil {
		return s.park(ctx, d, err)
	}
	for range maxRounds {
		key := taskop.RowKey(m.Tenant, m.Task)
		item, err := s.Table.Get(ctx, key, true)
		if err != nil || item == nil {
			return err // a task that is gone needs no wake-up
		}
		t, err := taskop.DecodeRow(key, item)
		if err != nil {
			return err
		}
		if t.State != task.Queued || t.Gen != m.Gen {
			return nil // stale: nothing waits for it
		}
		if d.SentMS <= t.DeadMS {
			return nil // a copy from before the wake-up that was counted last
		}
		if err = s.dead(ctx, t); op.FailedCond(err) == nil {
			return err
		}
	}
	return fmt.Errorf("redrive: task %s kept changing", m.Task)
}

// dead counts a wake-up that died. A failed condition says that the task has
// moved on.
func (s *Service) dead(ctx context.Context, t *task.Task) error {
	now := s.Clock()
	if t.Dead+1 < quarantineAt {
		_, err := s.Table.Write(ctx, taskop.DeadDelivery(t, now.UnixMilli()))
		if err == nil {
			s.Tally.Count(now, t.AtLane, "dead", 1)
			slog.WarnContext(ctx, "a wake-up died; its task is sent again", "task", t.ID, "lane", t.AtLane, "times", t.Dead+1)
		}
		return err
	}
	const code = "undeliverable"
	message := fmt.Sprintf("its wake-ups ended in the dead-letter queue %d times before a worker claimed it", quarantineAt)
	e := &task.Error{Code: code, Signature: retry.Signature(code, message), Message: message, Retryable: true}
	if err := s.Table.Transact(ctx, taskop.GiveUpDelivery(t, e, now.UnixMilli())); err != nil {
		return err
	}
	s.Tally.Count(now, t.AtLane, "dead", 1)
	s.Tally.Count(now, t.AtLane, "quarantined", 1)
	slog.ErrorContext(ctx, "a task cannot be delivered and is quarantined", "task", t.ID, "lane", t.AtLane)
	if _, err := s.Table.Write(ctx, taskop.LeaveSlot(t.AtLane, taskop.OpenOf(t, 0))); err != nil && op.FailedCond(err) == nil {
		slog.WarnContext(ctx, "a lane's counts are too high until repaired", "lane", t.AtLane, "task", t.ID, "error", err)
	}
	return chain.Ended(ctx, s.Table, t)
}

// park keeps a body that nobody can act on, once.
func (s *Service) park(ctx context.Context, d Delivery, why error) error {
	now := s.Clock()
	act := "message.unreadable"
	if errors.Is(why, events.ErrVersion) {
		act = "message.version" // perhaps of a newer build: its task is sent again by its row
	}
	sum := sha256.Sum256([]byte(d.Body))
	hash := hex.EncodeToString(sum[:])
	kept := d.Body
	if len(kept) > maxKept {
		kept = kept[:maxKept]
	}
	e := taskop.AuditEntry{AtMS: now.UnixMilli(), Who: actor, Act: act, On: d.Queue,
		Detail: fmt.Sprintf("%v; %d bytes, kept as %s", why, len(d.Body), hash)}
	err := s.Table.Transact(ctx, taskop.ParkBody(strings.ToValidUTF8(kept, "�"), hash, e))
	if op.FailedCond(err) != nil {
		return nil // kept before
	}
	if err == nil {
		s.Tally.Count(now, s.laneOf(d.Queue), "dead.unreadable", 1)
		slog.ErrorContext(ctx, "a message that nobody can read was kept for the operator", "queue", d.Queue, "message", d.MessageID, "reason", why, "kept", hash)
	}
	return err
}

// laneOf is the lane that a dead-letter queue's name ends with, before its "-dlq".
func (s *Service) laneOf(queue string) string {
	name := strings.TrimSuffix(queue[strings.LastIndexByte(queue, ':')+1:], "-dlq")
	best := ""
	for _, lane := range s.Config.LaneNames() {
		if (name == lane || strings.HasSuffix(name, "-"+lane)) && len(lane) > len(best) {
			best = lane
		}
	}
	if best == "" {
		return "other"
	}
	return best
}

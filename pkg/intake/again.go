package intake

import (
	"context"
	"errors"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/admission"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// Retry takes a task of the caller's own up again, through admission. A
// quarantined one goes on under its id, with attempts afresh and the length of
// its deadline counted from now. A failed one is over for good: its class,
// payload and deadline length are submitted as a new task, once; retrying it
// again gives that same task. changed is false when there was nothing to do: it
// is live, or was retried before. The error is a *Refusal.
func (s *Service) Retry(ctx context.Context, who Principal, id string) (t *task.Task, changed bool, err error) {
	if who.Operator {
		return nil, false, errForbidden
	}
	if !ValidID(id) {
		return nil, false, errNotFound
	}
	t, err = s.read(ctx, who.Tenant, id)
	switch {
	case err != nil:
		return nil, false, Unavailable(ctx, "reading a task to retry", err)
	case t == nil:
		return nil, false, errNotFound
	case t.State.Live():
		return t, false, nil
	case t.State == task.Quarantined:
		return s.readmitted(s.Readmit(ctx, who, t))
	case t.State == task.Failed && t.ExpiresMS != 0 && t.ExpiresMS <= s.Clock().UnixMilli():
		// Its time is over: the retry that remembers that it was retried may be gone already.
		return nil, false, errNotFound
	case t.State == task.Failed:
		return s.readmitted(s.resubmit(ctx, who, t))
	}
	return nil, false, refuse(events.AlreadyFinished, "the task is already over: "+string(t.State))
}

func (s *Service) readmitted(out Accepted, err error) (*task.Task, bool, error) {
	if err != nil {
		return nil, false, err
	}
	if out.Task.State.Terminal() { // cancelled meanwhile, or the retry of before has ended
		return out.Task, false, nil
	}
	return out.Task, !out.Replayed, nil
}

// Readmit admits a quarantined task, as it was read, again under its id.
// Replayed says that somebody else took it out of quarantine first. The error
// is a *Refusal.
func (s *Service) Readmit(ctx context.Context, who Principal, t *task.Task) (Accepted, error) {
	p, refusal := s.prepareAgain(who, t)
	if refusal != nil {
		return Accepted{}, refusal
	}
	return s.admitAgain(ctx, &attempt{Service: s, p: p, nonce: s.NewID(), again: t})
}

// ErrReplayOver says that a replay was stopped, or is carried on by somebody else.
var ErrReplayOver = errors.New("intake: the replay is over, or another's")

// ReadmitFor is Readmit for a replay on behalf of the task's tenant, under its
// contract as it is now. take counts the task on the replay, in the same
// transaction. The error is a *Refusal or [ErrReplayOver].
func (s *Service) ReadmitFor(ctx context.Context, t *task.Task, replay string, take op.Write) (Accepted, error) {
	tier, err := s.tierOf(ctx, t.Tenant)
	if err != nil {
		return Accepted{}, Unavailable(ctx, "reading a contract", err)
	}
	p, refusal := s.prepareAgain(Principal{Tenant: t.Tenant, Tier: tier}, t)
	if refusal != nil {
		return Accepted{}, refusal
	}
	return s.admitAgain(ctx, &attempt{Service: s, p: p, nonce: s.NewID(), again: t, replay: replay, take: &take})
}

// retryKey stands where an idempotency key would: what a client sends cannot
// contain a NUL.
const retryKey = "\x00retry\x00"

func (s *Service) resubmit(ctx context.Context, who Principal, t *task.Task) (Accepted, error) {
	if t.PayloadBeside {
		item, err := s.Table.Get(ctx, taskop.PayloadKey(t.Tenant, t.ID), true)
		if err != nil {
			return Accepted{}, Unavailable(ctx, "reading a payload", err)
		}
		if item == nil { // its time is over, before its row's
			return Accepted{}, errNotFound
		}
		t.Payload = taskop.Body(item)
	}
	p, refusal := s.prepareAgain(who, t)
	if refusal != nil {
		return Accepted{}, refusal
	}
	p.IdempotencyKey = retryKey + t.ID
	p.id = keyedID(who.Tenant, p.IdempotencyKey)
	return s.admitAgain(ctx, &attempt{Service: s, p: p, nonce: s.NewID()})
}

func (s *Service) admitAgain(ctx context.Context, a *attempt) (Accepted, error) {
	now := s.Clock()
	out, err := a.run(ctx, now)
	if err == nil {
		if !out.Replayed {
			s.Tally.Decision(now, string(admission.Accept), a.p.Class, a.p.who.Tier)
		}
		return out, nil
	}
	if errors.Is(err, ErrReplayOver) {
		return Accepted{}, err
	}
	r := Unavailable(ctx, "admitting a task again", err)
	s.Tally.Decision(now, string(r.Code), a.p.Class, a.p.who.Tier)
	return Accepted{}, r
}

// prepareAgain is prepare for a task that was accepted before: its request was
// judged then, its class, bucket and contract are those of now.
func (s *Service) prepareAgain(who Principal, t *task.Task) (*prepared, *Refusal) {
	tier, ok := s.Config.Tier(who.Tier)
	if !ok {
		return nil, noContract(who)
	}
	class, ok := s.Config.Class(t.Class)
	if !ok {
		return nil, refuse(events.UnknownClass, "there is no task class of that name any more")
	}
	p := &prepared{who: who, tier: tier, class: class, receivedMS: s.Clock().UnixMilli(), priorityName: t.Priority, bucket: s.bucketNow(t), id: t.ID,
		deadlineMS: t.DeadlineMS - t.Since(),
		Submission: Submission{Class: t.Class, Payload: t.Payload, Priority: t.Priority, OrderingKey: t.OrderingKey, Traceparent: t.Traceparent, RequestHash: t.RequestHash}}
	p.priority, _ = s.Config.Priority(t.Priority)
	p.lane = s.placed(s.book(), p)
	return p, nil
}

// bucketNow is a task's bucket, or its class's first where the configuration does not know that
// one any more; "" when it does not know the class.
func (s *Service) bucketNow(t *task.Task) string {
	buckets := s.Config.Buckets(t.Class)
	for _, b := range buckets {
		if b.Name == t.Bucket {
			return b.Name
		}
	}
	if len(buckets) == 0 {
		return ""
	}
	return buckets[0].Name
}

// tx is what accepts the row. Where there is an ordering key, two further writes are
// the task's entering its chain; a replay's count comes last.
func (a *attempt) tx(t *task.Task, use taskop.LedgerUse) op.Tx {
	var tx op.Tx
	if a.again == nil {
		tx = taskop.Accept(t, use, a.Config.Tasks.Retention.MS())
	} else {
		tx = taskop.Readmit(a.again, t, use)
	}
	if t.OrderingKey != "" {
		tx.Writes = append(tx.Writes, taskop.Join(t, a.p.chain)...)
	}
	if a.take != nil {
		tx.Writes = append(tx.Writes, *a.take)
	}
	return tx
}

// lost says that a write beside the row and the ledger was refused: the chain's, or the
// replay's.
func (a *attempt) lost(ce *op.CondError, writes int) error {
	if a.take != nil {
		writes--
		if _, over := ce.On(writes); over {
			return ErrReplayOver
		}
	}
	if _, moved := ce.On(writes - 2); moved && a.p.OrderingKey != "" {
		return errChainMoved
	}
	return nil
}

// readmitted is the quarantined task with what this admission decided.
func (a *attempt) readmitted(decided *task.Task) *task.Task {
	t := taskop.Readmitted(a.again)
	t.State, t.Bucket, t.Lane, t.AtLane, t.AmountMS, t.Nonce = decided.State, decided.Bucket, decided.Lane, decided.AtLane, decided.AmountMS, decided.Nonce
	t.Low, t.Parked, t.Held, t.Seq = decided.Low, decided.Parked, decided.Held, decided.Seq
	if a.replay != "" {
		t.ReplayID = a.replay
	}
	t.Tag, t.ShiftMS, t.TagCost = decided.Tag, decided.ShiftMS, decided.TagCost
	t.AdmittedMS, t.DeadlineMS, t.StartByMS, t.DueMS, t.Prediction = decided.SubmittedMS, decided.DeadlineMS, decided.StartByMS, decided.DueMS, decided.Prediction
	return t
}

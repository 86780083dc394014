package operate

import (
	"context"
	"strings"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// CreateKey makes a key of a tenant. Its text is in the answer and nowhere else.
// The error is a *Refusal.
func (s *Service) CreateKey(ctx context.Context, who intake.Principal, tenant string) (events.NewKey, error) {
	secret := "lk_" + strings.ReplaceAll(s.NewID()+s.NewID(), "-", "") // two ids of version 7: 62 bits of chance each, the rest is time
	id := taskop.KeyIDOf(taskop.HashOf(secret))
	now := s.Clock().UnixMilli()
	audit := s.audit(who, "key.create", tenant, map[string]string{"key": id})
	err := s.Table.Transact(ctx, taskop.AddKey(tenant, secret, now, &audit))
	if ce := op.FailedCond(err); ce != nil {
		if _, missing := ce.On(2); missing {
			return events.NewKey{}, notFound("tenant")
		}
	}
	if err != nil {
		return events.NewKey{}, intake.Unavailable(ctx, "making a key", err)
	}
	return events.NewKey{ID: id, Key: secret, CreatedAt: events.Time(now)}, nil
}

// DeleteKey withdraws a key: at once for this instance, within the 60 s that
// others keep what they looked up. The error is a *Refusal.
func (s *Service) DeleteKey(ctx context.Context, who intake.Principal, tenant, id string) error {
	item, err := s.Table.Get(ctx, taskop.KeyEntryKey(tenant, id), true)
	if err != nil {
		return intake.Unavailable(ctx, "reading a key", err)
	}
	if item == nil {
		return notFound("key")
	}
	entry := taskop.DecodeKeyEntry(taskop.KeyEntryKey(tenant, id), item)
	audit := s.audit(who, "key.delete", tenant, map[string]string{"key": id})
	err = s.Table.Transact(ctx, taskop.RemoveKey(tenant, id, entry.Hash, s.Clock().UnixMilli(), audit))
	switch {
	case op.FailedCond(err) != nil:
		return notFound("key") // somebody was faster
	case err != nil:
		return intake.Unavailable(ctx, "withdrawing a key", err)
	}
	s.admission.ForgetCredentials()
	return nil
}

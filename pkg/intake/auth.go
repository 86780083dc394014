package intake

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// Principal is who calls: a tenant with its tier, or an operator.
type Principal struct {
	Tenant, Tier string
	Operator     bool
	KeyID        string // of the key that was shown; public
}

const (
	credentialTTL = 60 * time.Second
	// unknownTTL keeps a flood of unknown keys from becoming a flood of reads,
	// and is short so that a new key works at once for all practical purposes.
	unknownTTL = 2 * time.Second
	// maxCredential bounds what is hashed and looked up, in bytes.
	maxCredential = 256
)

// Authenticate finds out whom a bearer key stands for. Keys are looked up by
// their SHA-256, so the time taken says nothing about stored keys; answers are
// cached for 60 s. The error is a *Refusal.
func (s *Service) Authenticate(ctx context.Context, bearer string) (Principal, error) {
	unknown := refuse(events.Unauthenticated, "the Authorization header must be Bearer and a known key")
	if bearer == "" || len(bearer) > maxCredential {
		return Principal{}, unknown
	}
	hash := taskop.HashOf(bearer)
	now := s.Clock()
	if p, ok := s.creds.get(hash, now); ok {
		if p == (Principal{}) {
			return p, unknown
		}
		return p, nil
	}
	p, err := s.lookup(ctx, bearer)
	if err != nil {
		return Principal{}, Unavailable(ctx, "reading a credential", err)
	}
	if p == (Principal{}) {
		s.creds.put(hash, p, now.Add(unknownTTL), now)
		return p, unknown
	}
	s.creds.put(hash, p, now.Add(credentialTTL), now)
	return p, nil
}

// Claimed finds out whom the claims of a token stand for that somebody else has
// verified: a tenant, never an operator. An empty tier means the tenant's stored
// contract says it, of which the answer is cached as for keys. The error is a *Refusal.
func (s *Service) Claimed(ctx context.Context, tenant, tier string) (Principal, error) {
	unknown := refuse(events.Unauthenticated, "the token names no tenant with a known tier")
	if !ValidName(tenant) {
		return Principal{}, unknown
	}
	if tier != "" {
		if _, known := s.Config.Tier(tier); !known {
			return Principal{}, unknown
		}
		return Principal{Tenant: tenant, Tier: tier}, nil
	}
	now, entry := s.Clock(), "claimed "+tenant // no hash has a space
	p, ok := s.creds.get(entry, now)
	if !ok {
		tier, err := s.tierOf(ctx, tenant)
		if err != nil {
			return Principal{}, Unavailable(ctx, "reading a contract", err)
		}
		ttl := unknownTTL
		if tier != "" {
			p, ttl = Principal{Tenant: tenant, Tier: tier}, credentialTTL
		}
		s.creds.put(entry, p, now.Add(ttl), now)
	}
	if p == (Principal{}) {
		return p, unknown
	}
	return p, nil
}

func (s *Service) lookup(ctx context.Context, bearer string) (Principal, error) {
	item, err := s.Table.Get(ctx, taskop.CredentialKey(bearer), false)
	if err != nil {
		return Principal{}, err
	}
	cred, ok := taskop.DecodeCredential(item)
	if !ok {
		return Principal{}, nil
	}
	keyID := taskop.KeyIDOf(taskop.HashOf(bearer))
	if cred.Operator {
		return Principal{Operator: true, KeyID: keyID}, nil
	}
	tier, err := s.tierOf(ctx, cred.Tenant)
	if err != nil || tier == "" {
		return Principal{}, err // no contract: no access
	}
	return Principal{Tenant: cred.Tenant, Tier: tier, KeyID: keyID}, nil
}

// tierOf is a tenant's tier, "" when it has no contract. A tier that was removed from
// the configuration is said here and refused where it is needed, see noContract: the
// tenant's tasks are still its own.
func (s *Service) tierOf(ctx context.Context, tenant string) (string, error) {
	item, err := s.Table.Get(ctx, taskop.TenantKey(tenant), false)
	if err != nil {
		return "", err
	}
	tier := taskop.DecodeTenant(item)
	if _, known := s.Config.Tier(tier); !known && tier != "" {
		slog.WarnContext(ctx, "a tenant's tier is not in the configuration: it can submit nothing; give it another with PUT /v1/admin/tenants/"+tenant,
			"tenant", tenant, "tier", tier)
	}
	return tier, nil
}

// noContract is what a tenant is told whose tier was removed from the configuration:
// its credentials are right, and waiting does not help.
func noContract(who Principal) *Refusal {
	return refuse(events.Forbidden, fmt.Sprintf("the tenant's tier %q is not in the configuration any more; its operator has to give it another", who.Tier))
}

// ForgetCredentials makes this instance look at every credential again, after
// an operator changed one. Other instances do so within credentialTTL.
func (s *Service) ForgetCredentials() { s.creds.clear() }

type cached[V any] struct {
	v     V
	until time.Time
}

// cache is a small map with an expiry. When it is full of live entries it
// starts afresh: a flood costs reads, never memory.
type cache[K comparable, V any] struct {
	mu  sync.Mutex
	max int
	m   map[K]cached[V]
}

func (c *cache[K, V]) get(k K, now time.Time) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.m[k]
	if !ok || !now.Before(e.until) {
		var none V
		return none, false
	}
	return e.v, true
}

func (c *cache[K, V]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.m)
}

func (c *cache[K, V]) put(k K, v V, until, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.m) >= c.max {
		for key, e := range c.m {
			if !now.Before(e.until) {
				delete(c.m, key)
			}
		}
		if len(c.m) >= c.max {
			clear(c.m)
		}
	}
	c.m[k] = cached[V]{v, until}
}

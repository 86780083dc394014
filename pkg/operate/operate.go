package operate

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// Service carries out operators' calls. The caller has checked that they come
// from an operator.
type Service struct {
	intake.Deps
	admission *intake.Service
}

// New makes the service beside an admission, whose store and configuration it
// shares.
func New(admission *intake.Service) *Service {
	return &Service{Deps: admission.Deps, admission: admission}
}

// maxRounds bounds how often an act looks again after it lost a race.
const maxRounds = 5

func notFound(what string) *intake.Refusal {
	return &intake.Refusal{Code: events.NotFound, Detail: "there is no such " + what}
}

// audit is the entry of an act that happens now.
func (s *Service) audit(who intake.Principal, act, on string, detail any) op.Write {
	e := taskop.AuditEntry{AtMS: s.Clock().UnixMilli(), Who: who.KeyID, Act: act, On: on}
	if detail != nil {
		b, err := json.Marshal(detail)
		if err != nil {
			panic("operate: " + err.Error()) // plain values
		}
		e.Detail = string(b)
	}
	return taskop.Audit(e, s.NewID())
}

// Placements says where the classes run that may move. The error is a *Refusal.
func (s *Service) Placements(ctx context.Context) (events.PlacementList, error) {
	return s.admission.Placements(ctx)
}

// PauseLane stops a lane's admission, release and hand-over, or lets them go on.
// Attempts that run finish either way, and so does what was released before.
// Nothing changes when the lane is so already. The error is a *Refusal.
func (s *Service) PauseLane(ctx context.Context, who intake.Principal, name string, paused bool) (events.Lane, error) {
	if _, ok := s.Config.Lane(name); !ok {
		return events.Lane{}, notFound("lane")
	}
	fail := func(err error) (events.Lane, error) {
		return events.Lane{}, intake.Unavailable(ctx, "pausing a lane", err)
	}
	act := map[bool]string{true: "lane.pause", false: "lane.resume"}[paused]
	noted := false
	for round := 0; ; round++ {
		item, err := s.Table.Get(ctx, taskop.LaneKey(name), true)
		if err != nil {
			return fail(err)
		}
		lane, err := taskop.DecodeLane(name, item)
		if err != nil {
			return fail(err)
		}
		if !lane.Exists {
			if _, err := s.Table.Write(ctx, taskop.CreateLane(name, int64(s.Config.Slots(name)))); err != nil && op.FailedCond(err) == nil {
				return fail(err)
			}
			continue
		}
		if lane.Paused == paused {
			s.admission.ForgetLane(name)
			return s.admission.Lane(ctx, &lane)
		}
		if !noted { // a lane's item is in no transaction, so the act is noted before it
			if _, err := s.Table.Write(ctx, s.audit(who, act, name, nil)); err != nil {
				return fail(err)
			}
			noted = true
		}
		if _, err := s.Table.Write(ctx, taskop.PauseLane(&lane, paused)); err != nil && (op.FailedCond(err) == nil || round >= maxRounds) {
			return fail(err)
		}
	}
}

// Tenant reports a tenant. The error is a *Refusal.
func (s *Service) Tenant(ctx context.Context, id string) (events.Tenant, error) {
	item, err := s.Table.Get(ctx, taskop.TenantKey(id), true)
	if err != nil {
		return events.Tenant{}, intake.Unavailable(ctx, "reading a tenant", err)
	}
	if item == nil {
		return events.Tenant{}, notFound("tenant")
	}
	t := events.Tenant{ID: id, Tier: taskop.DecodeTenant(item)}
	err = taskop.KeyEntries(id).All(ctx, s.Table, func(row op.Row) bool {
		e := taskop.DecodeKeyEntry(row.Key, row.Item)
		t.Keys = append(t.Keys, events.KeyInfo{ID: e.ID, CreatedAt: events.Time(e.CreatedMS)})
		return true
	})
	if err != nil {
		return events.Tenant{}, intake.Unavailable(ctx, "reading a tenant's keys", err)
	}
	return t, nil
}

// PutTenant creates a tenant or changes its tier, of which running admissions
// learn within a minute. The error is a *Refusal.
func (s *Service) PutTenant(ctx context.Context, who intake.Principal, id, tier string) (t events.Tenant, created bool, err error) {
	if !intake.ValidName(id) {
		return t, false, intake.Invalid([]events.FieldError{{Pointer: "", Detail: "the tenant in the path must be 1 to 32 of a-z, 0-9 and -, a letter first"}})
	}
	if _, known := s.Config.Tier(tier); !known {
		return t, false, intake.Invalid([]events.FieldError{{Pointer: "/tier", Detail: "is not a tier of the configuration"}})
	}
	for range maxRounds {
		item, err := s.Table.Get(ctx, taskop.TenantKey(id), true)
		if err != nil {
			return t, false, intake.Unavailable(ctx, "reading a tenant", err)
		}
		old := taskop.DecodeTenant(item)
		if old == tier {
			t, err = s.Tenant(ctx, id)
			return t, false, err
		}
		w, act := taskop.SetTier(id, old, tier), "tenant.tier"
		if item == nil {
			w, act = taskop.PutTenant(id, tier), "tenant.create"
		}
		err = s.Table.Transact(ctx, op.Tx{Name: act, Writes: []op.Write{w, s.audit(who, act, id, map[string]string{"from": old, "to": tier})}})
		if err == nil {
			s.admission.ForgetCredentials()
			t, err = s.Tenant(ctx, id)
			return t, item == nil, err
		}
		if op.FailedCond(err) == nil {
			return t, false, intake.Unavailable(ctx, "writing a tenant", err)
		}
	}
	return t, false, intake.Unavailable(ctx, "writing a tenant", errCrowded)
}

var errCrowded = fmt.Errorf("operate: the item kept changing")

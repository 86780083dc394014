package intake

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

// keyedID derives a task's id from its tenant and idempotency key (UUID
// version 5 over a name space of our own), so that the conditional put of the
// row is the idempotency record.
func keyedID(tenant, key string) string {
	return uuid.NewSHA1(keyedSpace, []byte(tenant+"\x00"+key)).String()
}

var keyedSpace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("urn:lanekeeper:idempotency-key"))

// ValidID says whether an id can be that of a task at all.
func ValidID(id string) bool {
	u, err := uuid.Parse(id)
	return err == nil && u.String() == id
}

// prepare judges a decoded submission by the configuration and the caller's
// contract. Faults that the configuration decides are reported together.
func (s *Service) prepare(who Principal, sub Submission, now time.Time) (*prepared, *Refusal) {
	if who.Operator {
		return nil, errForbidden
	}
	tier, ok := s.Config.Tier(who.Tier)
	if !ok {
		return nil, noContract(who)
	}
	class, ok := s.Config.Class(sub.Class)
	if !ok {
		return nil, refuse(events.UnknownClass, "there is no task class of that name")
	}
	if faults := classFaults(class, &sub); len(faults) > 0 {
		return nil, Invalid(faults)
	}
	p := &prepared{Submission: sub, who: who, tier: tier, class: class, receivedMS: now.UnixMilli(), priorityName: sub.Priority}
	if p.priorityName == "" {
		// A tenant whose contract does not reach the class's default gets what it reaches.
		p.priorityName = class.Priority.Default
		if policy.PriorityRank(p.priorityName) < policy.PriorityRank(tier.MaxPriority) {
			p.priorityName = tier.MaxPriority
		}
	} else if !policy.AllowsPriority(class, tier, p.priorityName) {
		return nil, refuse(events.ForbiddenPriority, fmt.Sprintf("priority %s is above what the class (%s) or the tenant's tier (%s) allows",
			p.priorityName, class.Priority.Max, tier.MaxPriority))
	}
	p.priority, _ = s.Config.Priority(p.priorityName)
	bucket, _, _, _, err := s.Config.Classify(sub.Class, sub.Hints)
	if err != nil {
		return nil, refuse(events.UnknownClass, "there is no task class of that name")
	}
	p.bucket = bucket
	p.lane = s.placed(s.book(), p)
	p.deadlineMS = sub.DeadlineMS
	if p.deadlineMS == 0 {
		p.deadlineMS = min(p.priority.MaxDuration.MS(), s.Config.MaxDeadline().MS())
	}
	if sub.IdempotencyKey != "" {
		p.id = keyedID(who.Tenant, sub.IdempotencyKey)
	} else {
		p.id = s.NewID()
	}
	return p, nil
}

func classFaults(class *policy.Class, sub *Submission) []events.FieldError {
	var faults []events.FieldError
	if class.RequireIdempotencyKey && sub.IdempotencyKey == "" {
		faults = append(faults, events.FieldError{Pointer: "header:Idempotency-Key", Detail: "is required for this class"})
	}
	for name, most := range class.MaxHints {
		if v, given := sub.Hints[name]; given && v > most {
			faults = append(faults, events.FieldError{Pointer: "/hints/" + escapePointer(name),
				Detail: fmt.Sprintf("is %d, at most %d are accepted; split the work into several tasks", v, most)})
		}
	}
	return faults
}

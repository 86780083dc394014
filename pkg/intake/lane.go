package intake

import (
	"cmp"
	"context"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/belief"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// placed is the lane in which a submission belongs: where its (class, bucket) is placed by what
// is learned, or the lane that stands in there for its tenant's tier.
func (s *Service) placed(book *belief.Book, p *prepared) *policy.Lane {
	lane, _ := s.Config.Lane(s.Config.LaneFor(book.Lane(p.Class, p.bucket), p.tier.Name))
	return lane
}

// lookFor is look for the lane in which a submission belongs. What is read may say that this is
// another one than was thought; then that one is looked at.
func (s *Service) lookFor(ctx context.Context, p *prepared, now time.Time, strict bool) (view, error) {
	for round := 0; ; round++ {
		v, err := s.look(ctx, p.lane.Name, p.who.Tenant, now, strict)
		if err != nil {
			return view{}, err
		}
		lane := s.placed(v.book, p)
		if lane == p.lane || round >= maxRounds {
			return v, nil
		}
		p.lane = lane
	}
}

func (s *Service) book() *belief.Book {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.copies.book
}

// LaneFor is the lane that a task would be admitted to now; its own if the configuration has no
// other for it.
func (s *Service) LaneFor(ctx context.Context, t *task.Task) (string, error) {
	s.mu.Lock()
	old := s.Clock().Sub(s.copies.bookAt) > bookMaxAge
	s.mu.Unlock()
	if old {
		if err := s.rereadBook(ctx); err != nil {
			return "", err
		}
	}
	place := s.book().Lane(t.Class, s.bucketNow(t))
	if place == "" {
		return t.Lane, nil
	}
	if !s.Config.ByTier(place) {
		return place, nil
	}
	tier, err := s.tierOf(ctx, t.Tenant)
	if err != nil {
		return "", err
	}
	return cmp.Or(s.Config.LaneFor(place, tier), t.Lane), nil
}

func (s *Service) rereadBook(ctx context.Context) error { return s.reread(ctx, s.bookKeys()) }

// bookKeys are the keys of all that is published for admissions. They are read together: one age
// holds for them all.
func (s *Service) bookKeys() []op.Key {
	keys := []op.Key{taskop.MarginsKey()}
	for part := range s.priors.Parts() {
		keys = append(keys, taskop.EstimatesKey(part))
	}
	return keys
}

// Placements says of every (class, bucket) that may move by what is learned of it where it
// runs, as it was published last. The error is a *Refusal.
func (s *Service) Placements(ctx context.Context) (events.PlacementList, error) {
	if err := s.rereadBook(ctx); err != nil {
		return events.PlacementList{}, Unavailable(ctx, "reading placements", err)
	}
	var out events.PlacementList
	book := s.book()
	for _, e := range book.Entries() {
		if len(e.Ladder) < 2 {
			continue
		}
		est, place := book.Get(e.Kind.Class, e.Kind.Bucket), book.Place(e.Kind)
		out.Items = append(out.Items, events.Placement{Class: e.Kind.Class, Bucket: e.Kind.Bucket, ConfiguredLane: e.Ladder[0].Lane, Lane: book.Lane(e.Kind.Class, e.Kind.Bucket),
			ServiceP95: events.Seconds(est.P95MS), Samples: est.Samples, MovedAt: events.Time(place.MovedMS),
			Leans: string(place.Lean), LeansSince: events.Time(place.SinceMS), Blocked: place.Blocked})
	}
	return out, nil
}

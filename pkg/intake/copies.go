package intake

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/belief"
	"github.com/lanekeeper/lanekeeper/pkg/fair"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

const (
	// copyMaxAge is how old a copy that shows work may be before it is read again.
	copyMaxAge = time.Second
	// bookMaxAge is how old a copy of the published estimates may be.
	bookMaxAge = 15 * time.Second
	// maxLedgers bounds the ledgers kept in memory.
	maxLedgers = 10_000
)

// copies are what an instance remembers of lanes, ledgers and estimates. Copies
// are only ever replaced by newer ones; the guards of the writes make old ones
// harmless.
type copies struct {
	lanes   map[string]laneCopy
	own     map[string][]ownEntry // per lane, since its snapshot
	snaps   map[string]snapCopy
	ledgers map[string]ledgerCopy
	book    *belief.Book
	margins belief.Margins
	bookAt  time.Time // of both
}

type laneCopy struct {
	taskop.Lane
	at time.Time
}

// snapCopy is a lane's snapshot of waiting work, nil when there is none.
type snapCopy struct {
	*fair.Snapshot
	at time.Time
}

type ledgerCopy struct {
	taskop.Ledger
	at time.Time
}

// fresh says whether the copy may be used: a recent one, or one that shows
// nothing (the guard proves that it still holds).
func (c laneCopy) fresh(now time.Time) bool {
	return c.Exists && (c.Empty() || now.Sub(c.at) <= copyMaxAge)
}

func (c ledgerCopy) fresh(now time.Time) bool {
	return !c.at.IsZero() && (c.WorkMS == 0 && c.Active == 0 || now.Sub(c.at) <= copyMaxAge)
}

func newCopies(priors *belief.Book) copies {
	return copies{lanes: map[string]laneCopy{}, own: map[string][]ownEntry{}, snaps: map[string]snapCopy{}, ledgers: map[string]ledgerCopy{}, book: priors}
}

// view is the copies that one decision is made on.
type view struct {
	lane   laneCopy
	ledger ledgerCopy
	snap   snapCopy
	others []laneCopy // the other lanes, for the tenant's running attempts there
	book   *belief.Book
	margin belief.Margins
}

// look returns the copies for a decision, reading again, in one call, those
// that are stale; with strict, all that were read before now: a
// read more is cheap against a refusal that was no longer true.
func (s *Service) look(ctx context.Context, lane, tenant string, now time.Time, strict bool) (view, error) {
	v, stale := s.remembered(lane, tenant, now, strict)
	if len(stale) == 0 {
		return v, nil
	}
	if err := s.reread(ctx, stale); err != nil {
		return view{}, err
	}
	v, _ = s.remembered(lane, tenant, now, false)
	if !v.lane.Exists { // the first submission ever to this lane
		if _, err := s.Table.Write(ctx, taskop.CreateLane(lane, int64(s.Config.Slots(lane)))); err != nil && op.FailedCond(err) == nil {
			return view{}, err
		}
		if err := s.reread(ctx, []op.Key{taskop.LaneKey(lane)}); err != nil {
			return view{}, err
		}
		v, _ = s.remembered(lane, tenant, now, false)
	}
	return v, nil
}

// remembered assembles a view and lists the keys of what is stale in it.
func (s *Service) remembered(lane, tenant string, now time.Time, strict bool) (v view, stale []op.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v = view{lane: s.copies.lanes[lane], snap: s.copies.snaps[lane], ledger: s.copies.ledgers[tenant], book: s.copies.book, margin: s.copies.margins}
	if !v.lane.fresh(now) || strict && v.lane.at.Before(now) {
		stale = append(stale, taskop.LaneKey(lane))
	}
	if !v.ledger.fresh(now) || strict && v.ledger.at.Before(now) {
		stale = append(stale, taskop.LedgerKey(tenant))
	}
	if v.lane.Ready+v.lane.Parked > 0 && (now.Sub(v.snap.at) > copyMaxAge || strict && v.snap.at.Before(now)) {
		stale = append(stale, taskop.SnapshotKey(lane))
	}
	for _, name := range s.Config.LaneNames() {
		if name == lane {
			continue
		}
		c := s.copies.lanes[name]
		v.others = append(v.others, c)
		// Other lanes matter only through this tenant's attempts running there.
		if v.ledger.Active > 0 && now.Sub(c.at) > copyMaxAge {
			stale = append(stale, taskop.LaneKey(name))
		}
	}
	if now.Sub(s.copies.bookAt) > bookMaxAge {
		stale = append(stale, s.bookKeys()...)
	}
	return v, stale
}

// reread reads items again, in one call, and remembers them.
func (s *Service) reread(ctx context.Context, keys []op.Key) error {
	began := s.Clock()
	items, err := s.Table.BatchGet(ctx, keys, true)
	if err != nil {
		return err
	}
	book, bookRead := s.priors, false
	var margins belief.Margins
	for i, key := range keys {
		switch {
		case key == taskop.MarginsKey():
			body, _ := taskop.Published(items[i])
			if margins, err = belief.DecodeMargins(body); err != nil {
				return err
			}
		case key.PK == taskop.EstimatesKey(0).PK:
			bookRead = true
			if items[i] == nil {
				continue
			}
			body, _ := taskop.Published(items[i])
			if book, err = book.Overlay(body); err != nil {
				return err
			}
		case key.SK == taskop.SnapshotKey("").SK:
			if err := s.keepSnapshot(key, items[i], began); err != nil {
				return err
			}
		case key.SK == taskop.LedgerKey("").SK:
			s.keepLedger(key.PK[len(taskop.LedgerPrefix):], items[i], began)
		default:
			if err := s.keepLane(laneOf(key), items[i], began); err != nil {
				return err
			}
		}
	}
	if bookRead {
		s.mu.Lock()
		s.copies.book, s.copies.margins, s.copies.bookAt = book, margins, began
		s.mu.Unlock()
	}
	return nil
}

func laneOf(key op.Key) string {
	name := key.PK[len(taskop.LanePrefix):]
	return name[:len(name)-len("#0")]
}

// keepLane remembers a lane item that was read or written at a time.
func (s *Service) keepLane(name string, item op.Item, at time.Time) error {
	lane, err := taskop.DecodeLane(name, item)
	if err != nil {
		return fmt.Errorf("intake: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Entered only grows, so the item with more of it is the newer one.
	if old := s.copies.lanes[name]; old.Exists && (old.EnteredMS > lane.EnteredMS || old.EnteredMS == lane.EnteredMS && old.at.After(at)) {
		return nil
	}
	s.copies.lanes[name] = laneCopy{lane, at}
	return nil
}

func (s *Service) keepSnapshot(key op.Key, item op.Item, at time.Time) error {
	c := snapCopy{at: at}
	if item != nil {
		var err error
		if c.Snapshot, err = fair.Decode(taskop.SnapshotBody(item)); err != nil {
			return fmt.Errorf("intake: snapshot: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copies.snaps[key.PK[len(taskop.SnapshotPrefix):]] = c
	return nil
}

func (s *Service) keepLedger(tenant string, item op.Item, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.copies.ledgers[tenant]; !known && len(s.copies.ledgers) >= maxLedgers {
		clear(s.copies.ledgers)
	}
	s.copies.ledgers[tenant] = ledgerCopy{taskop.DecodeLedger(item), at}
}

// advance moves the remembered ledger on by what was just accepted, so that
// this instance's next decision and quote know of it without another read.
func (s *Service) advance(tenant string, u taskop.LedgerUse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, known := s.copies.ledgers[tenant]
	if !known {
		return
	}
	c.WorkMS += u.AmountMS
	c.EnteredMS += u.AmountMS
	if r := u.Rate; r != nil {
		c.TATMicros = max(c.TATMicros, r.NowMicros) + r.IntervalMicros
	}
	if f := u.Fair; f != nil {
		finish := maps.Clone(c.Finish)
		if finish == nil {
			finish = map[string]int64{}
		}
		finish[f.Lane] = max(f.Virtual, finish[f.Lane]) + f.Cost
		c.Finish = finish
	}
	if u.Day != 0 {
		c.DayWorkMS, c.Day = c.DayWork(u.Day)+u.AmountMS, u.Day
	}
	s.copies.ledgers[tenant] = c
}

// forget makes the next decision read a tenant's ledger and a lane again, after
// this instance has changed them in a way that may turn a refusal around.
func (s *Service) forget(tenant, lane string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.copies.ledgers, tenant)
	if c, known := s.copies.lanes[lane]; known {
		c.at = time.Time{}
		s.copies.lanes[lane] = c
	}
}

package operate

import (
	"context"
	"encoding/json"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// maxMatch bounds the entries looked at to say how many a replay will meet.
const maxMatch = 100_000

// StartReplay orders quarantined tasks to be admitted again, or with DryRun only
// counts them. The aggregator carries it out. The error is a *Refusal.
func (s *Service) StartReplay(ctx context.Context, who intake.Principal, req intake.ReplayRequest) (events.Replay, error) {
	now := s.Clock().UnixMilli()
	rep := events.Replay{ID: s.NewID(), State: events.ReplayRunning, Filter: req.Filter, Rate: req.Rate, Limit: req.Limit, DryRun: req.DryRun, CreatedAt: events.Time(now)}
	scan := NewScan(s.Table, s.Config.LaneNames(), req.Filter, "", now)
	for rep.Matched < rep.Limit {
		_, ok, err := scan.Next(ctx, maxMatch)
		if err != nil {
			return rep, intake.Unavailable(ctx, "counting for a replay", err)
		}
		if !ok {
			break
		}
		rep.Matched++
	}
	if req.DryRun {
		rep.State, rep.FinishedAt = events.ReplayDryRun, rep.CreatedAt
		return rep, nil
	}
	body, err := json.Marshal(rep)
	if err != nil {
		return rep, intake.Unavailable(ctx, "starting a replay", err)
	}
	audit := s.audit(who, "replay.start", rep.ID, map[string]any{"filter": rep.Filter, "rate": rep.Rate, "limit": rep.Limit})
	if err := s.Table.Transact(ctx, taskop.StartReplay(taskop.Replay{ID: rep.ID, Body: string(body), Matched: rep.Matched, CreatedMS: now}, audit)); err != nil {
		return rep, intake.Unavailable(ctx, "starting a replay", err)
	}
	if s.Wake != nil {
		s.Wake(ctx)
	}
	return rep, nil
}

// Replay reports how far a replay has come. The error is a *Refusal.
func (s *Service) Replay(ctx context.Context, id string) (events.Replay, error) {
	if !intake.ValidID(id) {
		return events.Replay{}, notFound("replay")
	}
	item, err := s.Table.Get(ctx, taskop.ReplayKey(id), true)
	if err != nil {
		return events.Replay{}, intake.Unavailable(ctx, "reading a replay", err)
	}
	if item == nil {
		return events.Replay{}, notFound("replay")
	}
	return s.replay(ctx, op.Row{Key: taskop.ReplayKey(id), Item: item})
}

func (s *Service) replay(ctx context.Context, row op.Row) (events.Replay, error) {
	r := taskop.DecodeReplay(row.Key, row.Item)
	rep, err := ReplayOf(r)
	if err != nil {
		return rep, intake.Unavailable(ctx, "reading a replay", err)
	}
	return rep, nil
}

// ReplayOf is a replay as it stands.
func ReplayOf(r taskop.Replay) (events.Replay, error) {
	var rep events.Replay
	err := json.Unmarshal([]byte(r.Body), &rep)
	rep.State, rep.FinishedAt = events.ReplayState(r.State), events.Time(r.DoneMS)
	rep.Matched, rep.Admitted, rep.Refused = max(r.Matched, r.Admitted+r.Refused), r.Admitted, r.Refused
	return rep, err
}

// Replays lists replays, newest first. The error is a *Refusal or
// [op.ErrBadCursor].
func (s *Service) Replays(ctx context.Context, limit int, cursor string) (events.ReplayPage, error) {
	page, err := s.Table.Query(ctx, op.Query{PK: taskop.ReplayPartition, Descending: true, Limit: limit, Cursor: cursor, Consistent: true})
	if err != nil {
		return events.ReplayPage{}, err
	}
	out := events.ReplayPage{NextCursor: events.Null(page.Cursor)}
	for _, row := range page.Rows {
		rep, err := s.replay(ctx, row)
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, rep)
	}
	return out, nil
}

// StopReplay stops a replay; what it admitted stays admitted. One that has ended
// stays as it is. The error is a *Refusal.
func (s *Service) StopReplay(ctx context.Context, who intake.Principal, id string) (events.Replay, error) {
	rep, err := s.Replay(ctx, id)
	if err != nil || rep.State != events.ReplayRunning {
		return rep, err
	}
	err = s.Table.Transact(ctx, op.Tx{Name: "replay.stop", Writes: []op.Write{
		taskop.EndReplay(id, string(events.ReplayStopped), s.Clock().UnixMilli()), s.audit(who, "replay.stop", id, nil)}})
	if err != nil && op.FailedCond(err) == nil {
		return rep, intake.Unavailable(ctx, "stopping a replay", err)
	}
	return s.Replay(ctx, id)
}

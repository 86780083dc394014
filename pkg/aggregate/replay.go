package aggregate

import (
	"context"
	"errors"
	"log/slog"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/operate"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
)

const (
	replaysAtOnce = 10
	scanPerTick   = 2000 // entries of the quarantine, per replay
	savedUpMS     = 2000 // of a replay's rate
)

// replays carries the running replays on. live says whether there are any.
func (r *run) replays(ctx context.Context, lanes map[string]*taskop.Lane) (live bool, err error) {
	page, err := op.Query{Index: op.IndexReady, PK: taskop.RunningReplays, Limit: replaysAtOnce}.First(ctx, r.Table)
	if err != nil {
		return true, err
	}
	spare := map[string]int64{}
	var errs []error
	for _, row := range page.Rows {
		item, err := r.Table.Get(ctx, row.Key, true)
		if err != nil {
			return true, err
		}
		if rep := taskop.DecodeReplay(row.Key, item); rep.State == string(events.ReplayRunning) {
			live = true
			errs = append(errs, r.replay(ctx, rep, lanes, spare))
		}
	}
	return live || page.Cursor != "", errors.Join(errs...)
}

// spareFor is how many replayed tasks a lane may still take in this tick: half of
// the slots that are free while nobody waits for them, so that fresh work always
// finds one.
func spareFor(l *taskop.Lane, spare map[string]int64) int64 {
	if l == nil {
		return 0
	}
	if _, known := spare[l.Name]; !known {
		spare[l.Name] = 0
		if l.Ready <= 0 && !l.Paused {
			spare[l.Name] = max(l.Slots-l.Open, 0) / 2
		}
	}
	return spare[l.Name]
}

// replay admits the next tasks of one replay, as many as its rate, its limit,
// the lanes' spare slots and the admission allow.
func (r *run) replay(ctx context.Context, rep taskop.Replay, lanes map[string]*taskop.Lane, spare map[string]int64) error {
	what, err := operate.ReplayOf(rep)
	if err != nil {
		return err
	}
	nowMS := r.Clock().UnixMilli()
	interval := 1000 / what.Rate
	paced := max(float64(rep.PacedMS), float64(nowMS)-max(interval, savedUpMS))
	// What went to quarantine after the replay began is not meant: a task that
	// fails again must not go round.
	scan := operate.NewScan(r.Table, r.Config.LaneNames(), what.Filter, rep.After, int64(what.CreatedAt))
	stopped := map[string]bool{} // lanes and tenants that are refused for now
	settled, ended := true, false
	for paced+interval <= float64(nowMS) && rep.Admitted+rep.Refused < what.Limit {
		e, ok, err := scan.Next(ctx, scanPerTick)
		if err != nil {
			return err
		}
		if !ok {
			ended = scan.Seen < scanPerTick
			break
		}
		if r.refused[rep.ID+e.ID] {
			continue
		}
		t, err := e.Read(ctx, r.Table)
		if err != nil {
			return err
		}
		if t == nil || t.ReplayID == rep.ID { // it has left, or was replayed and is back
			rep.After = settle(settled, rep.After, e.Place)
			continue
		}
		lane, err := r.Admission.LaneFor(ctx, t)
		if err != nil {
			return err
		}
		// A lane that the configuration does not have has no room and never will: the admission
		// says what becomes of the task.
		if lanes[lane] != nil && spareFor(lanes[lane], spare) <= 0 || stopped["lane "+lane] || stopped["tenant "+t.Tenant] {
			settled = false
			continue
		}
		take := rep
		take.PacedMS = int64(paced + interval)
		paced += interval
		switch out, err := r.Admission.ReadmitFor(ctx, t, rep.ID, taskop.TakeReplay(take, r.lease.Epoch)); {
		case errors.Is(err, intake.ErrReplayOver):
			return nil // stopped, or a later run has it
		case err == nil && out.Replayed: // somebody else was faster
		case err == nil:
			rep.Admitted++
			spareFor(lanes[out.Task.Lane], spare)
			spare[out.Task.Lane]--
			slog.InfoContext(ctx, "replayed", trace.Task(t), "replay", rep.ID)
		default:
			again, end := r.refusal(err, stopped, lane, t.Tenant)
			if end != nil {
				return errors.Join(end, r.moveReplay(ctx, rep, paced))
			}
			if again {
				settled = false
				continue
			}
			r.refused[rep.ID+e.ID] = true
			rep.Refused++
		}
		rep.After = settle(settled, rep.After, e.Place)
	}
	if err := r.moveReplay(ctx, rep, paced); err != nil {
		return err
	}
	if ended && settled || rep.Admitted+rep.Refused >= what.Limit {
		if _, err := r.Table.Write(ctx, taskop.EndReplay(rep.ID, string(events.ReplayFinished), nowMS)); err != nil && op.FailedCond(err) == nil {
			return err
		}
	}
	return nil
}

// settle is the place before which all is settled.
func settle(settled bool, after, place string) string {
	if settled {
		return place
	}
	return after
}

func (r *run) moveReplay(ctx context.Context, rep taskop.Replay, paced float64) error {
	rep.PacedMS = int64(paced)
	_, err := r.Table.Write(ctx, taskop.MoveReplay(rep, r.lease.Epoch))
	if op.FailedCond(err) != nil {
		return nil // a later run has it
	}
	return err
}

// refusal says whether a refused task is to be tried again in a later tick; err is
// set when the store failed and the tick's work ends.
func (r *run) refusal(err error, stopped map[string]bool, lane, tenant string) (again bool, end error) {
	var no *intake.Refusal
	if !errors.As(err, &no) {
		return false, err
	}
	switch no.Code {
	case events.Unavailable:
		return false, err
	case events.RejectTenantLimit, events.RejectRateLimit:
		stopped["tenant "+tenant] = true
		return true, nil
	case events.RejectLaneBacklog, events.RejectLanePaused, events.RejectDeadline, events.RejectDependency:
		stopped["lane "+lane] = true
		return true, nil
	}
	return false, nil
}

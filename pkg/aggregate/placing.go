package aggregate

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/lanekeeper/lanekeeper/pkg/belief"
	"github.com/lanekeeper/lanekeeper/pkg/estimate"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/placement"
	"github.com/lanekeeper/lanekeeper/pkg/tally"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// maxMoves is how many kinds move at one look: each is an entry of the audit in the
// transaction that publishes it. The others do so at the next.
const maxMoves = 50

// move is a verdict on a kind that somebody is told of.
type move struct {
	kind belief.Kind
	atMS int64
	placement.Verdict
}

// placing is one look at where kinds belong.
type placing struct {
	book   *belief.Book
	nowMS  int64
	states map[belief.Kind]placement.State // those that changed
	moves  []move
}

func newPlacing(book *belief.Book, nowMS int64) *placing {
	return &placing{book: book, nowMS: nowMS, states: map[belief.Kind]placement.State{}}
}

// look judges one kind by its estimate and says whether what is remembered of it changed.
func (p *placing) look(e belief.Entry, est *estimate.Estimate) bool {
	old := p.book.Place(e.Kind)
	next, verdict := placement.Next(e.Ladder, old, est, p.nowMS)
	told := verdict.Moved || verdict.Blocked
	if next == old || told && len(p.moves) >= maxMoves {
		return false
	}
	p.states[e.Kind] = next
	if told {
		p.moves = append(p.moves, move{e.Kind, p.nowMS, verdict})
	}
	return true
}

// of are the verdicts on kinds of one part of the book.
func (p *placing) of(part int, book *belief.Book) (out []move) {
	for _, m := range p.moves {
		if book.PartOf(m.kind) == part {
			out = append(out, m)
		}
	}
	return out
}

// publishPart publishes a part of the book and, in the same transaction, writes to
// the audit which kinds changed their lane with it: neither is there without the other.
func (r *run) publishPart(ctx context.Context, publish op.Write, moves []move) error {
	tx := op.Tx{Name: "place", Writes: []op.Write{publish}}
	for _, m := range moves {
		if m.Moved {
			e := taskop.AuditEntry{AtMS: m.atMS, Who: actor, Act: "class.move", On: m.kind.Class + "/" + m.kind.Bucket, Detail: m.detail()}
			tx.Writes = append(tx.Writes, taskop.Audit(e, "move-"+e.On))
		}
	}
	if len(tx.Writes) > 1 {
		return r.Table.Transact(ctx, tx)
	}
	_, err := r.Table.Write(ctx, publish)
	return err
}

// detail says from where to where, and on which figures.
func (m *move) detail() string {
	return fmt.Sprintf("from lane %s to lane %s: p95 %d ms of %d attempts, ceiling %d ms", m.From, m.To, m.P95MS, m.Samples, m.CeilingMS)
}

// tell logs and counts what was published.
func (r *run) tell(ctx context.Context, moves []move) {
	for _, m := range moves {
		log := slog.With("class", m.kind.Class, "bucket", m.kind.Bucket, "lane", m.From, "p95_ms", m.P95MS, "ceiling_ms", m.CeilingMS, "samples", m.Samples)
		if m.Moved {
			log.InfoContext(ctx, "a class moved to another lane", "to", m.To)
			r.Tally.Placed(r.Clock(), tally.Moved)
		} else {
			log.WarnContext(ctx, "a class is too slow for its lane and cannot move", "reason", m.Reason)
			r.Tally.Placed(r.Clock(), tally.Blocked)
		}
	}
}

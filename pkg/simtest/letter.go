package simtest

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// garbage are bodies that this build cannot read: no JSON, a later version, a
// task without a name, not UTF-8, longer than what is kept.
var garbage = []string{
	"not a message", `{"v":2,"tenant":"beta","task":"of a newer build","gen":0}`, `{"v":1,"tenant":"beta","gen":0}`, "\xff\xfe\x00",
	`{"v":1,` + strings.Repeat(" ", 5000) + `}`, `{"v":1,"tenant":"beta","task":"t","gen":-1}`,
}

// keptBytes is how much of a body the operator finds at least.
const keptBytes = 4096

// The wake-up of a task of one generation.
type wakeUp struct {
	id  string
	gen int64
}

// died is told of every message that comes to a dead-letter queue.
func (m *model) died(letter *message) {
	if msg, err := events.DecodeMessage([]byte(letter.body)); err == nil {
		of := wakeUp{msg.Task, msg.Gen}
		m.letters[of] = append(m.letters[of], letter)
	}
}

// mourned holds the count of dead wake-ups on a row against the letters that
// there were: each counts once, one that was sent before the last count says
// nothing new, the first two make the task due at once, and the third
// quarantines it. Only an attempt, or a new admission, sets the count back.
func (m *model) mourned(name string, b, a *task.Task, begins bool) {
	w := m.w
	gaveUp := b.State == task.Queued && a.State == task.Quarantined
	switch {
	case begins && a.Dead != 0 || !begins && a.Dead < b.Dead:
		w.violate("%s: task %s had %d dead wake-ups and has %d", name, a.ID, b.Dead, a.Dead)
		return
	case begins || a.Dead == b.Dead && !gaveUp:
		return
	case a.Dead != b.Dead+1 || b.State != task.Queued || w.current != nil && w.current.In.Function != Redrive:
		w.violate("%s: task %s (%s) went from %d dead wake-ups to %d", name, a.ID, b.State, b.Dead, a.Dead)
	}
	var letter *message
	for _, l := range m.letters[wakeUp{b.ID, b.Gen}] {
		if !l.counted && l.sent.UnixMilli() > b.DeadMS {
			letter = l
			break
		}
	}
	if letter == nil {
		w.violate("%s: dead wake-up %d of task %s was counted without a new one", name, a.Dead, a.ID)
		return
	}
	letter.counted = true
	m.counted++
	if gaveUp {
		m.given++
	}
	switch {
	case gaveUp != (a.Dead == 3):
		w.violate("%s: task %s is %s after %d dead wake-ups", name, a.ID, a.State, a.Dead)
	case !gaveUp && w.current != nil && a.DueMS > w.now().Add(w.current.In.skew+slack).UnixMilli():
		w.violate("%s: task %s, whose wake-up died, is due only in %d ms", name, a.ID, a.DueMS-w.now().UnixMilli())
	}
}

// kept: of each unreadable body the operator finds one copy and one entry in
// the audit, and nothing that was readable.
func (m *model) kept() {
	bodies, entries := map[string]string{}, map[string]int{}
	m.w.table.Each(func(key op.Key, it op.Item) {
		switch {
		case strings.HasPrefix(key.PK, "U#"):
			bodies[key.SK] = taskop.Body(it)
		case strings.HasPrefix(key.PK, "A#"):
			if e := taskop.DecodeAudit(key, it); strings.HasPrefix(e.Act, "message.") {
				_, nonce, _ := strings.Cut(key.SK, "#")
				entries[nonce]++
			}
		}
	})
	for body := range m.garbage {
		sum := sha256.Sum256([]byte(body))
		hash := hex.EncodeToString(sum[:])
		want := strings.ToValidUTF8(body[:min(len(body), keptBytes)], "�")
		if bodies[hash] != want || entries[hash[:16]] != 1 {
			m.w.violate("at rest the unreadable body %.40q is kept as %.40q, with %d entries in the audit", body, bodies[hash], entries[hash[:16]])
		}
		delete(bodies, hash)
	}
	if len(bodies) > 0 {
		m.w.violate("at rest %d bodies are kept that nobody sent: %v", len(bodies), bodies)
	}
}

// sends: no function that a message started may send one, since Lambda cuts
// such chains; a task is made due and the aggregator sends.
func (m *model) sends(in *Instance, lane string) {
	if f := in.Function; (f == Worker || f == Redrive) && !m.w.opts.Relays {
		m.w.violate("%s, which a message of hop %d started, sends to lane %s", in.Name, in.hops, lane)
	}
}

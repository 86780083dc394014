package simtest

import (
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// model knows what must be true. After every applied write it holds that
//
//   - a task only makes moves of [task.Transitions], its generation rises with
//     each claim and never otherwise, and what was frozen at admission stays so;
//   - a terminal task never changes;
//   - only the attempt that holds the lease changes a running task, or the
//     aggregator once the lease has run out; nobody claims for a foreign lane;
//   - nothing begins after the time by which it had to, and no retry before its
//     backoff has passed (strict runs);
//   - tasks of one ordering key begin one after another, in their order;
//   - each ledger is exactly the sum over its tenant's rows, is never negative,
//     never has more active attempts than its tier allows, and no accept takes its work
//     above the tier's limit;
//   - a lane's open is the number of open tasks that it names, and (strict runs)
//     no lane counts less than the rows need;
//   - each wake-up that died counts once, makes its task due, and the third one
//     quarantines it (letter.go); no function that a message started sends one;
//   - a submission creates at most one row, and none that was refused has one.
//
// What clients were told is checked as they are told, and again at the end.
type model struct {
	w       *World
	tasks   map[op.Key]*task.Task
	ledgers map[string]taskop.Ledger
	sums    map[string]*sum // per tenant
	lanes   map[string]*taskop.Lane
	held    map[string]*hold // per lane

	requests map[string]*request // by traceparent
	keys     map[string]*keyed   // by tenant and idempotency key
	promised map[op.Key]bool     // a client was told that it is accepted
	stopped  map[op.Key]bool     // a client was told that its cancel holds
	journal  map[attemptID]*execution

	changed []rowChange // by the write under way
	order   *orderModel
	ops     *operations

	letters        map[wakeUp][]*message // that came to a dead-letter queue
	garbage        map[string]bool       // unreadable bodies that were sent
	loops          int                   // messages that Lambda took for loops
	counted, given int                   // dead wake-ups, and tasks given up for them

	accepted, refused, unavailable, timeouts int
	ends                                     map[task.State]int
}

type sum struct{ work, active int64 }

type hold struct{ open, running, waiting, work int64 }

type request struct {
	refused bool
	rows    int
}

type keyed struct {
	id string // once a client was told
}

type attemptID struct {
	id string
	n  int
}

type execution struct{ begun, ended, ok bool }

func newModel(w *World) *model {
	return &model{w: w, order: newOrderModel(w), tasks: map[op.Key]*task.Task{}, ledgers: map[string]taskop.Ledger{}, sums: map[string]*sum{}, lanes: map[string]*taskop.Lane{},
		held: map[string]*hold{}, requests: map[string]*request{}, keys: map[string]*keyed{}, promised: map[op.Key]bool{}, stopped: map[op.Key]bool{},
		journal: map[attemptID]*execution{}, ends: map[task.State]int{}, ops: newOperations(w),
		letters: map[wakeUp][]*message{}, garbage: map[string]bool{}}
}

func get[K comparable, V any](m map[K]*V, k K) *V {
	v := m[k]
	if v == nil {
		v = new(V)
		m[k] = v
	}
	return v
}

// wrote is told of every applied write, on the scheduler.
func (m *model) wrote(a memtable.Applied) {
	tenants, lanes := map[string]bool{}, map[string]bool{}
	m.changed = m.changed[:0]
	for _, e := range a.Effects {
		if m.w.opts.Saw != nil {
			m.w.opts.Saw(*e.Write, e.Before)
		}
		pk := e.Write.Key.PK
		switch {
		case strings.HasPrefix(pk, "T#"):
			if t := m.row(e); t != nil {
				tenants[t.Tenant] = true
				lanes[t.AtLane] = true
			}
		case strings.HasPrefix(pk, taskop.LedgerPrefix):
			tenant := pk[len(taskop.LedgerPrefix):]
			m.ledger(e.Write.Name, tenant, e.After)
			tenants[tenant] = true
		case strings.HasPrefix(pk, taskop.LanePrefix):
			name := strings.TrimSuffix(pk[len(taskop.LanePrefix):], "#0")
			m.lane(name, e)
			lanes[name] = true
		}
	}
	for tenant := range tenants {
		s, l := get(m.sums, tenant), m.ledgers[tenant]
		off := m.ops.off(a.Name, tenant, l, *s)
		if s.work+off.work != l.WorkMS || s.active+off.active != l.Active {
			m.w.violate("%s: the ledger of %s says work %d, active %d; its rows add up to %d and %d", a.Name, tenant, l.WorkMS, l.Active, s.work, s.active)
		}
	}
	m.ops.wrote(a)
	if m.w.opts.Strict {
		for lane := range lanes {
			m.strict(a.Name, lane)
		}
	}
	m.order.wrote(a, m.changed)
}

func (m *model) lane(name string, e memtable.Effect) {
	l, err := taskop.DecodeLane(name, e.After)
	if err != nil {
		m.w.violate("%s: %v", e.Write.Name, err)
		return
	}
	if old := m.lanes[name]; old != nil && l.EnteredMS < old.EnteredMS {
		m.w.violate("%s: entered of lane %s fell from %d to %d", e.Write.Name, name, old.EnteredMS, l.EnteredMS)
	}
	m.lanes[name] = &l
	for i := 1; i < len(l.Tasks); i++ {
		if l.Tasks[i].ID == l.Tasks[i-1].ID {
			m.w.violate("%s: lane %s names task %s twice", e.Write.Name, name, l.Tasks[i].ID)
		}
	}
	if m.w.opts.Tight && l.Open > l.Slots {
		m.w.violate("%s: lane %s has %d slots and %d open tasks", e.Write.Name, name, l.Slots, l.Open)
	}
	if l.Open != int64(len(l.Tasks)) {
		m.w.violate("%s: lane %s has open %d and names %d tasks", e.Write.Name, name, l.Open, len(l.Tasks))
	}
}

// strict: a lane may be too full, never too empty. A release takes its slot
// before its row says so, and parking after it, so only the total is held. An
// attempt whose worker is dead, or never came to begin it, needs no slot.
func (m *model) strict(name, lane string) {
	l, h := m.lanes[lane], *get(m.held, lane)
	if l == nil {
		l = &taskop.Lane{}
	}
	enough := func() bool {
		return l.Open+l.Ready+l.Parked >= h.open+h.waiting && l.Open >= h.running && l.WorkMS >= h.work
	}
	if enough() {
		return
	}
	lost := m.lost(lane)
	h.open, h.running = h.open-lost, h.running-lost
	if !enough() {
		m.w.violate("%s: lane %s says open %d, ready %d, parked %d, work %d; its rows need open %d (running %d), waiting %d, work %d",
			name, lane, l.Open, l.Ready, l.Parked, l.WorkMS, h.open, h.running, h.waiting, h.work)
	}
}

// lost counts a lane's running rows that nobody executes.
func (m *model) lost(lane string) (n int64) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	for _, t := range m.tasks {
		if t.State != task.Running || t.AtLane != lane {
			continue
		}
		for _, in := range m.w.instances {
			if e := m.journal[attemptID{t.ID, int(t.Attempt)}]; in.tokens[t.LeaseToken] && (in.dead || e == nil) {
				n++
			}
		}
	}
	return n
}

func (m *model) ledger(write, tenant string, after op.Item) {
	l := taskop.DecodeLedger(after)
	m.ledgers[tenant] = l
	tier, _ := m.w.cfg.Tier(tiers[tenant])
	if l.WorkMS < 0 || l.Active < 0 {
		m.w.violate("%s: the ledger of %s has work %d, active %d", write, tenant, l.WorkMS, l.Active)
	}
	if l.Active > int64(tier.MaxActive) {
		m.w.violate("%s: %s has %d active attempts, allowed are %d", write, tenant, l.Active, tier.MaxActive)
	}
	if write == "accept.ledger" && l.WorkMS > tier.MaxQueuedWork.MS() {
		m.w.violate("%s: %s has %d ms of work, allowed are %d", write, tenant, l.WorkMS, tier.MaxQueuedWork.MS())
	}
}

// count adds a row to, or takes it from, what ledgers and lanes must hold.
func (m *model) count(t *task.Task, n int64) {
	s, h := get(m.sums, t.Tenant), get(m.held, t.AtLane)
	switch t.State {
	case task.Waiting:
		s.work += n * t.AmountMS
		h.waiting, h.work = h.waiting+n, h.work+n*t.AmountMS
	case task.Queued:
		s.work += n * t.AmountMS
		h.open, h.work = h.open+n, h.work+n*t.AmountMS
	case task.RetryWait:
		s.work += n * t.AmountMS
	case task.Running:
		s.active += n
		h.open, h.running = h.open+n, h.running+n
	}
}

// row holds a row's change against the life of a task.
func (m *model) row(e memtable.Effect) *task.Task {
	w, key, name := m.w, e.Write.Key, e.Write.Name
	before := m.tasks[key]
	var after *task.Task
	if e.After != nil {
		var err error
		if after, err = taskop.DecodeRow(key, e.After); err != nil {
			w.violate("%s: %v", name, err)
			return nil
		}
	}
	m.changed = append(m.changed, rowChange{name, before, after, e.After.Str("rk"), e.After.Str("rs")})
	if before != nil {
		m.count(before, -1)
		m.ends[before.State]--
	}
	if after == nil {
		delete(m.tasks, key)
		if before != nil && (before.State != task.Queued || before.Gen != 0) {
			w.violate("%s: removed a row in state %s of generation %d", name, before.State, before.Gen)
		}
		return before
	}
	m.tasks[key] = after
	m.count(after, +1)
	m.ends[after.State]++
	if before == nil {
		m.created(name, after)
		return after
	}
	m.moved(name, before, after)
	return after
}

func (m *model) created(name string, t *task.Task) {
	w := m.w
	if !move(task.None, t.State) || t.Gen != 0 {
		w.violate("%s: created task %s in state %s, generation %d", name, t.ID, t.State, t.Gen)
	}
	r := m.requests[t.Traceparent]
	if r == nil {
		return
	}
	if r.rows++; r.rows > 1 || r.refused {
		w.violate("%s: request %s has %d rows, refused: %t", name, t.Traceparent, r.rows, r.refused)
	}
}

func move(from, to task.State) bool {
	for _, tr := range task.Transitions {
		if tr.From == from && tr.To == to {
			return true
		}
	}
	return false
}

func (m *model) moved(name string, b, a *task.Task) {
	w := m.w
	if b.State.Terminal() {
		w.violate("%s: changed task %s, which is %s", name, a.ID, b.State)
	}
	if b.State != a.State && !move(b.State, a.State) {
		w.violate("%s: task %s moved from %s to %s", name, a.ID, b.State, a.State)
	}
	claimed := int64(0)
	if b.State != task.Running && a.State == task.Running {
		claimed = 1
	}
	again := b.State == task.Quarantined && a.State.Live()
	m.mourned(name, b, a, claimed == 1 || again)
	if again { // admitted again
		m.readmitted(name, b, a)
		return
	}
	if a.Gen != b.Gen+claimed || a.Attempt != b.Attempt+claimed {
		w.violate("%s: task %s went from generation %d, attempt %d to %d, %d while %s → %s", name, a.ID, b.Gen, b.Attempt, a.Gen, a.Attempt, b.State, a.State)
	}
	if a.AmountMS != b.AmountMS || a.Nonce != b.Nonce || a.SubmittedMS != b.SubmittedMS || a.DeadlineMS != b.DeadlineMS || a.Class != b.Class || a.Lane != b.Lane {
		w.violate("%s: changed what was frozen of task %s", name, a.ID)
	}
	if m.w.current == nil {
		return
	}
	in := m.w.current.In
	switch {
	case claimed == 1 && (in.Function != Worker || in.Lane != b.AtLane):
		w.violate("%s: %s claimed task %s of lane %s", name, in.Name, a.ID, b.AtLane)
	case b.State == task.Running && in.Function == Worker:
		in.w.mu.Lock()
		own := in.tokens[b.LeaseToken]
		in.w.mu.Unlock()
		if !own {
			w.violate("%s: %s changed task %s under the lease of another", name, in.Name, a.ID)
		}
	case b.State == task.Running && in.Function == Aggregator && a.State != task.Running:
		if now := w.now().Add(in.skew + 10*time.Millisecond).UnixMilli(); b.LeaseUntilMS >= now {
			w.violate("%s: ended task %s, whose lease lasts %d ms more", name, a.ID, b.LeaseUntilMS-now)
		}
	case b.State == task.Running && in.Function == Admission && a.State != task.Running:
		w.violate("%s: an admission ended the running task %s", name, a.ID)
	}
	m.inTime(name, b, a, claimed == 1)
	m.notLate(name, b, a)
	if claimed == 1 {
		m.inOrder(name, a)
	}
	if m.stopped[taskop.RowKey(a.Tenant, a.ID)] && a.State != b.State && claimed == 1 {
		w.violate("%s: task %s was cancelled before it began", name, a.ID)
	}
}

// slack is how far a decision on the time may lie behind its write where calls
// are prompt.
const slack = 50 * time.Millisecond

// inTime: nothing begins that can no longer finish in time, and no retry comes
// back before its time.
func (m *model) inTime(name string, b, a *task.Task, claimed bool) {
	w := m.w
	if !w.opts.Strict {
		return // a repeated slow call may decide early and write late
	}
	if claimed && b.TooLate(w.current.came.Add(-slack).UnixMilli()) {
		w.violate("%s: task %s began %d ms after it had to", name, a.ID, w.now().UnixMilli()-b.StartByMS)
	}
	if b.State == task.RetryWait && a.State.Live() && a.State != task.RetryWait && w.now().Add(slack).UnixMilli() < b.NotBeforeMS {
		w.violate("%s: the retry of task %s came back %d ms early", name, a.ID, b.NotBeforeMS-w.now().UnixMilli())
	}
}

func (m *model) readmitted(name string, b, a *task.Task) {
	if a.Gen != b.Gen+1 || a.Failures != 0 || a.CancelRequested {
		m.w.violate("%s: task %s was admitted again with generation %d after %d, %d failures, cancelled: %t", name, a.ID, a.Gen, b.Gen, a.Failures, a.CancelRequested)
	}
}

// answered checks what a submission was told.
func (m *model) answered(c *Client, sub intake.Submission, told string, out intake.Accepted, code events.Code) {
	w := m.w
	r := get(m.requests, sub.Traceparent)
	k := (*keyed)(nil)
	if sub.IdempotencyKey != "" {
		k = get(m.keys, c.tenant+"|"+sub.IdempotencyKey)
	}
	switch code {
	case "":
		m.accepted++
		key := taskop.RowKey(c.tenant, out.Task.ID)
		m.promised[key] = true
		if out.Task.RequestHash != sub.RequestHash {
			w.violate("request %s was accepted as the task of another request", sub.Traceparent)
		}
		if m.tasks[key] == nil {
			w.violate("request %s was accepted (replayed: %t) as %s, which has no row", sub.Traceparent, out.Replayed, out.Task.ID)
		}
		if k != nil {
			if k.id != "" && k.id != out.Task.ID {
				w.violate("key %s gave task %s and then %s", sub.IdempotencyKey, k.id, out.Task.ID)
			}
			k.id = out.Task.ID
		}
	case events.Unavailable, gatewayError:
		m.unavailable++
	case events.IdempotencyConflict:
		if k == nil {
			w.violate("request %s has no key and was told %s", sub.Traceparent, code)
		}
	default:
		m.refused++
		r.refused = true
		if r.rows > 0 {
			w.violate("request %s was refused (%s) and has a row", sub.Traceparent, code)
		}
		if k != nil && told != "" {
			w.violate("key %s was told task %s and then %s", sub.IdempotencyKey, told, code)
		}
	}
}

package simtest

import (
	"sort"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// chainModel knows what must be true of ordering keys. After every applied write it
// holds that
//
//   - a chain's entries lie between its head and its last number, the head has one, and
//     their amounts add up to the chain's work;
//   - every live task with a key has the entry of its number; it is held unless it is the head, and
//     a held task waits outside of the order;
//   - head and last number never fall while the chain exists, and it goes only when it is empty.
//
// That tasks of one key begin in the order of their numbers is held by model.inOrder.
type chainModel struct {
	w       *World
	chains  map[string]*chainState // by partition
	touched map[string]bool        // by the write under way
}

type chainState struct {
	exists  bool
	chain   taskop.Chain
	entries map[int64]taskop.ChainEntry
	members map[op.Key]*task.Task // live ones
}

func newChainModel(w *World) chainModel {
	return chainModel{w: w, chains: map[string]*chainState{}, touched: map[string]bool{}}
}

func (c *chainModel) at(pk string) *chainState {
	c.touched[pk] = true
	s := c.chains[pk]
	if s == nil {
		s = &chainState{entries: map[int64]taskop.ChainEntry{}, members: map[op.Key]*task.Task{}}
		c.chains[pk] = s
	}
	return s
}

// wrote takes in a write of a chain's item or of one of its entries.
func (c *chainModel) wrote(name string, e memtable.Effect) {
	key := e.Write.Key
	s := c.at(key.PK)
	if key.SK == taskop.ChainKey("", "").SK {
		old := s.chain
		s.exists, s.chain = e.After != nil, taskop.DecodeChain(e.After)
		if s.exists && (s.chain.Head < old.Head || s.chain.Last < old.Last) {
			c.w.violate("%s: chain %s fell from %+v to %+v", name, key.PK, old, s.chain)
		}
		return
	}
	entry, err := taskop.DecodeChainEntry(key, e.After)
	if err != nil {
		c.w.violate("%s: %v", name, err)
	}
	if e.After == nil {
		delete(s.entries, entry.N)
		return
	}
	if old, there := s.entries[entry.N]; there && old != entry {
		c.w.violate("%s: number %d of chain %s was given to %+v and then to %+v", name, entry.N, key.PK, old, entry)
	}
	s.entries[entry.N] = entry
}

// row takes in what became of a task.
func (c *chainModel) row(r rowChange) {
	for i, t := range []*task.Task{r.before, r.after} {
		if t == nil || t.OrderingKey == "" {
			continue
		}
		s := c.at(taskop.ChainKey(t.Tenant, t.OrderingKey).PK)
		key := taskop.RowKey(t.Tenant, t.ID)
		delete(s.members, key)
		if i == 1 && t.State.Live() {
			s.members[key] = t
		}
	}
}

// hold checks the chains that the write has touched.
func (c *chainModel) hold(name string) {
	if len(c.touched) == 0 {
		return
	}
	pks := make([]string, 0, len(c.touched))
	for pk := range c.touched {
		pks = append(pks, pk)
	}
	sort.Strings(pks)
	clear(c.touched)
	for _, pk := range pks {
		c.holdOne(name, pk, c.chains[pk])
	}
}

func (c *chainModel) holdOne(name, pk string, s *chainState) {
	if !s.exists && (len(s.entries) > 0 || len(s.members) > 0) {
		c.w.violate("%s: chain %s is gone and has %d entries, %d live tasks", name, pk, len(s.entries), len(s.members))
		return
	}
	var work int64
	for n, e := range s.entries {
		work += e.AmountMS
		if n < s.chain.Head || n > s.chain.Last {
			c.w.violate("%s: chain %s, %+v, has an entry of number %d", name, pk, s.chain, n)
		}
	}
	if _, there := s.entries[s.chain.Head]; s.exists && !there {
		c.w.violate("%s: the head of chain %s, %+v, has no entry", name, pk, s.chain)
	}
	if work != s.chain.WorkMS {
		c.w.violate("%s: chain %s says %d ms of work, its entries %d", name, pk, s.chain.WorkMS, work)
	}
	for _, t := range s.members {
		if e := s.entries[t.Seq]; e.ID != t.ID || e.AmountMS != t.AmountMS {
			c.w.violate("%s: task %s (%s) is number %d of chain %s, whose entry is %+v", name, t.ID, t.State, t.Seq, pk, e)
		}
		if !t.Held && t.Seq != s.chain.Head {
			c.w.violate("%s: task %s (%s), number %d of chain %s, is eligible beside the head %d", name, t.ID, t.State, t.Seq, pk, s.chain.Head)
		}
		if t.Held && t.State != task.Waiting {
			c.w.violate("%s: task %s, number %d of chain %s, is held and %s", name, t.ID, t.Seq, pk, t.State)
		}
	}
}

// inOrder: a task with an ordering key does not begin before one of the same
// key that came earlier and is live.
func (m *model) inOrder(name string, t *task.Task) {
	if t.OrderingKey == "" {
		return
	}
	for _, o := range m.tasks {
		if o.Tenant == t.Tenant && o.OrderingKey == t.OrderingKey && o.Seq < t.Seq && o.State.Live() {
			m.w.violate("%s: task %s (number %d of key %s) began while %s (number %d) is %s", name, t.ID, t.Seq, t.OrderingKey, o.ID, o.Seq, o.State)
		}
	}
}

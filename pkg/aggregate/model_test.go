package aggregate

import (
	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// laneModel is a lane's item on its own, written to as every engine would.
type laneModel struct{ item op.Item }

func (m *laneModel) do(w op.Write) {
	if w.Cond != nil && !op.Eval(w.Cond, w.Key, m.item) {
		return
	}
	if after, err := op.Apply(m.item, w.Changes); err == nil {
		m.item = after
	}
}

func (m *laneModel) decode(t *rapid.T) taskop.Lane {
	l, err := taskop.DecodeLane("retry", m.item)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

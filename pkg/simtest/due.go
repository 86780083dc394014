package simtest

import "github.com/lanekeeper/lanekeeper/pkg/task"

// notLate: a live task is looked at again when its retry may begin or its lease has
// run out, perhaps earlier and never later, whoever moved that time meanwhile.
func (m *model) notLate(name string, b, a *task.Task) {
	if b.State == a.State && a.State != task.Running {
		return
	}
	var most int64
	switch a.State {
	case task.RetryWait:
		most = a.NotBeforeMS
	case task.Running:
		if !m.w.opts.Strict {
			return // a claim that was held up may not know of a visit meanwhile
		}
		most = a.LeaseUntilMS + 1
	default:
		return
	}
	if a.DueMS > most {
		m.w.violate("%s: task %s (%s) is looked at %d ms late", name, a.ID, a.State, a.DueMS-most)
	}
}

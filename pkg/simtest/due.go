package simtest

import "github.com/lanekeeper/lanekeeper/pkg/task"

// notLate: a retry is looked at when it may begin, perhaps earlier and never later,
// whoever moved that time during the attempt before. (A claim that a visit comes in between
// of may leave a lease to be looked at some seconds late, which costs a lost worker's task so much.)
func (m *model) notLate(name string, b, a *task.Task) {
	if b.State == task.Running && a.State == task.RetryWait && a.DueMS > a.NotBeforeMS {
		m.w.violate("%s: task %s (%s) is looked at %d ms late", name, a.ID, a.State, a.DueMS-a.NotBeforeMS)
	}
}

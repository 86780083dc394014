package task_test

import (
	"reflect"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/task"
)

func TestHistoryIsBoundedAndKeepsItsFirst(t *testing.T) {
	var x task.Task
	for n := int64(1); n <= 3*task.HistoryMax; n++ {
		before := append([]task.Attempt(nil), x.Attempts...)
		shared := x.Attempts
		x.Record(task.Attempt{N: n})
		for i := range before {
			if !reflect.DeepEqual(shared[i], before[i]) {
				t.Fatalf("recording %d changed a history that others may hold", n)
			}
		}
		if len(x.Attempts) > task.HistoryMax || x.Attempts[0].N != 1 || x.Attempts[len(x.Attempts)-1].N != n {
			t.Fatalf("after %d: %d entries from %d to %d", n, len(x.Attempts), x.Attempts[0].N, x.Attempts[len(x.Attempts)-1].N)
		}
	}
	for i := 2; i < len(x.Attempts); i++ {
		if x.Attempts[i].N != x.Attempts[i-1].N+1 {
			t.Fatalf("the latest are not in a row: %+v", x.Attempts)
		}
	}
}

func TestTooLate(t *testing.T) {
	handedBack := []task.Attempt{{N: 1, Outcome: task.OutcomeHandBack}}
	failed := []task.Attempt{{N: 1, Outcome: task.OutcomeHandBack}, {N: 2, Outcome: task.OutcomeFailed}}
	for name, c := range map[string]struct {
		task task.Task
		now  int64
		want bool
	}{
		"at start_by":             {task.Task{StartByMS: 100}, 100, false},
		"after it":                {task.Task{StartByMS: 100}, 101, true},
		"of a class that is late": {task.Task{StartByMS: 100, RunLate: true}, 101, false},
		"going on":                {task.Task{StartByMS: 100, Attempts: handedBack}, 101, false},
		"failed since":            {task.Task{StartByMS: 100, Attempts: failed}, 101, true},
	} {
		if got := c.task.TooLate(c.now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

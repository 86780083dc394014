package worker_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

func TestCallsAreCountedByNameAndBounded(t *testing.T) {
	var task worker.Task
	if got := task.Calls(); got != nil {
		t.Errorf("before the first call: %v", got)
	}
	task.Called("", 1)
	task.Called("warehouse", 0)
	task.Called("warehouse", -3)
	if got := task.Calls(); got != nil {
		t.Errorf("nothing was called: %v", got)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { task.Called("warehouse", 2) })
	}
	wg.Wait()
	want := map[string]int64{"warehouse": 100}
	if got := task.Calls(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for i := range 20 {
		task.Called(fmt.Sprint("vendor", i), 1)
	}
	task.Called(strings.Repeat("x", 65), 5)
	got, sum := task.Calls(), int64(0)
	for _, n := range got {
		sum += n
	}
	if len(got) != worker.MaxDownstreams+1 || sum != 125 || got["warehouse"] != 100 || got[worker.OtherDownstreams] != 18 {
		t.Errorf("%d names, %d calls: %v", len(got), sum, got)
	}
	got["warehouse"] = 0
	if task.Calls()["warehouse"] != 100 {
		t.Error("what was handed out is the count itself")
	}
}

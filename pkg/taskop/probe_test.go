package taskop_test

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// TestAClassHasOneProbeAtATime: of two that read the same item one gets the turn, and
// only who has it gives it back.
func TestAClassHasOneProbeAtATime(t *testing.T) {
	first := taskop.Probe{Tenant: "a", ID: "1", UntilMS: laterMS}
	second := taskop.Probe{Tenant: "b", ID: "2", UntilMS: laterMS + 1}
	item := must(t, taskop.TakeProbe("c", taskop.Probe{}, first), nil)
	if got := taskop.DecodeProbe(item); got != first {
		t.Fatalf("read back %+v", got)
	}
	if !item.Has(op.TTL) || item.Int(op.TTL) <= laterMS/1000 {
		t.Errorf("may go at %d", item.Int(op.TTL))
	}
	if _, ok := perform(t, taskop.TakeProbe("c", taskop.Probe{}, second), item); ok {
		t.Fatal("a second probe on an item that was read before the first")
	}
	if got := taskop.DecodeProbe(must(t, taskop.TakeProbe("c", first, second), item)); got != second {
		t.Fatalf("the next is %+v", got)
	}
	if _, ok := perform(t, taskop.ReturnProbe("c", "2"), item); ok {
		t.Fatal("one gave back the turn of another")
	}
	if after, ok := perform(t, taskop.ReturnProbe("c", "1"), item); !ok || after != nil {
		t.Fatalf("given back: %v, %v", after, ok)
	}
}

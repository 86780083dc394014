package belief

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/estimate"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/placement"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

// TestEveryPartFitsAnItem, however many kinds there are, with the longest names, the largest figures and places that are
// remembered of all of them: a part over an item's size could never be published again.
func TestEveryPartFitsAnItem(t *testing.T) {
	lane := func(c string) string { return strings.Repeat(c, 32) }
	ladder := []policy.Rung{{Lane: lane("a"), CeilingMS: 1000}, {Lane: lane("b")}}
	for _, kinds := range []int{1, 500, 799, 800, 999, 1000, 1599, 1999, 2500, 5000} {
		b := newBook()
		estimates, places := map[Kind]estimate.Estimate{}, map[Kind]placement.State{}
		for i := range kinds {
			k := Kind{fmt.Sprintf("%064d", i), lane("k")}
			b.add(k, ladder, policy.Prior{P50: 1, P95: 2}, policy.Duration(14*60e9))
			e := estimate.Worst(840_000)
			e.Samples, e.Learned = 1_000_000, true
			estimates[k] = e
			places[k] = placement.State{Home: lane("a"), Lane: lane("b"), MovedMS: 1_800_000_000_000, Lean: placement.Down, SinceMS: 1_800_000_000_000, Blocked: true}
		}
		b = b.inOrder().With(estimates, places)
		for part := range b.Parts() {
			if n := len(b.Encode(part)) + 1024; n > op.MaxItemBytes {
				t.Errorf("%d kinds: part %d of %d takes %d bytes", kinds, part, b.Parts(), n)
			}
		}
	}
}

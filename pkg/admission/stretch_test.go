package admission

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/wait"
)

// TestStretchedLevelAndRoomAreInverse: the guard rests on it, as it does on Level and Room.
func TestStretchedLevelAndRoomAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free := rapid.SliceOfN(rapid.Int64Range(0, 10_000), 0, 6).Draw(t, "free")
		slices.Sort(free)
		stretch := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(1000, 3000)).Draw(t, "stretch")
		level := rapid.OneOf(rapid.Int64Range(0, 30_000), rapid.Just(wait.Infinite)).Draw(t, "level")
		room := unstretched(wait.Room(free, level), stretch)
		work := rapid.OneOf(rapid.Int64Range(0, 100_000), rapid.Just(max(room, 0)), rapid.Just(min(max(room, 0), 1<<60)+1)).Draw(t, "work")
		if (wait.Level(free, stretched(work, stretch)) <= level) != (work <= room) {
			t.Fatalf("work %d, level %d, room %d", work, wait.Level(free, stretched(work, stretch)), room)
		}
	})
}

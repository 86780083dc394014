package stack

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// warnLeftovers says what the data holds that the configuration does not know any more: lanes with tasks, and
// tenants whose tier is gone. Neither is a reason not to start: the others are served.
func (s *Stack) warnLeftovers(ctx context.Context) error {
	tasks := map[string]int{} // by lane
	var bad error
	err := s.db.Table().Scan(ctx, "T#", func(row op.Row) bool {
		t, err := taskop.DecodeRow(row.Key, row.Item)
		if err != nil {
			bad = err
			return false
		}
		// What ran is taken up, and goes on in the retry lane like what waits for its retry.
		if t.State == task.Waiting || t.State == task.Queued {
			tasks[t.AtLane]++
		}
		return true
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return fmt.Errorf("looking for tasks of removed lanes: %w", err)
	}
	for _, lane := range slices.Sorted(maps.Keys(tasks)) {
		if _, known := s.opts.Config.Lane(lane); !known {
			slog.WarnContext(ctx, "a lane that is not in the configuration still holds tasks: put it back, let it drain, then remove it", "lane", lane, "tasks", tasks[lane])
		}
	}
	tenants := map[string][]string{} // by tier
	prefix := strings.TrimSuffix(taskop.TenantKey("x").PK, "x")
	err = s.db.Table().Scan(ctx, prefix, func(row op.Row) bool {
		if name := row.Key.PK[len(prefix):]; row.Key == taskop.TenantKey(name) {
			tier := taskop.DecodeTenant(row.Item)
			tenants[tier] = append(tenants[tier], name)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("looking for tenants of removed tiers: %w", err)
	}
	for _, tier := range slices.Sorted(maps.Keys(tenants)) {
		if _, known := s.opts.Config.Tier(tier); !known {
			slices.Sort(tenants[tier])
			slog.WarnContext(ctx, "a tier that is not in the configuration still has tenants, which can submit nothing: put it back, or give them another with PUT /v1/admin/tenants/{id}",
				"tier", tier, "tenants", strings.Join(tenants[tier], " "))
		}
	}
	return nil
}

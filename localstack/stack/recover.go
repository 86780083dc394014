package stack

import (
	"context"
	"log/slog"

	"github.com/lanekeeper/lanekeeper/pkg/clock"
	"github.com/lanekeeper/lanekeeper/pkg/recovery"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
)

// recover makes due at once what a killed process left: its attempts cannot run
// any more and its received messages are nobody's, since only one process at a
// time holds the file. Without it leases and visibility would have to run out first, as
// they do on AWS, where nobody can know.
func (s *Stack) recover(ctx context.Context) error {
	return recovery.Run(ctx, s.db.Table(), clock.System().UnixMilli())
}

// compareTenant warns where the file's tenant is not what the table holds: the
// file only seeds, the table counts.
func (s *Stack) compareTenant(ctx context.Context, name string) error {
	item, err := s.db.Table().Get(ctx, taskop.TenantKey(name), true)
	if err != nil {
		return err
	}
	stored := taskop.DecodeTenant(item)
	if want, _ := s.opts.Config.Tenant(name); stored != want.Tier {
		slog.WarnContext(ctx, "the tenant has another tier in the data than in the configuration, which only seeds new tenants; change it with PUT /v1/admin/tenants/"+name+" or begin with an empty DATA_DIR",
			"tenant", name, "tier", stored, "configured", want.Tier)
	}
	return nil
}

package admission

import "github.com/lanekeeper/lanekeeper/pkg/estimate"

// A class that is refused because of what it is believed to take is no longer observed, so a belief that is wrong would
// never be mended. Now and then such a request is let in as a probe: its service time is left out of the decision, all
// else holds. The figures:
const (
	// ProbeAfterMS and ProbeRefusals are how long, and how often, an instance must have refused a class for its estimate
	// before it asks for a probe. Accepting one of the class, or ProbeForgetMS without a refusal, begins it afresh.
	ProbeAfterMS  = 10 * 60_000
	ProbeRefusals = 10
	ProbeForgetMS = 60 * 60_000
	// ProbeEveryMS is the least time between two probes of a class. Twenty in the window of estimates are enough.
	ProbeEveryMS = 2 * 60_000
)

// Probeable says whether the decision is a refusal that rests on an estimate which few outcomes stand behind. Whether
// the request would be accepted as a probe is for Decide to say.
func (d *Decision) Probeable() bool {
	return (d.Code == DeadlineInfeasible || d.Code == RejectDeadline) && !d.Probe && d.Samples < estimate.EnoughSamples
}

// Patience is how an instance has seen a class refused for its estimate alone. The zero value has seen nothing. Times are
// unix milliseconds.
type Patience struct {
	SinceMS, LastMS, Refused int64
}

// Refuse notes a refusal and returns whether it is time for a probe.
func (p *Patience) Refuse(nowMS int64) bool {
	if p.Refused == 0 || nowMS-p.LastMS > ProbeForgetMS {
		*p = Patience{SinceMS: nowMS}
	}
	p.LastMS = max(p.LastMS, nowMS)
	p.Refused++
	return p.Refused >= ProbeRefusals && nowMS-p.SinceMS >= ProbeAfterMS
}

package taskop

import "github.com/lanekeeper/lanekeeper/pkg/op"

// A class lets one task in at a time as a probe. Its item names the last one, so that whether
// it is still under way is for that task's row to say: no end has to be noted here, and
// what crashes between taking the item and accepting the task leaves nothing behind but
// a time to wait.

const (
	hTenant = "tn"
	hTask   = "id"
	hUntil  = "til" // no other probe before, unix ms
)

// ProbeKey is the key of a class's item.
func ProbeKey(class string) op.Key { return op.Key{PK: "P#" + class, SK: "p"} }

// Probe is a class's last probe; the zero Probe says that there was none.
type Probe struct {
	Tenant, ID string
	UntilMS    int64
}

// DecodeProbe reads a class's item, nil when there is none.
func DecodeProbe(it op.Item) Probe {
	return Probe{Tenant: it.Str(hTenant), ID: it.Str(hTask), UntilMS: it.Int(hUntil)}
}

// TakeProbe makes a task the probe of its class, if the item is as it was read.
func TakeProbe(class string, was, is Probe) op.Write {
	return op.Write{Name: "probe.take", Key: ProbeKey(class), Action: op.Update, Cond: op.Equals(hUntil, was.UntilMS),
		Changes: []op.Change{op.SetS(hTenant, is.Tenant), op.SetS(hTask, is.ID), op.SetN(hUntil, is.UntilMS), expires(is.UntilMS + dayMS)}}
}

// ReturnProbe gives the item back for a task that was not accepted after all.
func ReturnProbe(class, id string) op.Write {
	return op.Write{Name: "probe.return", Key: ProbeKey(class), Action: op.Delete, Cond: op.Is(hTask, op.S(id))}
}

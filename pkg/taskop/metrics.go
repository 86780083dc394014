package taskop

import "github.com/lanekeeper/lanekeeper/pkg/op"

// MetricsKey is the key of what the aggregator last reported.
func MetricsKey() op.Key { return op.Key{PK: "G", SK: "m"} }

// Reported is what the aggregator last reported: when, and in a form of its own
// which counts. A missing item (nil) is nothing, at 0.
func Reported(it op.Item) (body []byte, atMS int64) { return it.Bytes(sBody), it.Int(sAt) }

// Report takes the turn to report: it notes what is reported now, if nobody has
// reported since prevMS. So a minute may be missing after a fault of the store,
// but it is never reported twice.
func Report(body []byte, prevMS, nowMS int64) op.Write {
	cond := op.Is(sAt, op.N(prevMS))
	if prevMS == 0 {
		cond = op.ItemMissing
	}
	return op.Write{Name: "metrics.report", Key: MetricsKey(), Action: op.Put, Cond: cond, Item: op.Item{sBody: op.B(body), sAt: op.N(nowMS)}}
}

package taskop

import (
	"sort"
	"strconv"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// AddCounts adds to counters of one item. It must not be repeated by itself;
// counts lost or doubled by a fault of the store are accepted (they are
// statistics, no budget rests on them). The item may be deleted from expiresMS on;
// 0: never.
func AddCounts(name string, key op.Key, counts map[string]int64, expiresMS int64) op.Write {
	attrs := make([]string, 0, len(counts))
	for attr := range counts {
		attrs = append(attrs, attr)
	}
	sort.Strings(attrs)
	w := op.Write{Name: name, Key: key, Action: op.Update, Once: true}
	for _, attr := range attrs {
		w.Changes = append(w.Changes, op.Add(attr, counts[attr]))
	}
	if expiresMS > 0 {
		w.Changes = append(w.Changes, expires(expiresMS))
	}
	return w
}

// Counts are the numbers of a counter item.
func Counts(it op.Item) map[string]int64 {
	out := make(map[string]int64, len(it))
	for attr, v := range it {
		if v.Kind() == op.KindInt && attr != op.TTL {
			out[attr] = v.Int()
		}
	}
	return out
}

// BinAttr names the attribute of bin i of a series ("s", "o", …).
func BinAttr(series string, i int) string { return series + "." + strconv.Itoa(i) }

// ParseBinAttr reads a BinAttr.
func ParseBinAttr(attr string) (series string, i int, ok bool) {
	series, num, found := strings.Cut(attr, ".")
	i, err := strconv.Atoi(num)
	return series, i, found && err == nil
}

// Attributes of the published estimates and of the aggregator's lease.
const (
	sBody = "v"
	sAt   = "t"

	gOwner = "own"
	gEpoch = "ep"
	gUntil = "til"
	gWant  = "want"
)

// Publish replaces part n of the published estimates, unless a later epoch of
// the aggregator has published already.
func Publish(part int, body []byte, nowMS, epoch int64) op.Write {
	return op.Write{Name: "publish", Key: EstimatesKey(part), Action: op.Put,
		Cond: op.Any{op.ItemMissing, op.Cmp{Attr: gEpoch, Op: op.Le, Value: op.N(epoch)}},
		Item: op.Item{sBody: op.B(body), sAt: op.N(nowMS), gEpoch: op.N(epoch)}}
}

// MarginsKey is the key of the lanes' learned margins, beside the estimates.
func MarginsKey() op.Key { return op.Key{PK: EstimatesKey(0).PK, SK: "margins"} }

// PublishMargins replaces them, unless a later epoch of the aggregator has published already.
func PublishMargins(body []byte, nowMS, epoch int64) op.Write {
	w := Publish(0, body, nowMS, epoch)
	w.Name, w.Key = "publish.margins", MarginsKey()
	return w
}

// Published is the body and time of a part of the estimates.
func Published(it op.Item) (body []byte, atMS int64) { return it.Bytes(sBody), it.Int(sAt) }

// Run is the aggregator's lease.
type Run struct {
	Owner   string
	Epoch   int64
	UntilMS int64
	Wanted  string // who asked the owner to stop
}

// DecodeRun reads the lease; a missing item (nil) is a lease that has run out.
func DecodeRun(it op.Item) Run {
	return Run{Owner: it.Str(gOwner), Epoch: it.Int(gEpoch), UntilMS: it.Int(gUntil), Wanted: it.Str(gWant)}
}

func runWrite(name string, cond op.Cond, changes ...op.Change) op.Write {
	return op.Write{Name: name, Key: AggregatorKey(), Action: op.Update, Cond: cond, Changes: changes}
}

// TakeRun takes the lease that was read as r, free or run out, with the next
// epoch.
func TakeRun(r Run, owner string, untilMS int64) op.Write {
	cond := op.All{op.Equals(gEpoch, r.Epoch), op.Equals(gUntil, r.UntilMS)}
	return runWrite("run.take", cond, op.SetS(gOwner, owner), op.SetN(gEpoch, r.Epoch+1), op.SetN(gUntil, untilMS), op.Remove(gWant))
}

// AskRun asks the owner of r to stop after its tick.
func AskRun(r Run, newcomer string) op.Write {
	return runWrite("run.ask", op.Is(gEpoch, op.N(r.Epoch)), op.SetS(gWant, newcomer))
}

// RenewRun extends an owner's lease; the item it returns says who wants it.
func RenewRun(r Run, untilMS int64) op.Write {
	return runWrite("run.renew", op.All{op.Is(gEpoch, op.N(r.Epoch)), op.Is(gOwner, op.S(r.Owner))}, op.SetN(gUntil, untilMS))
}

// EndRunLease gives the lease up.
func EndRunLease(r Run) op.Write {
	return runWrite("run.end", op.All{op.Is(gEpoch, op.N(r.Epoch)), op.Is(gOwner, op.S(r.Owner))}, op.SetN(gUntil, 0), op.Remove(gWant))
}

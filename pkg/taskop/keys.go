package taskop

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// TaskShards is how many partitions a tenant's rows are spread over.
const TaskShards = 4

// DueShards is how many partitions the due index is spread over.
const DueShards = 16

func shard(id string, n uint32) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return int(h.Sum32() % n)
}

// RowPartition is the partition of a tenant's rows with the given shard.
func RowPartition(tenant string, shard int) string {
	return "T#" + tenant + "#" + strconv.Itoa(shard)
}

// RowKey is the key of a task's row.
func RowKey(tenant, id string) op.Key {
	return op.Key{PK: RowPartition(tenant, shard(id, TaskShards)), SK: id}
}

// ParseRowKey returns the tenant and id of a row's key.
func ParseRowKey(k op.Key) (tenant, id string, ok bool) {
	rest, found := strings.CutPrefix(k.PK, "T#")
	i := strings.LastIndexByte(rest, '#')
	if !found || i < 0 {
		return "", "", false
	}
	return rest[:i], k.SK, true
}

// PayloadKey is the key of a payload kept beside its row.
func PayloadKey(tenant, id string) op.Key {
	return op.Key{PK: "Y#" + tenant + "#" + strconv.Itoa(shard(id, TaskShards)), SK: id + "#p"}
}

// ResultKey is the key of a result kept beside its row. The generation makes
// it immutable: a later attempt writes another item.
func ResultKey(tenant, id string, gen int64) op.Key {
	return op.Key{PK: "Y#" + tenant + "#" + strconv.Itoa(shard(id, TaskShards)), SK: fmt.Sprintf("%s#r%d", id, gen)}
}

// LedgerKey is the key of a tenant's ledger.
func LedgerKey(tenant string) op.Key { return op.Key{PK: "L#" + tenant, SK: "l"} }

// LanePrefix begins the partition key of every lane item.
const LanePrefix = "N#"

// LedgerPrefix begins the partition key of every ledger.
const LedgerPrefix = "L#"

// LaneKey is the key of a lane's item (shard 0; lanes are not sharded yet).
func LaneKey(lane string) op.Key { return op.Key{PK: LanePrefix + lane + "#0", SK: "n"} }

// TenantKey is the key of a tenant's contract.
func TenantKey(tenant string) op.Key { return op.Key{PK: "E#" + tenant, SK: "e"} }

// CredentialKey is the key under which a credential's owner is kept. Only its
// SHA-256 is stored.
func CredentialKey(secret string) op.Key {
	return CredentialKeyOf(HashOf(secret))
}

// SnapshotKey is the key of a lane's snapshot of waiting work by key.
func SnapshotKey(lane string) op.Key { return op.Key{PK: SnapshotPrefix + lane, SK: "v"} }

// SnapshotPrefix begins the partition key of every snapshot.
const SnapshotPrefix = "V#"

// EstimatesKey is the key of part n of the published estimates.
func EstimatesKey(part int) op.Key { return op.Key{PK: "S", SK: strconv.Itoa(part)} }

// BinsKey is the key of a (class, bucket)'s outcome bins in one window.
func BinsKey(class, bucket string, window int64) op.Key {
	return op.Key{PK: "C#" + class + "#" + bucket, SK: strconv.FormatInt(window, 10)}
}

// CountersKey is the key of a group of counters.
func CountersKey(group string) op.Key { return op.Key{PK: "M#" + group, SK: "m"} }

// AggregatorKey is the key of the aggregator's lease.
func AggregatorKey() op.Key { return op.Key{PK: "G", SK: "g"} }

// DuePartition is the due index's partition with the given shard.
func DuePartition(shard int) string { return fmt.Sprintf("D#%02d", shard) }

// DueSort is the due index's sort key of a time.
func DueSort(dueMS int64) string { return fmt.Sprintf("%013d", max(dueMS, 0)) }

// ParseDueSort is the time in a due sort key.
func ParseDueSort(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

func duePartitionOf(id string) string { return DuePartition(shard(id, DueShards)) }

// ReadyPartition is the ready index's partition of a lane's waiting and
// eligible tasks.
func ReadyPartition(lane string) string { return "R#" + lane }

// LowPartition is the ready index's partition of the tasks of low priority that wait in a
// lane which keeps slots for them, so that their head is found whatever waits before it.
func LowPartition(lane string) string { return "R#" + lane + "#low" }

// WaitingPartitions are all partitions of a lane's waiting tasks.
func WaitingPartitions(lane string) []string {
	return []string{ReadyPartition(lane), LowPartition(lane), ParkedPartition(lane)}
}

// ParkedPartition is the ready index's partition of a lane's parked tasks,
// ordered by tenant and then as they would stand in the ready order.
func ParkedPartition(lane string) string { return "P#" + lane }

// ReadySort is the schedule: the fair-order tag, then submission time, then
// id. The amount rides along so that the backlog can be summed from the index.
func ReadySort(tag, submittedMS int64, id string, amountMS int64) string {
	return fmt.Sprintf("%016d.%013d.%s.%d", min(max(tag, -tagOffset), 8*tagOffset)+tagOffset, submittedMS, id, amountMS)
}

// tagOffset keeps sort keys of shifted tags from becoming negative.
const tagOffset = 1_000_000_000_000_000

// sharedSort is a ready sort key in a lane that several lanes share: it ends
// with the lane that the task came from, so that a lane which holds its part
// already can be passed over without reading rows.
func sharedSort(ready, origin string) string { return ready + "." + origin }

// RetryTag is the fair-order tag of a repeated attempt: by priority (0 is the
// highest), and within it by the time from which it may begin.
func RetryTag(priorityRank int, notBeforeMS int64) int64 {
	return int64(max(priorityRank, 0))*1e14 + max(notBeforeMS, 0)
}

// ReadyEntry is what a ready sort key says.
type ReadyEntry struct {
	Tenant      string // parked entries only
	Tag         int64
	SubmittedMS int64
	ID          string
	AmountMS    int64
	Origin      string // the lane it came from, where that is another
}

// ParseReadySort reads a sort key of the ready index, parked or not.
func ParseReadySort(s string) (ReadyEntry, error) {
	var e ReadyEntry
	if i := strings.IndexByte(s, '/'); i >= 0 {
		e.Tenant, s = s[:i], s[i+1:]
	}
	parts := strings.Split(s, ".")
	if len(parts) == 5 {
		e.Origin, parts = parts[4], parts[:4]
	}
	if len(parts) != 4 {
		return ReadyEntry{}, fmt.Errorf("taskop: bad ready sort key %q", s)
	}
	var errs [3]error
	e.Tag, errs[0] = strconv.ParseInt(parts[0], 10, 64)
	e.Tag -= tagOffset
	e.SubmittedMS, errs[1] = strconv.ParseInt(parts[1], 10, 64)
	e.ID = parts[2]
	e.AmountMS, errs[2] = strconv.ParseInt(parts[3], 10, 64)
	for _, err := range errs {
		if err != nil {
			return ReadyEntry{}, fmt.Errorf("taskop: bad ready sort key %q: %w", s, err)
		}
	}
	return e, nil
}

// parkedSort puts the tenant before the place in the order.
func parkedSort(tenant, ready string) string { return tenant + "/" + ready }

// ParkedRange are the bounds of one tenant's parked tasks.
func ParkedRange(tenant string) (from, to string) { return tenant + "/", tenant + "0" } // '0' follows '/'

// OrderOf is a ready sort key without the tenant that a parked one begins with:
// what stands in one order for all.
func OrderOf(sortKey string) string {
	if i := strings.IndexByte(sortKey, '/'); i >= 0 {
		return sortKey[i+1:]
	}
	return sortKey
}

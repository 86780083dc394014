package taskop

import (
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// Attributes of an entry of the audit.
const (
	uWho    = "who"
	uAct    = "act"
	uOn     = "on"
	uDetail = "detail"
)

// AuditEntry is one act: who did what to what, and when.
type AuditEntry struct {
	AtMS   int64
	Who    string // an operator's key id, or the function that acted by itself
	Act    string
	On     string // what it was done to
	Detail string // JSON or text, without credentials and payloads
}

// AuditPartition is the audit's partition of a time's UTC day.
func AuditPartition(atMS int64) string {
	return "A#" + time.UnixMilli(atMS).UTC().Format(time.DateOnly)
}

func (e AuditEntry) item() op.Item {
	it := op.Item{uWho: op.S(e.Who), uAct: op.S(e.Act), uOn: op.S(e.On), op.TTL: op.N(seconds(e.AtMS + EvidenceKeptMS))}
	if e.Detail != "" {
		it[uDetail] = op.S(e.Detail)
	}
	return it
}

// Audit writes an entry. The nonce keeps two acts of one millisecond apart.
func Audit(e AuditEntry, nonce string) op.Write {
	return op.Write{Name: "audit", Key: op.Key{PK: AuditPartition(e.AtMS), SK: fmt.Sprintf("%013d#%s", e.AtMS, nonce)}, Action: op.Put, Item: e.item()}
}

// DecodeAudit reads an entry of the audit; e.AtMS is in its key.
func DecodeAudit(key op.Key, it op.Item) AuditEntry {
	e := AuditEntry{Who: it.Str(uWho), Act: it.Str(uAct), On: it.Str(uOn), Detail: it.Str(uDetail)}
	_, _ = fmt.Sscanf(key.SK, "%d#", &e.AtMS)
	return e
}

// ParkedBodyKey is where a message that nobody could act on is kept for the
// operator, once, under the hash of its body.
func ParkedBodyKey(hash string) op.Key { return op.Key{PK: "U#" + hash[:2], SK: hash} }

// ParkBody keeps such a message, and notes it in the audit, once: it fails on
// write 0 when the same body was kept before.
func ParkBody(body, hash string, e AuditEntry) op.Tx {
	return op.Tx{Name: "park_body", Writes: []op.Write{
		{Name: "park_body.body", Key: ParkedBodyKey(hash), Action: op.Put, Cond: op.ItemMissing, Item: op.Item{aBody: op.S(body), uWho: op.S(e.Who), kCreated: op.N(e.AtMS), op.TTL: op.N(seconds(e.AtMS + EvidenceKeptMS))}},
		Audit(e, hash[:16]),
	}}
}

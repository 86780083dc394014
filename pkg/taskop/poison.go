package taskop

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

const (
	pCount  = "n"
	pFailed = "i#" // and a task's id: it failed with this payload and signature
)

// PoisonKey is where the tasks of a tenant and class are counted that failed
// with a payload and a signature on the UTC day of a time.
func PoisonKey(tenant, class, payload, signature string, nowMS int64) op.Key {
	sum := sha256.Sum256([]byte(payload))
	return op.Key{PK: "X#" + tenant + "#" + class + "#" + hex.EncodeToString(sum[:16]), SK: AuditPartition(nowMS)[2:] + "#" + signature}
}

// CountPoison counts a task once under a PoisonKey, at most most of them: the
// item stays small. The item it returns, or that a failed condition met, gives
// Poisoned. It is kept for two days; nothing rests on when it goes.
func CountPoison(key op.Key, id string, most, nowMS int64) op.Write {
	return op.Write{Name: "poison.count", Key: key, Action: op.Update,
		Cond:    op.All{op.Missing{Attr: pFailed + id}, op.AtMost(pCount, most-1)},
		Changes: []op.Change{op.Add(pCount, 1), op.SetN(pFailed+id, 1), expires(nowMS + 2*dayMS)}}
}

// Poisoned is how many tasks an item of CountPoison has counted.
func Poisoned(it op.Item) int64 { return it.Int(pCount) }

package taskop

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

const (
	eTier     = "tier"
	kTenant   = "tenant"
	kOperator = "operator"
	kID       = "id"   // the key's public id
	kHash     = "hash" // on a tenant's list of keys: where the credential is
	kCreated  = "at"
	kGone     = "gone" // withdrawn at; the item stays, so that no seed brings the key back

	keyPrefix = "k#"
)

// Credential says whom a key stands for.
type Credential struct {
	Tenant   string
	Operator bool
	KeyID    string // public, names the key in lists and in the audit
}

// HashOf is the SHA-256 of a key, in hex: all that is stored of it.
func HashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// KeyIDOf derives a public id from a key's hash: 64 of its 256 bits say nothing
// about the key.
func KeyIDOf(hash string) string { return "key_" + hash[:16] }

// CredentialKeyOf is the key of the credential with a hash.
func CredentialKeyOf(hash string) op.Key { return op.Key{PK: "K#" + hash, SK: "k"} }

// KeyEntryKey is the key of an entry in a tenant's list of keys.
func KeyEntryKey(tenant, id string) op.Key {
	return op.Key{PK: TenantKey(tenant).PK, SK: keyPrefix + id}
}

// KeyEntries is the query of a tenant's list of keys.
func KeyEntries(tenant string) op.Query {
	return op.Query{PK: TenantKey(tenant).PK, From: keyPrefix, To: "k$", Consistent: true} // '$' follows '#'
}

// PutCredential stores an operator's or a tenant's key under its hash, unless
// it is or was there.
func PutCredential(secret string, c Credential) op.Write {
	it := op.Item{}
	if c.Operator {
		it[kOperator] = op.N(1)
	} else {
		it[kTenant] = op.S(c.Tenant)
	}
	if c.KeyID != "" {
		it[kID] = op.S(c.KeyID)
	}
	return op.Write{Name: "credential.put", Key: CredentialKey(secret), Action: op.Put, Cond: op.ItemMissing, Item: it}
}

// AddKey stores a tenant's key, its entry in the tenant's list and, where given,
// the audit's entry, in one transaction. It fails on write 0 when the key is or
// was there, on write 2 when the tenant does not exist.
func AddKey(tenant, secret string, nowMS int64, audit *op.Write) op.Tx {
	hash := HashOf(secret)
	id := KeyIDOf(hash)
	writes := []op.Write{
		PutCredential(secret, Credential{Tenant: tenant, KeyID: id}),
		{Name: "key.list", Key: KeyEntryKey(tenant, id), Action: op.Put, Cond: op.ItemMissing, Item: op.Item{kHash: op.S(hash), kCreated: op.N(nowMS)}},
		// An update, so that no further permission than that of writing is needed.
		{Name: "key.tenant", Key: TenantKey(tenant), Action: op.Update, Cond: op.ItemExists, Changes: []op.Change{op.SetN(kCreated, nowMS)}},
	}
	if audit != nil {
		writes = append(writes, *audit)
	}
	return op.Tx{Name: "key.add", Writes: writes}
}

// RemoveKey withdraws a tenant's key for good: a tombstone stays. It fails on
// write 0 when the key is not in the list.
func RemoveKey(tenant, id, hash string, nowMS int64, audit op.Write) op.Tx {
	return op.Tx{Name: "key.remove", Writes: []op.Write{
		{Name: "key.unlist", Key: KeyEntryKey(tenant, id), Action: op.Delete, Cond: op.ItemExists},
		{Name: "credential.withdraw", Key: CredentialKeyOf(hash), Action: op.Put, Item: op.Item{kGone: op.N(nowMS)}},
		audit,
	}}
}

// KeyEntry is an entry of a tenant's list of keys.
type KeyEntry struct {
	ID, Hash  string
	CreatedMS int64
}

// DecodeKeyEntry reads a row of KeyEntries.
func DecodeKeyEntry(key op.Key, it op.Item) KeyEntry {
	return KeyEntry{ID: key.SK[len(keyPrefix):], Hash: it.Str(kHash), CreatedMS: it.Int(kCreated)}
}

// DecodeCredential reads a credential; ok is false when there is none, or it
// was withdrawn.
func DecodeCredential(it op.Item) (c Credential, ok bool) {
	c = Credential{Tenant: it.Str(kTenant), Operator: it.Has(kOperator), KeyID: it.Str(kID)}
	return c, it != nil && !it.Has(kGone) && (c.Operator || c.Tenant != "")
}

// PutTenant stores a tenant's contract, unless it is there.
func PutTenant(tenant, tier string) op.Write {
	return op.Write{Name: "tenant.put", Key: TenantKey(tenant), Action: op.Put, Cond: op.ItemMissing, Item: op.Item{eTier: op.S(tier)}}
}

// SetTier changes the tier of a tenant that had another one.
func SetTier(tenant, from, to string) op.Write {
	return op.Write{Name: "tenant.tier", Key: TenantKey(tenant), Action: op.Update, Cond: op.Is(eTier, op.S(from)), Changes: []op.Change{op.SetS(eTier, to)}}
}

// DecodeTenant reads a tenant's tier, "" when there is no such tenant.
func DecodeTenant(it op.Item) (tier string) { return it.Str(eTier) }

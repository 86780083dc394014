package taskop

import "github.com/lanekeeper/lanekeeper/pkg/op"

const (
	eTier     = "tier"
	kTenant   = "tenant"
	kOperator = "operator"
)

// Credential says whom a key stands for.
type Credential struct {
	Tenant   string
	Operator bool
}

// PutCredential stores a key's owner under its hash, unless it is there.
func PutCredential(secret string, c Credential) op.Write {
	it := op.Item{}
	if c.Operator {
		it[kOperator] = op.N(1)
	} else {
		it[kTenant] = op.S(c.Tenant)
	}
	return op.Write{Name: "credential.put", Key: CredentialKey(secret), Action: op.Put, Cond: op.ItemMissing, Item: it}
}

// DecodeCredential reads a credential; ok is false when there is none.
func DecodeCredential(it op.Item) (c Credential, ok bool) {
	c = Credential{Tenant: it.Str(kTenant), Operator: it.Has(kOperator)}
	return c, it != nil && (c.Operator || c.Tenant != "")
}

// PutTenant stores a tenant's contract, unless it is there.
func PutTenant(tenant, tier string) op.Write {
	return op.Write{Name: "tenant.put", Key: TenantKey(tenant), Action: op.Put, Cond: op.ItemMissing, Item: op.Item{eTier: op.S(tier)}}
}

// DecodeTenant reads a tenant's tier, "" when there is no such tenant.
func DecodeTenant(it op.Item) (tier string) { return it.Str(eTier) }

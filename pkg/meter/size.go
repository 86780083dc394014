package meter

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

type attrs = map[string]types.AttributeValue

const (
	writeUnit = 1 << 10
	readUnit  = 4 << 10
)

// units is how many pieces of unit bytes size takes, at least one.
func units(size, unit int) float64 { return float64(max(1, (size+unit-1)/unit)) }

// sizeOf is an item's size in bytes by DynamoDB's rules (Developer Guide,
// "Item sizes and formats"), those of op.Size; 0 for a missing item.
func sizeOf(item attrs) int {
	size := 0
	for name, v := range item {
		size += len(name)
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			size += len(v.Value)
		case *types.AttributeValueMemberB:
			size += len(v.Value)
		case *types.AttributeValueMemberN:
			size += sizeOfNumber(v.Value)
		default:
			size++ // none of ours
		}
	}
	return size
}

func sizeOfNumber(n string) int {
	digits := strings.TrimLeft(n, "-")
	digits = strings.TrimRight(strings.TrimLeft(digits, "0"), "0")
	size := 1 + (len(digits)+1)/2
	if strings.HasPrefix(n, "-") {
		size++
	}
	return size
}

// entry is the item as the index stores it: keys only; nil when it is not in
// the index.
func entry(ix op.Index, item attrs) attrs {
	pk, sk := ix.Keys()
	if item[pk] == nil || item[sk] == nil {
		return nil
	}
	return attrs{op.AttrPK: item[op.AttrPK], op.AttrSK: item[op.AttrSK], pk: item[pk], sk: item[sk]}
}

// indexUnits is what the change of an item costs in all indexes.
func indexUnits(before, after attrs) float64 {
	total := 0.0
	for _, ix := range op.Indexes() {
		old, now := entry(ix, before), entry(ix, after)
		pk, sk := ix.Keys()
		if old != nil && now != nil && equal(old[pk], now[pk]) && equal(old[sk], now[sk]) {
			continue
		}
		if old != nil {
			total += units(sizeOf(old), writeUnit)
		}
		if now != nil {
			total += units(sizeOf(now), writeUnit)
		}
	}
	return total
}

func equal(a, b types.AttributeValue) bool {
	x, xok := a.(*types.AttributeValueMemberS)
	y, yok := b.(*types.AttributeValueMemberS)
	return xok && yok && x.Value == y.Value
}

package meter

import (
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/op"
)

// The sizes must be those by which op refuses items that are too large.
func TestSizesAreOps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := op.Key{PK: rapid.String().Draw(t, "pk"), SK: rapid.String().Draw(t, "sk")}
		n, s, b := rapid.Int64().Draw(t, "n"), rapid.String().Draw(t, "s"), rapid.SliceOf(rapid.Byte()).Draw(t, "b")
		got := sizeOf(attrs{
			"pk": &types.AttributeValueMemberS{Value: key.PK}, "sk": &types.AttributeValueMemberS{Value: key.SK},
			"n": &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)},
			"s": &types.AttributeValueMemberS{Value: s}, "b": &types.AttributeValueMemberB{Value: b},
		})
		if want := op.Size(key, op.Item{"n": op.N(n), "s": op.S(s), "b": op.B(b)}); got != want {
			t.Fatalf("got %d, want %d (n = %d)", got, want, n)
		}
	})
}

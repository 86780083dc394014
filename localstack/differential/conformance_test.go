package differential

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/op/optest"
)

const floats = "minidyn counts in floating point; DynamoDB has 38 digits"

// TestAdapterConforms holds the adapter on the in-process emulator to the
// guarantees of op.Table.
func TestAdapterConforms(t *testing.T) {
	optest.Exercise(t, openEmulated, optest.Options{Skip: map[string]string{
		"cond/number-extremes":        floats,
		"write/values":                floats,
		"write/add-zero-and-extremes": floats,
		"cond/other-kind":             "minidyn fails on a comparison of different kinds; on DynamoDB it is false",
	}})
}

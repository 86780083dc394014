package fair

import (
	"strings"
	"testing"
)

// TestFair plays the short form of the report.
func TestFair(t *testing.T) {
	var out strings.Builder
	r := &Report{Out: &out}
	r.Play(t, true)
	t.Log("\n" + out.String())
	if r.Failed > 0 || r.Passed == 0 {
		t.Errorf("%d lines failed", r.Failed)
	}
}

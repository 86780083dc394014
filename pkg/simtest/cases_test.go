package simtest

import (
	"flag"
	"fmt"
	"strings"
	"testing"
)

var caseFlag = flag.String("case", "", "print the trace of this case")

// TestCases runs the directed cases, each named after the symptom it once had.
func TestCases(t *testing.T) {
	cfg, err := Config()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Cases() {
		t.Run(strings.ReplaceAll(c.Name, " ", "_"), func(t *testing.T) {
			o := c.Options()
			o.Config, o.Trace = cfg, c.Name == *caseFlag
			res := Run(t, o, c.Script)
			if o.Trace {
				fmt.Println(strings.Join(res.Trace, "\n"))
			}
			for _, v := range c.Broken(res) {
				t.Error(v)
			}
		})
	}
}

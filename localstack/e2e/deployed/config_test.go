package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/lanekeeper/lanekeeper/localstack/e2e"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

func TestChangedConfiguration(t *testing.T) {
	before, err := policyfile.Parse("before", e2e.Configuration())
	if err != nil {
		t.Fatal(err)
	}
	after, err := policyfile.Parse("after", changed())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := after.Lane("agents"); !ok {
		t.Error("no new lane")
	}
	if _, ok := after.Lane("burst"); ok {
		t.Error("the drained lane is still there")
	}
	if before.FunctionTimeout("standard") == after.FunctionTimeout("standard") {
		t.Error("no time limit has changed")
	}
	for _, class := range []string{"agent.migration", "agent.lint", "e2e.agent"} { // what redeploy submits
		if _, ok := after.Class(class); !ok {
			t.Errorf("no class %s", class)
		}
	}
}

func TestRefusesToRunWithoutAnEndpoint(t *testing.T) {
	var out bytes.Buffer
	if passed, failed := run(context.Background(), func(string) string { return "" }, &out); passed != 0 || failed != 1 {
		t.Errorf("%d passed, %d failed: %s", passed, failed, &out)
	}
}

package policyfile

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
)

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// sound holds Parse to its promises on any text: no panic, a usable configuration or faults with places in the file.
func sound(t interface {
	Fatalf(string, ...any)
}, text string) {
	c, err := Parse("x", []byte(text))
	if err == nil {
		compiled, err := c.Compile()
		if err != nil {
			t.Fatalf("does not compile: %v", err)
		}
		again, err := policy.FromCompiled(compiled)
		if err != nil || again.Hash() != c.Hash() {
			t.Fatalf("does not survive compilation: %v", err)
		}
		for _, class := range c.ClassNames() {
			if _, lane, _, _, err := c.Classify(class, nil); err != nil || c.Slots(lane) < 2 {
				t.Fatalf("class %s has no lane with slots: %q %v", class, lane, err)
			}
		}
		return
	}
	var faults *policy.Faults
	if !errors.As(err, &faults) || len(faults.List) == 0 || c != nil {
		t.Fatalf("an error without faults: %v", err)
	}
	lines := strings.Count(text, "\n") + strings.Count(text, "\r") + 1
	for _, f := range faults.List {
		if f.Message == "" || f.Line < 1 && len(text) <= MaxBytes || f.Line > lines || f.Line > 0 && f.Column < 1 {
			t.Fatalf("fault %+v has no place in %d lines", f, lines)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(minimal)
	f.Add(read(f, "testdata/full.yaml"))
	for _, s := range []string{"", "---", "a: &x [*x]", "? a\n: b", "{a: b", "- - -", "<<: 1", "version: 1e999", "lanes: {a: {brakes: [~]}}", "a: |\n  b\n", "%TAG ! x\n---\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) { sound(t, text) })
}

// TestDamagedFiles changes a good file in a few places, which reaches further than arbitrary text does.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	full := read(t, "testdata/full.yaml")
	bits := rapid.SampledFrom([]string{"", " ", "\n", ":", "- ", "[", "]", "{", "}", "~", "&a ", "*a", "!t ", "0", "-1", ".nan", "\"", "'", "#", "|", "\t", "retry", "9999999999999999999", "é", "\r"})
	rapid.Check(t, func(t *rapid.T) {
		text := full
		for range rapid.IntRange(1, 4).Draw(t, "damages") {
			from := rapid.IntRange(0, len(text)).Draw(t, "from")
			to := min(len(text), from+rapid.IntRange(0, 6).Draw(t, "length"))
			text = text[:from] + bits.Draw(t, "bit") + text[to:]
		}
		sound(t, text)
	})
}

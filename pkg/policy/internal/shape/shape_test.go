package shape

import (
	"reflect"
	"regexp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The check by hand and the pattern of the JSON Schema accept the same text. "text" and "url" are left out: their checks
// go further than an expression can.
func TestFormsAreTheirPatterns(t *testing.T) {
	t.Parallel()
	near := map[string]string{
		"name": `[a-zA-Z_-][a-z0-9_-]{0,34}`, "hint": `[a-zA-Z_][a-z0-9_-]{0,34}`, "class": `[a-z.]{1,3}([a-z0-9_.-]{0,12}){0,7}`,
		"key": `[ -~é]{6,12}`, "arn": `arn:(aws)?:lambda:?[a-z:]{0,3}`, "signal": `dependency\.[a-z-]{0,3}\.(error_share|signal|latency_p9|x)`,
	}
	for name, like := range near {
		f, pattern := Forms[name], regexp.MustCompile(Forms[name].Pattern)
		rapid.Check(t, func(t *rapid.T) {
			s := rapid.StringMatching(like).Draw(t, "text")
			want := pattern.MatchString(s) && (f.Longest == 0 || len([]rune(s)) <= f.Longest)
			if f.Valid(s) != want {
				t.Fatalf("%s %q: by hand %v, by pattern %v", name, s, f.Valid(s), want)
			}
		})
	}
}

func TestFormsOfTextAndURL(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{"a": true, "Team é (EU)": true, "": false, " a": false, "a\n": false, "a\tb": false} {
		if Forms["text"].Valid(s) != want {
			t.Errorf("text %q", s)
		}
	}
	for s, want := range map[string]bool{"https://a.example/x": true, "http://localhost:1": true, "ftp://a": false, "https://": false, "a.example": false, "https://a b": false} {
		if Forms["url"].Valid(s) != want {
			t.Errorf("url %q", s)
		}
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	p := Index(Key(Key(Key("", "classes"), "mail.send"), "buckets"), 3)
	if p != `classes["mail.send"].buckets[3]` {
		t.Error(p)
	}
	above := slices.Collect(Above(p))
	want := []string{p, `classes["mail.send"].buckets`, `classes["mail.send"]`, "classes", ""}
	if !slices.Equal(above, want) {
		t.Errorf("%q", above)
	}
	odd := Key(Key("a", `q".[`), "b")
	if got := slices.Collect(Above(odd)); !slices.Equal(got, []string{odd, `a["q\".["]`, "a", ""}) {
		t.Errorf("%q", got)
	}
}

func TestTagsThatMakeNoSensePanic(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]any{
		"rule": struct {
			A int `json:"a" rule:"mini=1"`
		}{},
		"kind": struct {
			A uint8 `json:"a"`
		}{},
		"key": struct{ A int }{},
		"bound": struct {
			A int `json:"a" rule:"min=1s"`
		}{},
		"value": struct {
			A int `json:"a" rule:"default=x"`
		}{},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			New(Of(reflect.TypeOf(v)))
		}()
	}
}

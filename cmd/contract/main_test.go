package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func TestRunAgainstAGivenServer(t *testing.T) {
	t.Parallel()
	var keys []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Authorization"))
		http.NotFound(w, r)
	}))
	defer server.Close()
	env := map[string]string{"BASE_URL": server.URL + "/", "CONTRACT_KEY_A": "my-key"}
	var out bytes.Buffer
	code := run(context.Background(), func(k string) string { return env[k] }, []string{"-run", "^quote/accept"}, &out)
	if code != 1 || !strings.HasSuffix(out.String(), "contract: 0 passed, 1 failed\n") {
		t.Errorf("code %d:\n%s", code, out.String())
	}
	if len(keys) != 1 || keys[0] != "Bearer my-key" {
		t.Errorf("keys sent: %q", keys)
	}
}

func TestRunRefusesABadPattern(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if code := run(context.Background(), func(string) string { return "" }, []string{"-run", "("}, &out); code != 2 {
		t.Errorf("code %d: %s", code, out.String())
	}
	if code := run(context.Background(), func(string) string { return "http://127.0.0.1:1" }, []string{"-run", "^never$"}, &out); code != 0 {
		t.Errorf("nothing to run, nothing failed: code %d", code)
	}
	if !regexp.MustCompile(`contract: 0 passed, 0 failed\n$`).MatchString(out.String()) {
		t.Errorf("%s", out.String())
	}
}

package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func newReader(s string) *bufio.Reader { return bufio.NewReader(strings.NewReader(s)) }

// capture returns a handler that keeps the event it was given.
func capture(into *events.APIGatewayV2HTTPRequest, rawEvent *[]byte) handlerFunc {
	return func(_ context.Context, payload []byte) ([]byte, error) {
		if rawEvent != nil {
			*rawEvent = bytes.Clone(payload)
		}
		return []byte(`{"statusCode":204}`), json.Unmarshal(payload, into)
	}
}

func TestEventGolden(t *testing.T) {
	var e events.APIGatewayV2HTTPRequest
	var payload []byte
	g := setup(capture(&e, &payload), Options{APIID: "abc123"})
	r := raw(t, "POST //v1/a%20b/..%2fc%3Fd/?q=1&q=2&r=a%2Bb+c&flag&bad=%zz HTTP/1.1\r\n"+
		"Host: api.example.com:8080\r\nUser-Agent: curl/8.5.0\r\nX-Two: one\r\nX-Two: two\r\n"+
		"Cookie: s=1; t=2\r\nCookie: u=3\r\nX-Forwarded-For: 198.51.100.1\r\nConnection: keep-alive\r\n"+
		"Content-Type: application/json; charset=utf-8\r\nContent-Length: 9\r\n\r\n{\"a\":\"é\"}")
	r.Body = nopCloser{strings.NewReader(`{"a":"é"}`)}
	if resp := serve(g, r); resp.StatusCode != 204 {
		t.Fatalf("status %d", resp.StatusCode)
	}
	payload = regexp.MustCompile(`Root=1-[0-9a-f]{8}-[0-9a-f]{24}"`).ReplaceAll(payload, []byte(`Root=1-69b31000-000000000000000000000000"`))
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, payload, "", "  "); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "event.json")
	if *update {
		if err := os.WriteFile(golden, append(pretty.Bytes(), '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := pretty.String() + "\n"; got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRawPath(t *testing.T) {
	for target, want := range map[string]string{
		"/":                      "/",
		"/v1/tasks/":             "/v1/tasks/",
		"//v1//tasks":            "//v1//tasks",
		"/v1/./tasks/../x":       "/v1/./tasks/../x",
		"/v1/tasks/%2e%2e%2fkey": "/v1/tasks/../key",
		"/a%2520b":               "/a%20b", // decoded once, not twice
		"/a+b":                   "/a+b",
		"/caf%C3%A9%23x":         "/café#x",
		"/users/me%3Fadmin=true": "/users/me", // what AWS was observed to do
		"http://other/abs":       "/abs",
	} {
		var e events.APIGatewayV2HTTPRequest
		serve(setup(capture(&e, nil), Options{}), raw(t, "GET "+target+"?x=%20 HTTP/1.1\r\nHost: h\r\n\r\n"))
		if e.RawPath != want || e.RequestContext.HTTP.Path != want || e.RawQueryString != "x=%20" {
			t.Errorf("%s: got %q, %q, query %q; want %q", target, e.RawPath, e.RequestContext.HTTP.Path, e.RawQueryString, want)
		}
	}
}

func TestBodyEncoding(t *testing.T) {
	for _, tc := range []struct {
		contentType, body string
		base64            bool
	}{
		{"application/json", `{}`, false},
		{"Application/JSON;charset=UTF-8", `{}`, false},
		{"application/json;;bad=", `{}`, false},
		{"text/csv", "a,b", false},
		{"application/xml", "<a/>", false},
		{"application/javascript", "1", false},
		{"application/problem+json", `{}`, true},
		{"application/x-www-form-urlencoded", "a=b", true},
		{"application/octet-stream", "abc", true},
		{"", "abc", true},
		{"application/json", "\xff\xfe", true},
		{"application/octet-stream", "", false},
	} {
		var e events.APIGatewayV2HTTPRequest
		r := httptest.NewRequest("POST", "/", strings.NewReader(tc.body))
		if tc.contentType != "" {
			r.Header.Set("Content-Type", tc.contentType)
		}
		serve(setup(capture(&e, nil), Options{}), r)
		got := e.Body
		if e.IsBase64Encoded {
			plain, err := base64.StdEncoding.DecodeString(e.Body)
			if err != nil {
				t.Fatal(err)
			}
			got = string(plain)
		}
		if e.IsBase64Encoded != tc.base64 || got != tc.body {
			t.Errorf("%q %q: got base64=%v %q", tc.contentType, tc.body, e.IsBase64Encoded, got)
		}
	}
}

func TestQueryParameters(t *testing.T) {
	for raw, want := range map[string]map[string]string{
		"":              nil,
		"a=1&b=2":       {"a": "1", "b": "2"},
		"a=1&a=2&a=":    {"a": "1,2,"},
		"a%5B%5D=x%2Cy": {"a[]": "x,y"},
		"a":             {"a": ""},
		"&&a=b=c":       {"a": "b=c"},
		"a=%zz":         {"a": "%zz"},
		"a=1+2;b=3":     {"a": "1 2;b=3"},
	} {
		if got := queryParameters(raw); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, want %v", raw, got, want)
		}
	}
}

// Whatever the request, the handler gets JSON from which the body comes back
// byte for byte, and the query as it was written.
func FuzzEvent(f *testing.F) {
	f.Add("/v1/../x", "a=b&c", "application/json", []byte(`{"a":1}`))
	f.Add("//", "%zz;", "", []byte{0xff, 0})
	f.Fuzz(func(t *testing.T, path, query, contentType string, body []byte) {
		r := httptest.NewRequest("POST", "/", bytes.NewReader(body))
		r.URL.Path, r.URL.RawQuery = path, query
		r.Header.Set("Content-Type", contentType[:min(len(contentType), 1<<10)]) // headers have a limit
		var e events.APIGatewayV2HTTPRequest
		if resp := serve(setup(capture(&e, nil), Options{}), r); resp.StatusCode != 204 {
			t.Fatalf("status %d", resp.StatusCode)
		}
		got := []byte(e.Body)
		if e.IsBase64Encoded {
			var err error
			if got, err = base64.StdEncoding.DecodeString(e.Body); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, body) {
			t.Errorf("body %q became %q", body, got)
		}
		if strings.ToValidUTF8(query, "\ufffd") == query && e.RawQueryString != query {
			t.Errorf("query %q became %q", query, e.RawQueryString)
		}
	})
}

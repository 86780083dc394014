package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

type nopCloser struct{ io.Reader }

func (nopCloser) Close() error { return nil }

func TestDecodeResponse(t *testing.T) {
	inferred := map[string]string{"Content-Type": "application/json"}
	for _, tc := range []struct {
		out  string
		want *response // nil: an error
	}{
		{`{"statusCode":201,"headers":{"X-A":"b","n":5,"t":true},"cookies":["a=1"],"body":"hi"}`,
			&response{201, map[string]string{"X-A": "b", "n": "5", "t": "true"}, []string{"a=1"}, []byte("hi")}},
		{`{"statusCode":"404"}`, &response{404, map[string]string{}, nil, []byte{}}},
		{`{"statusCode":200,"headers":null,"multiValueHeaders":null,"cookies":null,"body":null,"isBase64Encoded":null}`,
			&response{200, map[string]string{}, nil, []byte{}}},
		{`{"statusCode":200,"body":"/wA=","isBase64Encoded":true}`, &response{200, map[string]string{}, nil, []byte{0xff, 0}}},

		{`{"message":"hello"}`, &response{200, inferred, nil, []byte(`{"message":"hello"}`)}},
		{`{"StatusCode":500}`, &response{200, inferred, nil, []byte(`{"StatusCode":500}`)}}, // names are exact
		{`"Hello from Lambda!"`, &response{200, inferred, nil, []byte(`Hello from Lambda!`)}},
		{`[1, 2]`, &response{200, inferred, nil, []byte(`[1, 2]`)}},
		{`null`, &response{200, inferred, nil, []byte(`null`)}},
		{`{"a":`, &response{200, inferred, nil, []byte(`{"a":`)}},
		{``, &response{200, inferred, nil, []byte(``)}},

		{`{"statusCode":null}`, nil},
		{`{"statusCode":0}`, nil},
		{`{"statusCode":100}`, nil},
		{`{"statusCode":600}`, nil},
		{`{"statusCode":200.5}`, nil},
		{`{"statusCode":200,"body":{"a":1}}`, nil},
		{`{"statusCode":200,"headers":{"a":["b"]}}`, nil},
		{`{"statusCode":200,"headers":"a"}`, nil},
		{`{"statusCode":200,"cookies":"a=1"}`, nil},
		{`{"statusCode":200,"body":"***","isBase64Encoded":true}`, nil},
		{`{"statusCode":200,"isBase64Encoded":"yes"}`, nil},
	} {
		got, err := decodeResponse([]byte(tc.out))
		switch {
		case tc.want == nil && err == nil:
			t.Errorf("%s: got %+v, want an error", tc.out, got)
		case tc.want != nil && (err != nil || !reflect.DeepEqual(got, tc.want)):
			t.Errorf("%s: got %+v, %v; want %+v", tc.out, got, err, tc.want)
		}
	}
}

func TestWriteResponse(t *testing.T) {
	for name, tc := range map[string]struct {
		out    string
		status int
		header http.Header
		body   string
	}{
		"default type": {`{"statusCode":200,"body":"<html>"}`, 200,
			http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Content-Length": {"6"}}, "<html>"},
		"own type in lower case": {`{"statusCode":429,"headers":{"content-type":"application/problem+json","retry-after":"3"},"body":"{}"}`, 429,
			http.Header{"Content-Type": {"application/problem+json"}, "Retry-After": {"3"}, "Content-Length": {"2"}}, "{}"},
		"hop-by-hop and length are the gateway's": {`{"statusCode":200,"headers":{"connection":"close","Transfer-Encoding":"x","content-length":"99"},"body":"abc"}`, 200,
			http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Content-Length": {"3"}}, "abc"},
		"cookies": {`{"statusCode":200,"cookies":["a=1","b=2"]}`, 200,
			http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Set-Cookie": {"a=1", "b=2"}, "Content-Length": {"0"}}, ""},
		"no content has no body": {`{"statusCode":204,"headers":{"content-type":"a/b"},"body":"ignored"}`, 204,
			http.Header{"Content-Type": {"a/b"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			resp := serve(setup(answer(tc.out), Options{}), httptest.NewRequest("GET", "/", nil))
			resp.Header.Del("Apigw-Requestid")
			if got := text(t, resp); resp.StatusCode != tc.status || got != tc.body || !reflect.DeepEqual(resp.Header, tc.header) {
				t.Errorf("got %d %v %q; want %d %v %q", resp.StatusCode, resp.Header, got, tc.status, tc.header, tc.body)
			}
		})
	}
}

func FuzzDecodeResponse(f *testing.F) {
	f.Add(`{"statusCode":200,"headers":{"a":"b"},"cookies":["c"],"body":"d","isBase64Encoded":false}`)
	f.Add(`"text"`)
	f.Add(`{`)
	f.Fuzz(func(t *testing.T, out string) {
		r, err := decodeResponse([]byte(out))
		if err != nil {
			return
		}
		if r.status < 200 || r.status > 599 {
			t.Errorf("status %d", r.status)
		}
		if !strings.Contains(out, "statusCode") && !strings.Contains(out, `\u`) && r.status != 200 {
			t.Errorf("inferred status %d", r.status)
		}
		r.write(httptest.NewRecorder())
	})
}

package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/lanekeeper/lanekeeper/localstack/function"
)

type handlerFunc func(ctx context.Context, payload []byte) ([]byte, error)

func (f handlerFunc) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return f(ctx, payload)
}

func answer(out string) handlerFunc {
	return func(context.Context, []byte) ([]byte, error) { return []byte(out), nil }
}

// setup returns a gateway with a fixed clock and ids that logs nowhere.
func setup(h lambda.Handler, opts Options) *Gateway {
	opts.Now = func() time.Time { return time.Date(2026, 3, 12, 19, 3, 58, 390e6, time.UTC) }
	opts.NewID = func() string { return "JKJaXmPLvHcESHA=" }
	opts.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	return New(h, opts)
}

func serve(g *Gateway, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// raw reads a request as the server would, keeping its target as written.
func raw(t *testing.T, request string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(newReader(request))
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "203.0.113.7:4711"
	return r
}

func TestOwnAnswersOfTheGateway(t *testing.T) {
	fail := handlerFunc(func(context.Context, []byte) ([]byte, error) { return nil, errors.New("secret detail") })
	panics := handlerFunc(func(context.Context, []byte) ([]byte, error) { panic("secret detail") })
	hang := handlerFunc(func(ctx context.Context, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, nil })
	ok := answer(`{"statusCode":200}`)
	body := func(n int) io.Reader { return strings.NewReader(strings.Repeat("a", n)) }
	chunked := func(n int) io.Reader { return struct{ io.Reader }{body(n)} }
	for name, tc := range map[string]struct {
		handler lambda.Handler
		opts    Options
		body    io.Reader
		header  int // bytes of one header
		status  int
		after   time.Duration
	}{
		"ok":                        {handler: ok, status: 200},
		"handler error":             {handler: fail, status: 500},
		"panic":                     {handler: panics, status: 500},
		"no status":                 {handler: answer(`{"statusCode":"abc"}`), status: 500},
		"answer over 6 MB":          {handler: answer(strings.Repeat("a", function.MaxResponseBytes+1)), status: 500},
		"function times out":        {handler: hang, status: 500, after: 29 * time.Second},
		"integration times out":     {handler: hang, opts: Options{FunctionTimeout: time.Minute}, status: 503, after: 30 * time.Second},
		"body over 10 MB":           {handler: ok, body: body(MaxBodyBytes + 1), status: 413},
		"body over 10 MB, chunked":  {handler: ok, body: chunked(MaxBodyBytes + 1), status: 413},
		"event over 6 MB":           {handler: ok, body: body(function.MaxRequestBytes), status: 413},
		"binary body of 5 MB":       {handler: ok, body: body(5 << 20), status: 413}, // base64
		"headers of 9 KB":           {handler: ok, header: 9 << 10, status: 200},
		"headers of 10 KB and more": {handler: ok, header: 10 << 10, status: 431},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := setup(tc.handler, tc.opts)
				r := httptest.NewRequest("POST", "/v1/tasks", tc.body)
				r.Header.Set("X-Padding", strings.Repeat("x", tc.header))
				if strings.HasPrefix(name, "event") {
					r.Header.Set("Content-Type", "text/plain")
				}
				start := time.Now()
				resp := serve(g, r)
				if took := time.Since(start); resp.StatusCode != tc.status || took != tc.after {
					t.Fatalf("status %d after %v, want %d after %v", resp.StatusCode, took, tc.status, tc.after)
				}
				if resp.Header.Get("Apigw-Requestid") == "" {
					t.Error("no request id")
				}
				if tc.status >= 400 {
					want := `{"message":"` + http.StatusText(tc.status) + `"}`
					if got := text(t, resp); got != want || resp.Header.Get("Content-Type") != "application/json" {
						t.Errorf("got %s %q, want %s", resp.Header.Get("Content-Type"), got, want)
					}
				}
				if err := g.Drain(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestReservedConcurrencyIs503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := setup(handlerFunc(func(context.Context, []byte) ([]byte, error) {
			time.Sleep(time.Second)
			return []byte(`{"statusCode":202}`), nil
		}), Options{Reserved: 1})
		statuses := make(chan int, 3)
		for range 3 {
			go func() { statuses <- serve(g, httptest.NewRequest("GET", "/", nil)).StatusCode }()
		}
		got := map[int]int{}
		for range 3 {
			got[<-statuses]++
		}
		if got[202] != 1 || got[503] != 2 {
			t.Errorf("got %v", got)
		}
	})
}

func TestClientGoneDoesNotStopTheFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finished := false
		g := setup(handlerFunc(func(ctx context.Context, _ []byte) ([]byte, error) {
			select {
			case <-time.After(5 * time.Second):
				finished = true
			case <-ctx.Done():
			}
			return []byte(`{}`), nil
		}), Options{})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		serve(g, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		if !finished {
			t.Error("the function was cancelled with its client")
		}
	})
}

func TestHandlerSeesItsFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := setup(handlerFunc(func(ctx context.Context, _ []byte) ([]byte, error) {
			lc, _ := lambdacontext.FromContext(ctx)
			deadline, _ := ctx.Deadline()
			return json.Marshal(map[string]any{"arn": lc.InvokedFunctionArn, "id": lc.AwsRequestID != "", "left": time.Until(deadline).String()})
		}), Options{ARN: "arn:aws:lambda:eu-west-1:1:function:f"})
		got := text(t, serve(g, httptest.NewRequest("GET", "/", nil)))
		if want := `{"arn":"arn:aws:lambda:eu-west-1:1:function:f","id":true,"left":"29s"}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Through a real server, with a typed handler as the mains start it.
func TestOverTheWire(t *testing.T) {
	h := function.Handler(func(_ context.Context, e events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
		return events.APIGatewayV2HTTPResponse{
			StatusCode: 202, Headers: map[string]string{"Location": e.RawPath + "?" + e.RawQueryString},
			Cookies: []string{"a=1", "b=2; Path=/"}, Body: e.Body,
		}, nil
	})
	server := httptest.NewServer(setup(h, Options{}))
	defer server.Close()

	resp, err := http.Post(server.URL+"//v1/../tasks%2F1?q=a%20b", "application/json", strings.NewReader(`{"a":"<&>"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Location"); resp.StatusCode != 202 || got != "//v1/../tasks/1?q=a%20b" {
		t.Errorf("got %d, %q", resp.StatusCode, got)
	}
	if got := resp.Header.Values("Set-Cookie"); len(got) != 2 || got[1] != "b=2; Path=/" {
		t.Errorf("cookies %q", got)
	}
	if got := text(t, resp); got != `{"a":"<&>"}` {
		t.Errorf("body %q", got)
	}

}

// A client that writes its whole body before it reads must find the 413, not a
// reset connection.
func TestOversizedBodyIsReadSoThatTheAnswerArrives(t *testing.T) {
	server := httptest.NewServer(setup(answer(`{}`), Options{}))
	defer server.Close()
	body := make([]byte, 12<<20)
	for name, request := range map[string]io.Reader{
		"declared": io.MultiReader(strings.NewReader("Content-Length: 12582912\r\n\r\n"), bytes.NewReader(body)),
		"chunked": io.MultiReader(strings.NewReader("Transfer-Encoding: chunked\r\n\r\nC00000\r\n"),
			bytes.NewReader(body), strings.NewReader("\r\n0\r\n\r\n")),
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.Copy(conn, io.MultiReader(strings.NewReader("POST / HTTP/1.1\r\nHost: h\r\n"), request)); err != nil {
				t.Fatalf("the body could not be written: %v", err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || resp.StatusCode != 413 {
				t.Errorf("got %v, %v", resp, err)
			}
		})
	}
}

package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lanekeeper/lanekeeper/localstack/function"
	"github.com/lanekeeper/lanekeeper/pkg/clock"
)

// Limits of an HTTP API ("Quotas for configuring and running an HTTP API").
const (
	MaxBodyBytes   = 10 << 20 // payload
	MaxHeaderBytes = 10_240   // request line and header values together
)

// Options describe the API and its function. Zero values mean the defaults.
type Options struct {
	FunctionName       string        // default "local"
	ARN                string        // the function's; default as in package function
	FunctionTimeout    time.Duration // default 29 s
	IntegrationTimeout time.Duration // default 30 s, the most AWS allows
	Reserved           int           // reserved concurrency; 0 = unlimited

	APIID      string        // default "local"
	AccountID  string        // default "000000000000"
	DomainName string        // default: the Host header without its port
	Now        clock.Clock   // default clock.System
	NewID      func() string // request ids of the gateway; default random
	Log        *slog.Logger  // default slog.Default()
}

func (o Options) withDefaults() Options {
	if o.FunctionTimeout <= 0 {
		o.FunctionTimeout = 29 * time.Second
	}
	if o.IntegrationTimeout <= 0 {
		o.IntegrationTimeout = 30 * time.Second
	}
	if o.APIID == "" {
		o.APIID = "local"
	}
	if o.AccountID == "" {
		o.AccountID = "000000000000"
	}
	if o.Now == nil {
		o.Now = clock.System
	}
	if o.NewID == nil {
		o.NewID = func() string { return rand.Text()[:15] + "=" }
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// Gateway is the API, an http.Handler.
type Gateway struct {
	fn   *function.Function
	opts Options
}

// New makes an API whose every request goes to h.
func New(h lambda.Handler, opts Options) *Gateway {
	opts = opts.withDefaults()
	fn := function.New(h, function.Config{
		Name: opts.FunctionName, ARN: opts.ARN, Timeout: opts.FunctionTimeout,
		Reserved: opts.Reserved, Log: opts.Log,
	})
	return &Gateway{fn: fn, opts: opts}
}

// Stats returns the counts of the function behind the gateway.
func (g *Gateway) Stats() function.Stats { return g.fn.Stats() }

// Drain waits for invocations that outlived their requests. Shut the server
// down first.
func (g *Gateway) Drain(ctx context.Context) error { return g.fn.Drain(ctx) }

// ServeHTTP performs one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := g.opts.NewID()
	w.Header().Set("Apigw-Requestid", id)
	log := g.opts.Log.With("apigw_request_id", id)

	if headerBytes(r) > MaxHeaderBytes {
		refuse(w, http.StatusRequestHeaderFieldsTooLarge)
		return
	}
	body, err := readBody(r)
	switch {
	case errors.Is(err, errBodyTooLarge):
		refuse(w, http.StatusRequestEntityTooLarge)
		return
	case err != nil: // the client went away or broke its own framing
		refuse(w, http.StatusBadRequest)
		return
	}
	event, err := encode(g.event(r, body, id))
	if err != nil { // cannot happen: the event holds strings and numbers only
		log.Error("event not encoded", "error", err)
		refuse(w, http.StatusInternalServerError)
		return
	}
	out, err := g.invoke(r.Context(), event)
	if err != nil {
		log.Error("integration failed", "error", err, "kind", function.KindOf(err))
		refuse(w, statusOf(err))
		return
	}
	resp, err := decodeResponse(out)
	if err != nil {
		log.Error("the function's answer is no response of format 2.0", "error", err)
		refuse(w, http.StatusInternalServerError)
		return
	}
	resp.write(w)
}

// encode writes JSON without Go's escapes for HTML, which would count against
// the limit of the event.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

var errIntegrationTimeout = errors.New("gateway: integration timeout")

// invoke runs the function, detached from the client's connection, and waits for
// it at most the integration's time. The function itself runs on after that.
func (g *Gateway) invoke(ctx context.Context, event []byte) ([]byte, error) {
	type answer struct {
		out []byte
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		out, err := g.fn.Invoke(context.WithoutCancel(ctx), event)
		answers <- answer{out, err}
	}()
	timer := time.NewTimer(g.opts.IntegrationTimeout)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a.out, a.err
	case <-timer.C:
		return nil, errIntegrationTimeout
	}
}

func statusOf(err error) int {
	if errors.Is(err, errIntegrationTimeout) {
		return http.StatusServiceUnavailable
	}
	switch function.KindOf(err) {
	case function.Throttled:
		return http.StatusServiceUnavailable
	case function.RequestTooLarge:
		return http.StatusRequestEntityTooLarge
	default:
		return http.StatusInternalServerError
	}
}

// refuse gives the gateway's own answer for a status.
func refuse(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The status texts are the gateway's messages word for word, and plain ASCII.
	_, _ = io.WriteString(w, `{"message":"`+http.StatusText(status)+`"}`)
}

// headerBytes is the size that AWS limits: the request line and the values of
// all headers.
func headerBytes(r *http.Request) int {
	size := len(r.Method) + 1 + len(r.RequestURI) + 1 + len(r.Proto) + len(r.Host)
	for _, values := range r.Header {
		for _, v := range values {
			size += len(v)
		}
	}
	return size
}

var errBodyTooLarge = errors.New("gateway: body too large")

// readBody reads at most MaxBodyBytes. Of a larger body as much again is read
// and thrown away, since a client that is still writing when the connection
// closes would see that instead of the answer.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	var body []byte
	if r.ContentLength <= MaxBodyBytes {
		var err error
		if body, err = io.ReadAll(io.LimitReader(r.Body, MaxBodyBytes+1)); err != nil {
			return nil, err
		}
		if len(body) <= MaxBodyBytes {
			return body, nil
		}
	}
	_, _ = io.CopyN(io.Discard, r.Body, 2*MaxBodyBytes)
	return nil, errBodyTooLarge
}

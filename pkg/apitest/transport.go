package apitest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// maxBody bounds what is read of an answer.
const maxBody = 64 << 20

// Wrap gives a round tripper that sends by next (nil: the default transport) and reports every answer that violates
// the document, so that any http.Client can be held to it. The answer itself is passed on unchanged. report may be
// called from several goroutines.
func (v *Validator) Wrap(next http.RoundTripper, report func(error)) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &checking{next: next, v: v, report: report}
}

// WrapHandler is [Validator.Wrap] for a handler in this process, without any network between.
func (v *Validator) WrapHandler(h http.Handler, report func(error)) http.RoundTripper {
	return v.Wrap(inProcess{h}, report)
}

type checking struct {
	next   http.RoundTripper
	v      *Validator
	report func(error)
}

// RoundTrip sends, reads the whole answer and checks it.
func (c *checking) RoundTrip(req *http.Request) (*http.Response, error) {
	method := req.Method
	if method == "" {
		method = http.MethodGet
	}
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if closeErr := resp.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if err := c.v.Check(method, req.URL.EscapedPath(), resp.StatusCode, resp.Header, body); err != nil {
		c.report(err)
	}
	return resp, nil
}

// inProcess calls a handler as if it were a server.
type inProcess struct{ h http.Handler }

// RoundTrip serves the request.
func (p inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	in := req.Clone(req.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	in.RequestURI = in.URL.RequestURI()
	if in.Host == "" {
		in.Host = in.URL.Host
	}
	rec := &recorder{header: http.Header{}}
	p.h.ServeHTTP(rec, in)
	rec.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: http.StatusText(rec.status), StatusCode: rec.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: rec.sent, Body: io.NopCloser(&rec.body), ContentLength: int64(rec.body.Len()), Request: req,
	}, nil
}

// recorder keeps what a handler writes. (That of net/http/httptest would add a flag to every program importing us.)
type recorder struct {
	header, sent http.Header
	status       int
	body         bytes.Buffer
}

// Header is what the handler may still change.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader fixes status and headers, once.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status, r.sent = status, r.header.Clone()
	}
}

// Write adds to the body.
func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}

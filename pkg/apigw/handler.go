package apigw

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"

	lambdaevents "github.com/aws/aws-lambda-go/events"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/operate"
)

// Request is API Gateway's event.
type Request = lambdaevents.APIGatewayV2HTTPRequest

// Response is what it expects.
type Response = lambdaevents.APIGatewayV2HTTPResponse

// Handler answers API calls.
type Handler struct {
	svc     *intake.Service
	ops     *operate.Service
	version string
	hash    string
	jwt     JWT
}

// New makes the handler; version is the build's, shown by /healthz.
func New(svc *intake.Service, version string) *Handler {
	return &Handler{svc: svc, ops: operate.New(svc), version: version, hash: svc.Config.Hash()}
}

// call is one request on its way through a route.
type call struct {
	*Handler
	req  *Request
	who  intake.Principal
	args []string // the path's variable segments
}

type route struct {
	method, path string // {} stands for one variable segment
	open         bool   // no credentials needed
	serve        func(*call, context.Context) (*answer, error)
}

var routes = append([]route{
	{http.MethodGet, "/healthz", true, (*call).health},
	{http.MethodPost, "/v1/tasks", false, (*call).submit},
	{http.MethodGet, "/v1/tasks", false, (*call).list},
	{http.MethodGet, "/v1/tasks/{}", false, (*call).get},
	{http.MethodGet, "/v1/tasks/{}/explanation", false, (*call).explain},
	{http.MethodPost, "/v1/tasks/{}/cancel", false, (*call).cancel},
	{http.MethodPost, "/v1/tasks/{}/retry", false, (*call).retry},
	{http.MethodPost, "/v1/quotes", false, (*call).quote},
	{http.MethodGet, "/v1/lanes", false, (*call).lanes},
}, operatorsOnly(operators)...)

// Handle answers one request. It never returns an error: what goes wrong is an
// answer too.
func (h *Handler) Handle(ctx context.Context, req Request) (resp Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			slog.ErrorContext(ctx, "panic", "panic", p, "stack", string(debug.Stack()))
			resp = h.refusal(&req, intake.Unavailable(ctx, "answering", errors.New("panic")))
		}
	}()
	resp = h.answer(ctx, &req)
	h.svc.Tally.FlushDue(ctx, h.svc.Clock(), h.svc.Table)
	return resp, nil
}

func (h *Handler) answer(ctx context.Context, req *Request) Response {
	method := req.RequestContext.HTTP.Method
	path, byToken := h.jwt.path(req.RawPath)
	var found *route
	var allow []string
	c := &call{Handler: h, req: req}
	for i := range routes {
		args, ok := match(routes[i].path, path)
		if !ok {
			continue
		}
		if routes[i].method == method {
			found, c.args = &routes[i], args
			break
		}
		allow = append(allow, routes[i].method)
	}
	if found == nil {
		if len(allow) > 0 {
			resp := h.refusal(req, &intake.Refusal{Code: events.MethodNotAllowed, Detail: "allowed here: " + strings.Join(allow, ", ")})
			resp.Headers["allow"] = strings.Join(allow, ", ")
			return resp
		}
		return h.refusal(req, &intake.Refusal{Code: events.NotFound, Detail: "there is no such path"})
	}
	if !found.open {
		who, err := h.authenticate(ctx, req, byToken)
		if err != nil {
			return h.refusal(req, asRefusal(ctx, err))
		}
		c.who = who
	}
	a, err := found.serve(c, ctx)
	if err != nil {
		return h.refusal(req, asRefusal(ctx, err))
	}
	if byToken {
		a.moveLinks()
	}
	return h.respond(req, a)
}

// match compares a path with a pattern, segment by segment, undecoded: an id
// needs no escapes, so one that has some is no id.
func match(pattern, path string) (args []string, ok bool) {
	want, have := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return nil, false
	}
	for i := range want {
		switch {
		case want[i] == "{}":
			if have[i] == "" {
				return nil, false
			}
			args = append(args, have[i])
		case want[i] != have[i]:
			return nil, false
		}
	}
	return args, true
}

func header(req *Request, name string) (string, bool) {
	if v, ok := req.Headers[name]; ok { // API Gateway lower-cases names
		return v, true
	}
	for k, v := range req.Headers {
		if strings.EqualFold(k, name) {
			return v, true
		}
	}
	return "", false
}

// bearer is the key in the Authorization header, "" when it is none.
func bearer(req *Request) string {
	v, _ := header(req, "authorization")
	scheme, key, ok := strings.Cut(v, " ")
	if !ok || !strings.EqualFold(scheme, "bearer") || strings.ContainsAny(key, " ,") {
		return ""
	}
	return key
}

func asRefusal(ctx context.Context, err error) *intake.Refusal {
	if r := (*intake.Refusal)(nil); errors.As(err, &r) {
		return r
	}
	if errors.Is(err, op.ErrBadCursor) {
		return badCursor()
	}
	return intake.Unavailable(ctx, "answering", err)
}

// answer is a success.
type answer struct {
	status  int
	body    any
	headers map[string]string
}

func (h *Handler) respond(req *Request, a *answer) Response {
	if a.status == http.StatusNoContent {
		return Response{StatusCode: a.status, Headers: map[string]string{"x-request-id": req.RequestContext.RequestID, "cache-control": "no-store"}}
	}
	body, err := json.Marshal(a.body)
	if err != nil {
		slog.Error("an answer could not be encoded", "error", err)
		return h.refusal(req, &intake.Refusal{Code: events.Unavailable, Detail: "the answer could not be written", RetryAfterSeconds: 1})
	}
	headers := map[string]string{"content-type": events.MediaJSON, "x-request-id": req.RequestContext.RequestID, "cache-control": "no-store"}
	for k, v := range a.headers {
		headers[k] = v
	}
	return Response{StatusCode: a.status, Headers: headers, Body: string(body)}
}

func (h *Handler) refusal(req *Request, r *intake.Refusal) Response {
	p := events.NewProblem(r.Code, r.Detail)
	p.Errors, p.Decision = r.Faults, r.Decision
	headers := map[string]string{"content-type": events.MediaProblem, "x-request-id": req.RequestContext.RequestID, "cache-control": "no-store"}
	if r.Code.Retry() {
		p.RetryAfterSeconds = max(r.RetryAfterSeconds, 1)
		headers["retry-after"] = strconv.FormatInt(p.RetryAfterSeconds, 10)
	}
	if r.Code == events.Unauthenticated {
		headers["www-authenticate"] = "Bearer"
	}
	body, err := json.Marshal(p)
	if err != nil {
		slog.Error("a problem could not be encoded", "error", err)
	}
	return Response{StatusCode: p.Status, Headers: headers, Body: string(body)}
}

// body is the request's body, decoded.
func body(req *Request) ([]byte, error) {
	if !req.IsBase64Encoded {
		return []byte(req.Body), nil
	}
	b, err := base64.StdEncoding.DecodeString(req.Body)
	if err != nil {
		return nil, &intake.Refusal{Code: events.InvalidRequest, Detail: "the body could not be read",
			Faults: []events.FieldError{{Pointer: "", Detail: "is not valid base64"}}}
	}
	return b, nil
}

func query(req *Request) (url.Values, error) {
	q, err := url.ParseQuery(req.RawQueryString)
	if err != nil {
		return nil, &intake.Refusal{Code: events.InvalidRequest, Detail: "the query could not be read",
			Faults: []events.FieldError{{Pointer: badParameter(req.RawQueryString), Detail: "the query has a bad escape"}}}
	}
	return q, nil
}

// badParameter points at the first parameter of a query that cannot be read,
// or, when it has no plain name, at the request as a whole.
func badParameter(query string) string {
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if _, err := url.ParseQuery(pair); err != nil && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") == "" {
			return "query:" + name
		}
	}
	return ""
}

func badCursor() *intake.Refusal {
	return &intake.Refusal{Code: events.InvalidRequest, Detail: "the request has one fault",
		Faults: []events.FieldError{{Pointer: "query:cursor", Detail: "is not a cursor of this list"}}}
}

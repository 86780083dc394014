package apigw_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/apigw"
	"github.com/lanekeeper/lanekeeper/pkg/apitest"
	"github.com/lanekeeper/lanekeeper/pkg/env"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/simtest/memtable"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

// api is the handler on virtual time; every answer is held against the document.
type api struct {
	*rig.Rig
	t *testing.T
	h *apigw.Handler
	v *apitest.Validator
}

func serve(t *testing.T, test func(*testing.T, *api), replacements ...string) {
	t.Helper()
	v, err := apitest.New()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		a := &api{Rig: rig.New(rig.Config(t, replacements...), memtable.New(memtable.Options{}), nil), t: t, v: v}
		a.h = apigw.New(a.Intake(), "test")
		for _, tenant := range a.Config.TenantNames() {
			contract, _ := a.Config.Tenant(tenant)
			a.put(taskop.PutTenant(tenant, contract.Tier))
			for _, key := range contract.Keys {
				a.put(taskop.PutCredential(key, taskop.Credential{Tenant: tenant}))
			}
		}
		a.put(taskop.PutCredential("key-admin", taskop.Credential{Operator: true}))
		test(t, a)
	})
}

func (a *api) put(w op.Write) {
	a.t.Helper()
	if _, err := a.Raw.Write(a.t.Context(), w); err != nil {
		a.t.Fatal(err)
	}
}

// request is an event; its parts are given as API Gateway would.
func request(method, path, key, body string, headers ...string) apigw.Request {
	req := apigw.Request{Version: "2.0", RouteKey: "$default", Headers: map[string]string{}}
	req.RawPath, req.RawQueryString, _ = strings.Cut(path, "?")
	req.RequestContext.RequestID = "request-1"
	req.RequestContext.HTTP.Method, req.RequestContext.HTTP.Path = method, req.RawPath
	if key != "" {
		req.Headers["authorization"] = "Bearer " + key
	}
	if body != "" {
		req.Headers["content-type"] = "application/json"
		req.Body = body
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Headers[headers[i]] = headers[i+1]
	}
	return req
}

// do sends a request and checks its answer.
func (a *api) do(req apigw.Request) apigw.Response {
	a.t.Helper()
	resp, err := a.h.Handle(a.t.Context(), req)
	if err != nil {
		a.t.Fatalf("%s %s: %v", req.RequestContext.HTTP.Method, req.RawPath, err)
	}
	a.check(req.RequestContext.HTTP.Method, req.RawPath, resp)
	return resp
}

// check holds an answer against the document; paths in it for callers with a token
// are those of the document after their prefix.
func (a *api) check(method, path string, resp apigw.Response) {
	a.t.Helper()
	header := http.Header{}
	for k, v := range resp.Headers {
		header.Set(k, strings.TrimPrefix(v, env.JWTPrefix))
	}
	body := strings.ReplaceAll(resp.Body, `"`+env.JWTPrefix+"/v1/", `"/v1/`)
	if err := a.v.Check(method, path, resp.StatusCode, header, []byte(body)); err != nil {
		a.t.Error(err)
	}
}

// call is do with a tenant's key of alpha.
func (a *api) call(method, path, body string, headers ...string) apigw.Response {
	a.t.Helper()
	return a.do(request(method, path, "key-alpha", body, headers...))
}

func decoded[T any](t *testing.T, resp apigw.Response) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(resp.Body), &v); err != nil {
		t.Fatalf("%s: %v", resp.Body, err)
	}
	return v
}

func codeOf(t *testing.T, resp apigw.Response) events.Code {
	t.Helper()
	return decoded[struct {
		Code events.Code `json:"code"`
	}](t, resp).Code
}

type seen struct {
	ID      string          `json:"id"`
	State   string          `json:"state"`
	Result  json.RawMessage `json:"result"`
	Attempt int             `json:"attempt"`
}

const aTask = `{"class":"short","deadline_seconds":3600,"payload":{"n":1}}`

// work lets a worker run everything that is queued.
func (a *api) work(h worker.Handler) {
	mux := worker.New()
	mux.Handle("short", h)
	a.Deliver(a.t.Context(), a.Execute(mux), "standard", time.Minute)
}

package apitest_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/apitest"
)

// answer is one answer of a server, to be spoilt in one way by each case.
type answer struct {
	method, path string
	status       int
	header       http.Header
	body         string
}

func sample(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "events", "samples", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func validator(t *testing.T) *apitest.Validator {
	t.Helper()
	v, err := apitest.New()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const taskID = "0199a1c2-3b4d-7e5f-8a6b-7c8d9e0f1a2b"

func submitted(t *testing.T) answer {
	return answer{"POST", "/v1/tasks", 202, http.Header{"Content-Type": {"application/json"},
		"Location": {"/v1/tasks/" + taskID}}, sample(t, "task.waiting.json")}
}

func live(t *testing.T) answer {
	return answer{"GET", "/v1/tasks/" + taskID + "?wait=5", 200, http.Header{"Content-Type": {"application/json; charset=utf-8"},
		"Retry-After": {"1"}}, sample(t, "task.waiting.json")}
}

func done(t *testing.T) answer {
	return answer{"GET", "/v1/tasks/" + taskID, 200, http.Header{"Content-Type": {"application/json"}}, sample(t, "task.succeeded.json")}
}

func refused(t *testing.T) answer {
	return answer{"POST", "/v1/tasks", 503, http.Header{"Content-Type": {"application/problem+json"},
		"Retry-After": {"7"}}, sample(t, "problems/reject_deadline.json")}
}

func quoted(t *testing.T) answer {
	return answer{"POST", "/v1/quotes", 200, http.Header{"Content-Type": {"application/json"}}, sample(t, "quote.reject.json")}
}

func missing(t *testing.T) answer {
	return answer{"GET", "/v1/tasks/" + taskID, 404, http.Header{"Content-Type": {"application/problem+json"}}, sample(t, "problems/not_found.json")}
}

func notAllowed(t *testing.T) answer {
	return answer{"PUT", "/v1/tasks", 405, http.Header{"Content-Type": {"application/problem+json"}, "Allow": {"GET, POST"}},
		sample(t, "problems/method_not_allowed.json")}
}

func TestGoodAnswersPass(t *testing.T) {
	t.Parallel()
	v := validator(t)
	replayed := submitted(t)
	replayed.header.Set("Idempotency-Replayed", "true")
	unknownPath := missing(t)
	unknownPath.path = "/v2/nothing"
	notYet := missing(t)
	notYet.method, notYet.path = "POST", "/v1/tasks/"+taskID+"/retry"
	head := notAllowed(t)
	head.method, head.body = "HEAD", ""
	dots := missing(t)
	dots.path = "/v1/tasks/..%2F..%2Fetc%2Fpasswd"
	for _, a := range []answer{submitted(t), live(t), done(t), refused(t), quoted(t), missing(t), notAllowed(t), replayed, unknownPath,
		notYet, head, dots,
		{"GET", "/v1/lanes", 200, http.Header{"Content-Type": {"application/json"}}, sample(t, "lanes.json")},
		{"GET", "/healthz", 200, http.Header{"Content-Type": {"application/json"}}, sample(t, "health.json")},
		{"GET", "/v1/tasks", 200, http.Header{"Content-Type": {"application/json"}}, sample(t, "task_page.json")},
		{"GET", "/nowhere", 401, http.Header{"Content-Type": {"application/problem+json"}}, sample(t, "problems/unauthenticated.json")},
	} {
		if err := v.Check(a.method, a.path, a.status, a.header, []byte(a.body)); err != nil {
			t.Error(err)
		}
	}
}

func TestEachProblemPassesUnderItsStatus(t *testing.T) {
	t.Parallel()
	v := validator(t)
	where := map[events.Code][2]string{
		events.NotFound: {"GET", "/v1/tasks/" + taskID}, events.AlreadyFinished: {"POST", "/v1/tasks/" + taskID + "/cancel"},
		events.MethodNotAllowed: {"PATCH", "/v1/tasks"},
	}
	for _, code := range events.Codes() {
		at, ok := where[code]
		if !ok {
			at = [2]string{"POST", "/v1/tasks"}
		}
		text := sample(t, "problems/"+string(code)+".json")
		h := http.Header{"Content-Type": {"application/problem+json"}}
		if code == events.MethodNotAllowed {
			h.Set("Allow", "GET, POST")
		}
		if code == events.Unavailable {
			h.Set("Retry-After", "2")
		} else if code.Retry() {
			h.Set("Retry-After", "7")
		}
		if err := v.Check(at[0], at[1], code.Status(), h, []byte(text)); err != nil {
			t.Errorf("%s: %v", code, err)
		}
		if err := v.Check(at[0], at[1], 418, h, []byte(text)); err == nil {
			t.Errorf("%s passed under status 418", code)
		}
	}
}

// set spoils a field of the body; a nil value takes it away.
func set(a *answer, value any, path ...string) {
	var body map[string]any
	if err := json.Unmarshal([]byte(a.body), &body); err != nil {
		panic(err)
	}
	at := body
	for _, p := range path[:len(path)-1] {
		at = at[p].(map[string]any)
	}
	if last := path[len(path)-1]; value == nil {
		delete(at, last)
	} else {
		at[last] = value
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	a.body = string(text)
}

func TestBadAnswersFail(t *testing.T) {
	t.Parallel()
	v := validator(t)
	for name, c := range map[string]struct {
		from  func(*testing.T) answer
		spoil func(*answer)
		want  string // part of the complaint
	}{
		"unknown field":                {submitted, func(a *answer) { set(a, 1, "shard") }, "'shard' not allowed"},
		"unknown field inside":         {quoted, func(a *answer) { set(a, 1, "decision", "free") }, "'free' not allowed"},
		"unknown field in a problem":   {refused, func(a *answer) { set(a, "main.go:7", "stack") }, "'stack' not allowed"},
		"missing field":                {submitted, func(a *answer) { set(a, nil, "at_lane") }, "at_lane"},
		"wrong type":                   {submitted, func(a *answer) { set(a, "0", "attempt") }, "/attempt"},
		"seconds as text":              {quoted, func(a *answer) { set(a, "12s", "decision", "margin_seconds") }, "/decision/margin_seconds"},
		"negative seconds":             {quoted, func(a *answer) { set(a, -1, "decision", "copy_age_seconds") }, "/decision/copy_age_seconds"},
		"time with offset":             {submitted, func(a *answer) { set(a, "2026-03-02T12:15:00.000+02:00", "submitted_at") }, "/submitted_at"},
		"time that does not exist":     {submitted, func(a *answer) { set(a, "2026-02-31T12:15:00.000Z", "submitted_at") }, "/submitted_at"},
		"unknown state":                {submitted, func(a *answer) { set(a, "pending", "state") }, "/state"},
		"null list":                    {submitted, func(a *answer) { a.body = strings.Replace(a.body, `"attempts": []`, `"attempts": null`, 1) }, "/attempts"},
		"live but finished":            {submitted, func(a *answer) { set(a, "2026-03-02T10:15:00.000Z", "finished_at") }, "not"},
		"terminal but not finished":    {done, func(a *answer) { set(a, nil, "finished_at") }, "finished_at"},
		"failed without error":         {done, func(a *answer) { set(a, "failed", "state"); set(a, nil, "result") }, "error"},
		"accept with binding limit":    {quoted, func(a *answer) { set(a, "accept", "decision", "code") }, "/decision/binding_limit"},
		"quote disagrees with itself":  {quoted, func(a *answer) { set(a, "reject_lane_backlog", "outcome") }, "decision.code is"},
		"quote without guidance":       {quoted, func(a *answer) { set(a, nil, "retry_after_seconds") }, "retry_after_seconds"},
		"no Location":                  {submitted, func(a *answer) { a.header.Del("Location") }, "header Location is missing"},
		"Location of another":          {submitted, func(a *answer) { a.header.Set("Location", "/v1/tasks/01234567") }, "is not that of task"},
		"Location malformed":           {submitted, func(a *answer) { a.header.Set("Location", "http://host"+a.header.Get("Location")) }, "header Location"},
		"links of another":             {submitted, func(a *answer) { set(a, "/v1/tasks/01234567", "links", "self") }, "are not those of task"},
		"replayed: yes":                {submitted, func(a *answer) { a.header.Set("Idempotency-Replayed", "yes") }, "Idempotency-Replayed"},
		"replayed on a read":           {done, func(a *answer) { a.header.Set("Idempotency-Replayed", "true") }, "Idempotency-Replayed is not documented"},
		"status not listed":            {submitted, func(a *answer) { a.status = 201 }, "status is not documented"},
		"another task":                 {done, func(a *answer) { a.path = "/v1/tasks/01234567" }, "the answer is task"},
		"live without Retry-After":     {live, func(a *answer) { a.header.Del("Retry-After") }, "Retry-After present is false"},
		"terminal with Retry-After":    {done, func(a *answer) { a.header.Set("Retry-After", "1") }, "Retry-After present is true"},
		"Retry-After not whole":        {live, func(a *answer) { a.header.Set("Retry-After", "1.5") }, "not a whole number"},
		"Retry-After zero":             {live, func(a *answer) { a.header.Set("Retry-After", "0") }, "header Retry-After"},
		"Retry-After twice":            {live, func(a *answer) { a.header.Add("Retry-After", "2") }, "there 2 times"},
		"Retry-After missing":          {refused, func(a *answer) { a.header.Del("Retry-After") }, "header Retry-After is missing"},
		"Retry-After differs":          {refused, func(a *answer) { a.header.Set("Retry-After", "8") }, `Retry-After is "8", retry_after_seconds is "7"`},
		"refusal without decision":     {refused, func(a *answer) { set(a, nil, "decision") }, "decision"},
		"code under wrong status":      {refused, func(a *answer) { set(a, "not_found", "code") }, "belongs to status 404"},
		"type of another code":         {refused, func(a *answer) { set(a, "urn:lanekeeper:problem:other", "type") }, "does not belong to code"},
		"type about:blank":             {missing, func(a *answer) { set(a, "about:blank", "type") }, "/type"},
		"body says another status":     {missing, func(a *answer) { set(a, 400, "status") }, "the body says status 400"},
		"instance reveals the path":    {missing, func(a *answer) { set(a, "/v1/tasks/x", "instance") }, "'instance' not allowed"},
		"problem as plain JSON":        {missing, func(a *answer) { a.header.Set("Content-Type", "application/json") }, "media type application/json"},
		"HTML":                         {missing, func(a *answer) { a.header.Set("Content-Type", "text/html"); a.body = "<p>" }, "media type text/html"},
		"no media type":                {done, func(a *answer) { a.header.Del("Content-Type") }, "Content-Type"},
		"latin-1":                      {done, func(a *answer) { a.header.Set("Content-Type", "application/json; charset=latin1") }, "charset"},
		"empty body":                   {done, func(a *answer) { a.body = "" }, "not JSON"},
		"two bodies":                   {done, func(a *answer) { a.body += a.body }, "not JSON"},
		"duplicate key":                {done, func(a *answer) { a.body = strings.Replace(a.body, `"rows": 1200`, `"rows": 1, "rows": 1200`, 1) }, "key /progress/rows is there twice"},
		"invalid UTF-8":                {missing, func(a *answer) { a.body = strings.Replace(a.body, "No such", "No \xff", 1) }, "not UTF-8"},
		"405 without Allow":            {notAllowed, func(a *answer) { a.header.Del("Allow") }, "header Allow is missing"},
		"405 with too much":            {notAllowed, func(a *answer) { a.header.Set("Allow", "GET, POST, PUT") }, "documented are GET, POST"},
		"method not documented":        {done, func(a *answer) { a.method = "DELETE" }, "only 405"},
		"path not documented":          {done, func(a *answer) { a.path = "/v1/task/x" }, "only 404"},
		"trailing slash":               {done, func(a *answer) { a.path = "/v1/tasks/" }, "only 404"},
		"gateway form without licence": {missing, func(a *answer) { a.header.Set("Content-Type", "application/json"); a.body = `{"message":"Not Found"}` }, "media type"},
	} {
		a := c.from(t)
		if err := v.Check(a.method, a.path, a.status, a.header, []byte(a.body)); err != nil {
			t.Errorf("%s: before it was spoilt: %v", name, err)
		}
		c.spoil(&a)
		err := v.Check(a.method, a.path, a.status, a.header, []byte(a.body))
		if err == nil {
			t.Errorf("%s passed", name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q is not in\n%v", name, c.want, err)
		}
	}
}

func TestAllViolationsAreReportedTogether(t *testing.T) {
	t.Parallel()
	a := submitted(t)
	a.header.Del("Location")
	set(&a, 1, "shard")
	err := validator(t).Check(a.method, a.path, a.status, a.header, []byte(a.body))
	if err == nil || !strings.Contains(err.Error(), "Location") || !strings.Contains(err.Error(), "shard") {
		t.Errorf("got %v", err)
	}
}

func TestGatewayAnswersPassOnlyWhenExempt(t *testing.T) {
	t.Parallel()
	v := validator(t)
	h := http.Header{"Content-Type": {"application/json"}}
	body := []byte(`{"message":"Request Entity Too Large"}`)
	if err := v.Check("POST", "/v1/tasks", 413, h, body); err == nil {
		t.Error("passed without exemption")
	}
	e := v.ExemptGateway()
	if err := e.Check("POST", "/v1/tasks", 413, h, body); err != nil {
		t.Error(err)
	}
	if err := e.Check("POST", "/v1/tasks", 202, h, body); err == nil {
		t.Error("passed under a status that no gateway gives")
	}
	if err := e.Check("POST", "/v1/tasks", 413, h, []byte(`{"message":"x","more":1}`)); err == nil {
		t.Error("passed with more than a message")
	}
}

func TestWrapReportsAndPassesTheAnswerOn(t *testing.T) {
	t.Parallel()
	body := sample(t, "health.json")
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Has("bad") {
			_, _ = io.WriteString(w, `{"status":"fine"}`)
			return
		}
		_, _ = io.WriteString(w, body)
	})
	server := httptest.NewServer(handler)
	defer server.Close()
	v := validator(t)
	var reported []error
	report := func(err error) { reported = append(reported, err) }
	for name, rt := range map[string]http.RoundTripper{"transport": v.Wrap(nil, report), "handler": v.WrapHandler(handler, report)} {
		reported = nil
		client := &http.Client{Transport: rt}
		get := func(url string) string {
			resp, err := client.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		if got := get(server.URL + "/healthz"); got != body || len(reported) != 0 {
			t.Errorf("%s: %s, reported %v", name, got, errors.Join(reported...))
		}
		if got := get(server.URL + "/healthz?bad=1"); got != `{"status":"fine"}` || len(reported) != 1 {
			t.Errorf("%s: %s, reported %v", name, got, errors.Join(reported...))
		}
	}
}

func TestDocumentsWithMistakesAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"#/components/responses/Unavailable'", "#/components/responses/Nowhere'"},
		{"'#/components/headers/RequestID'", "'https://example.com/header'"},
		{"#/components/schemas/TaskPage'", "#/components/schemas/Nowhere'"},
		{"'202':", "'2XX':"},
	} {
		text := strings.Replace(string(events.OpenAPI), c[0], c[1], 1)
		if text == string(events.OpenAPI) {
			t.Fatalf("%s is not in the document", c[0])
		}
		if _, err := apitest.FromDocument([]byte(text)); err == nil {
			t.Errorf("%s in place of %s was accepted", c[1], c[0])
		}
	}
}

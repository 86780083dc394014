package apigw_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/localstack/rig"
	"github.com/lanekeeper/lanekeeper/pkg/apigw"
	"github.com/lanekeeper/lanekeeper/pkg/task"
	"github.com/lanekeeper/lanekeeper/pkg/taskop"
	"github.com/lanekeeper/lanekeeper/pkg/worker"
)

func TestATaskFromSubmissionToDone(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		first := a.call("POST", "/v1/tasks", aTask, "idempotency-key", "k")
		x := decoded[seen](t, first)
		if first.StatusCode != 202 || first.Headers["location"] != "/v1/tasks/"+x.ID || x.State != "queued" {
			t.Fatalf("%+v", first)
		}
		again := a.call("POST", "/v1/tasks", aTask, "Idempotency-Key", "k")
		if again.StatusCode != 202 || again.Headers["idempotency-replayed"] != "true" || decoded[seen](t, again).ID != x.ID {
			t.Errorf("replay: %+v", again)
		}
		if other := a.call("POST", "/v1/tasks", `{"class":"short"}`, "idempotency-key", "k"); other.StatusCode != 409 || codeOf(t, other) != events.IdempotencyConflict {
			t.Errorf("another body: %+v", other)
		}
		if live := a.call("GET", "/v1/tasks/"+x.ID, ""); live.StatusCode != 200 || live.Headers["retry-after"] == "" {
			t.Errorf("live: %+v", live)
		}
		a.work(func(_ context.Context, x *worker.Task) (any, error) { return x.Payload, nil })
		done := a.call("GET", "/v1/tasks/"+x.ID, "")
		if got := decoded[seen](t, done); got.State != "succeeded" || string(got.Result) != `{"n":1}` || done.Headers["retry-after"] != "" {
			t.Errorf("done: %+v", done)
		}
		if c := a.call("POST", "/v1/tasks/"+x.ID+"/cancel", ""); c.StatusCode != 409 || codeOf(t, c) != events.AlreadyFinished {
			t.Errorf("cancel of what is done: %+v", c)
		}
	})
}

// TestWaitAnswersAsSoonAsATaskIsDone and at the latest after the time asked for.
func TestWaitAnswersAsSoonAsATaskIsDone(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		id := decoded[seen](t, a.call("POST", "/v1/tasks", aTask)).ID
		began := time.Now()
		if x := decoded[seen](t, a.call("GET", "/v1/tasks/"+id+"?wait=5", "")); x.State != "queued" || time.Since(began) != 5*time.Second {
			t.Errorf("%+v after %v", x, time.Since(began))
		}
		began = time.Now()
		time.AfterFunc(3*time.Second, func() { a.work(func(context.Context, *worker.Task) (any, error) { return nil, nil }) })
		if x := decoded[seen](t, a.call("GET", "/v1/tasks/"+id+"?wait=25", "")); x.State != "succeeded" || time.Since(began) > 4*time.Second {
			t.Errorf("%+v after %v", x, time.Since(began))
		}
	})
}

// A quarantined task does not become anything by waiting for it.
func TestWaitAnswersAtOnceOnAQuarantinedTask(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		id := decoded[seen](t, a.call("POST", "/v1/tasks", aTask)).ID
		time.AfterFunc(3*time.Second, func() {
			a.work(func(context.Context, *worker.Task) (any, error) { return nil, errors.New("never") })
		})
		for _, most := range []time.Duration{4 * time.Second, 0} { // as soon as it is, and at once when it is
			began := time.Now()
			resp := a.call("GET", "/v1/tasks/"+id+"?wait=25", "")
			if x := decoded[seen](t, resp); x.State != "quarantined" || time.Since(began) > most || resp.Headers["retry-after"] != "" {
				t.Errorf("%+v after %v", x, time.Since(began))
			}
		}
	}, "retry: {max_attempts: 3", "retry: {max_attempts: 1")
}

func TestCancelOverHTTP(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		id := decoded[seen](t, a.call("POST", "/v1/tasks", aTask)).ID
		if resp := a.call("POST", "/v1/tasks/"+id+"/cancel", ""); resp.StatusCode != 202 || decoded[seen](t, resp).State != "cancelled" {
			t.Errorf("%+v", resp)
		}
		if resp := a.call("POST", "/v1/tasks/"+id+"/cancel", ""); resp.StatusCode != 200 {
			t.Errorf("again: %+v", resp)
		}
		a.CheckQuiet(t)
	})
}

// TestAForeignTaskIsTheSame404AsAnUnknownOne, byte for byte, whatever is asked.
func TestAForeignTaskIsTheSame404AsAnUnknownOne(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		foreign := decoded[seen](t, a.do(request("POST", "/v1/tasks", "key-beta", aTask))).ID
		unknown := foreign[:len(foreign)-4] + "beef"
		for _, call := range []string{"GET /v1/tasks/%s", "POST /v1/tasks/%s/cancel", "GET /v1/tasks/%s?wait=3"} {
			method, path, _ := strings.Cut(call, " ")
			var answers []string
			for _, id := range []string{foreign, unknown, "..%2f" + foreign, "x", strings.ToUpper(foreign)} {
				resp := a.call(method, fmt.Sprintf(path, id), "")
				answers = append(answers, fmt.Sprint(resp.StatusCode, resp.Headers, resp.Body))
			}
			if answers[0] != answers[1] || codeOf(t, a.call(method, fmt.Sprintf(path, foreign), "")) != events.NotFound {
				t.Errorf("%s: a foreign id gets\n%s, an unknown one\n%s", call, answers[0], answers[1])
			}
			for _, other := range answers[2:] {
				if other != answers[0] {
					t.Errorf("%s: what is no id gets\n%s", call, other)
				}
			}
		}
		if x := a.Task(t, "beta", foreign); x.State != task.Queued || x.CancelRequested {
			t.Errorf("the foreign task: %+v", x)
		}
	})
}

func TestTheTenantComesFromTheKeyAndFromNowhereElse(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		resp := a.call("POST", "/v1/tasks", aTask, "x-tenant", "beta", "tenant", "beta")
		if x := decoded[struct{ ID, Tenant string }](t, resp); x.Tenant != "alpha" {
			t.Errorf("%+v", x)
		}
		if resp := a.call("POST", "/v1/tasks", `{"class":"short","tenant":"beta"}`); resp.StatusCode != 400 {
			t.Errorf("a tenant in the body: %+v", resp)
		}
		if l := a.Ledger(t, "beta"); l.WorkMS != 0 || l.EnteredMS != 0 {
			t.Errorf("beta's ledger: %+v", l)
		}
	})
}

func TestCredentials(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		for name, header := range map[string]string{"none": "", "garbled": "Bearer", "empty": "Bearer ", "another scheme": "Basic key-alpha", "unknown": "Bearer key-gamma",
			"two": "Bearer key-alpha,Bearer key-beta", "blank inside": "Bearer key-alpha x", "long": "Bearer " + strings.Repeat("x", 9000)} {
			for _, path := range []string{"GET /v1/lanes", "POST /v1/tasks", "GET /v1/tasks/x", "GET /v1/tasks"} {
				method, path, _ := strings.Cut(path, " ")
				req := request(method, path, "", "")
				if header != "" {
					req.Headers["authorization"] = header
				}
				if resp := a.do(req); resp.StatusCode != 401 || codeOf(t, resp) != events.Unauthenticated {
					t.Errorf("%s, %s: %+v", name, path, resp)
				}
			}
		}
		req := request("GET", "/v1/lanes", "", "")
		req.Headers["Authorization"] = "bearer key-alpha"
		if resp := a.do(req); resp.StatusCode != 200 {
			t.Errorf("lower case: %+v", resp)
		}
		if resp := a.do(request("GET", "/healthz", "", "")); resp.StatusCode != 200 {
			t.Errorf("healthz: %+v", resp)
		}
		for _, call := range []string{"POST /v1/tasks", "GET /v1/tasks", "GET /v1/tasks/0190a0de-0000-7000-8000-000000000000", "POST /v1/quotes"} {
			method, path, _ := strings.Cut(call, " ")
			if resp := a.do(request(method, path, "key-admin", aTask)); resp.StatusCode != 403 {
				t.Errorf("%s with an operator's key: %+v", call, resp)
			}
		}
	})
}

// TestAKeyThatIsNewWorksAtOnce for all practical purposes, although unknown keys
// are remembered.
// A tier that is removed from the configuration takes from its tenants what it allowed, and not their tasks.
func TestATierThatWasRemovedIsSaidAndLocksNobodyOut(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		id := decoded[seen](t, a.call("POST", "/v1/tasks", aTask)).ID
		a.put(taskop.SetTier("alpha", "basic", "gold"))
		time.Sleep(2 * time.Minute) // longer than credentials are remembered
		for method, paths := range map[string][]string{"GET": {"/v1/tasks", "/v1/tasks/" + id, "/v1/tasks/" + id + "/explanation", "/v1/lanes"}, "POST": {"/v1/tasks/" + id + "/cancel"}} {
			for _, path := range paths {
				if resp := a.call(method, path, ""); resp.StatusCode/100 != 2 {
					t.Errorf("%s %s: %d %s", method, path, resp.StatusCode, resp.Body)
				}
			}
		}
		for _, path := range []string{"/v1/tasks", "/v1/quotes"} {
			resp := a.call("POST", path, aTask)
			if p := decoded[events.Problem](t, resp); resp.StatusCode != 403 || p.Code != events.Forbidden || !strings.Contains(p.Detail, `"gold"`) {
				t.Errorf("%s: %d %s", path, resp.StatusCode, resp.Body)
			}
		}
		a.CheckQuiet(t)
	})
}

func TestAKeyThatIsNewWorksAtOnce(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		if resp := a.do(request("GET", "/v1/lanes", "key-new", "")); resp.StatusCode != 401 {
			t.Fatalf("%+v", resp)
		}
		a.put(taskop.PutCredential("key-new", taskop.Credential{Tenant: "alpha"}))
		time.Sleep(2 * time.Second)
		if resp := a.do(request("GET", "/v1/lanes", "key-new", "")); resp.StatusCode != 200 {
			t.Errorf("%+v", resp)
		}
	})
}

func TestBadRequestsAreNamed(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		for name, c := range map[string]struct {
			req    apigw.Request
			status int
			code   events.Code
			at     string
		}{
			"an unknown path":      {request("GET", "/v2/tasks", "key-alpha", ""), 404, events.NotFound, ""},
			"a slash too many":     {request("GET", "/v1/tasks/", "key-alpha", ""), 404, events.NotFound, ""},
			"a wrong method":       {request("DELETE", "/v1/tasks", "key-alpha", ""), 405, events.MethodNotAllowed, ""},
			"no content type":      {request("POST", "/v1/tasks", "key-alpha", aTask, "content-type", ""), 415, events.UnsupportedMediaType, ""},
			"a wrong content type": {request("POST", "/v1/tasks", "key-alpha", aTask, "content-type", "text/plain"), 415, events.UnsupportedMediaType, ""},
			"not JSON":             {request("POST", "/v1/tasks", "key-alpha", "{"), 400, events.InvalidRequest, ""},
			"nothing":              {request("POST", "/v1/tasks", "key-alpha", "", "content-type", "application/json"), 400, events.InvalidRequest, ""},
			"2 MB":                 {request("POST", "/v1/tasks", "key-alpha", strings.Repeat(" ", 2<<20)), 413, events.PayloadTooLarge, ""},
			"an unknown class":     {request("POST", "/v1/tasks", "key-alpha", `{"class":"nope"}`), 422, events.UnknownClass, ""},
			"a wait too long":      {request("GET", "/v1/tasks/x?wait=26", "key-alpha", ""), 400, events.InvalidRequest, "query:wait"},
			"a wait of nothing":    {request("GET", "/v1/tasks/x?wait=", "key-alpha", ""), 400, events.InvalidRequest, "query:wait"},
			"two waits":            {request("GET", "/v1/tasks/x?wait=1&wait=2", "key-alpha", ""), 400, events.InvalidRequest, "query:wait"},
			"a limit of zero":      {request("GET", "/v1/tasks?limit=0", "key-alpha", ""), 400, events.InvalidRequest, "query:limit"},
			"a limit too large":    {request("GET", "/v1/tasks?limit=101", "key-alpha", ""), 400, events.InvalidRequest, "query:limit"},
			"an unknown state":     {request("GET", "/v1/tasks?state=done", "key-alpha", ""), 400, events.InvalidRequest, "query:state"},
			"two states":           {request("GET", "/v1/tasks?state=queued&state=running", "key-alpha", ""), 400, events.InvalidRequest, "query:state"},
			"an impossible class":  {request("GET", "/v1/tasks?class=Mail", "key-alpha", ""), 400, events.InvalidRequest, "query:class"},
			"a class of dots":      {request("GET", "/v1/tasks?class=a..b", "key-alpha", ""), 400, events.InvalidRequest, "query:class"},
			"no class":             {request("GET", "/v1/tasks?class=", "key-alpha", ""), 400, events.InvalidRequest, "query:class"},
			"a bad cursor":         {request("GET", "/v1/tasks?cursor=zzz", "key-alpha", ""), 400, events.InvalidRequest, "query:cursor"},
			"a bad escape":         {request("GET", "/v1/tasks?limit=2&state=%zz", "key-alpha", ""), 400, events.InvalidRequest, "query:state"},
			"a bad escape in name": {request("GET", "/v1/tasks?%zz=1", "key-alpha", ""), 400, events.InvalidRequest, ""},
			"a bad key":            {request("POST", "/v1/tasks", "key-alpha", aTask, "idempotency-key", ""), 400, events.InvalidRequest, "header:Idempotency-Key"},
		} {
			resp := a.do(c.req)
			p := decoded[events.Problem](t, resp)
			if resp.StatusCode != c.status || p.Code != c.code || c.at != "" && (len(p.Errors) != 1 || p.Errors[0].Pointer != c.at) {
				t.Errorf("%s: %d %s", name, resp.StatusCode, resp.Body)
			}
		}
		if n := len(a.Tasks(t)); n != 0 {
			t.Errorf("%d rows", n)
		}
		a.CheckQuiet(t)
	})
}

// What the document has and does not mark as later is served.
func TestTheDocumentAndTheServerHaveTheSameCalls(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		list := a.v.Operations()
		for _, o := range list {
			path := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(o.Path, "x1")
			resp := a.do(request(o.Method, path, "key-admin", "{}"))
			missing := resp.StatusCode == 405 || resp.StatusCode == 404 && strings.Contains(resp.Body, "no such path")
			if missing != o.Later {
				t.Errorf("%s %s (later: %v): %d %s", o.Method, o.Path, o.Later, resp.StatusCode, resp.Body)
			}
		}
		if len(list) < 20 {
			t.Errorf("only %d calls in the document", len(list))
		}
	})
}

func TestABase64BodyIsDecoded(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		req := request("POST", "/v1/tasks", "key-alpha", base64.StdEncoding.EncodeToString([]byte(aTask)))
		req.IsBase64Encoded = true
		if resp := a.do(req); resp.StatusCode != 202 {
			t.Errorf("%+v", resp)
		}
		req.Body = "!"
		if resp := a.do(req); resp.StatusCode != 400 {
			t.Errorf("%+v", resp)
		}
	})
}

// TestListsPageById: every task once, in order, whatever the size of the page.
func TestListsPageById(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		var want []string
		for range 23 {
			want = append(want, decoded[seen](t, a.call("POST", "/v1/tasks", aTask)).ID)
			a.do(request("POST", "/v1/tasks", "key-beta", aTask))
		}
		slices.Sort(want)
		a.call("POST", "/v1/tasks/"+want[3]+"/cancel", "")
		for _, c := range []struct {
			query string
			want  []string
		}{{"limit=1", want}, {"limit=7", want}, {"limit=23", want}, {"limit=100", want}, {"class=short&limit=5", want}, {"class=late", nil}, {"class=no.such-class_1", nil}, {"state=cancelled&limit=1", want[3:4]}} {
			var got []string
			pages := 0
			for cursor := ""; ; pages++ {
				page := decoded[struct {
					Items []seen  `json:"items"`
					Next  *string `json:"next_cursor"`
				}](t, a.call("GET", "/v1/tasks?"+c.query+cursor, ""))
				for _, x := range page.Items {
					got = append(got, x.ID)
				}
				if page.Next == nil || pages > 30 {
					break
				}
				cursor = "&cursor=" + *page.Next
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: %d tasks in %d pages, want %d: %v", c.query, len(got), pages+1, len(c.want), got)
			}
		}
	})
}

func TestQuotesAndLanes(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		q := decoded[struct {
			Outcome string `json:"outcome"`
		}](t, a.call("POST", "/v1/quotes", aTask))
		if q.Outcome != "accept" || len(a.Tasks(t)) != 0 {
			t.Errorf("%+v, %d rows", q, len(a.Tasks(t)))
		}
		for range 3 {
			a.call("POST", "/v1/tasks", aTask)
		}
		lanes := decoded[struct {
			Items []struct {
				Lane            string `json:"lane"`
				Waiting, Queued int
				Work            float64 `json:"queued_work_seconds"`
				Wait            float64 `json:"predicted_wait_seconds"`
			} `json:"items"`
		}](t, a.call("GET", "/v1/lanes", ""))
		var standard = -1
		for i, l := range lanes.Items {
			if l.Lane == "standard" {
				standard = i
			}
		}
		if l := lanes.Items[standard]; len(lanes.Items) != 2 || l.Waiting != 1 || l.Queued != 2 || l.Work != 3 || l.Wait != 1.5 {
			t.Errorf("%+v", lanes)
		}
	})
}

// TestAFailingStoreIs503OnEveryCall with Retry-After, and no text of its own.
func TestAFailingStoreIs503OnEveryCall(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		id := decoded[seen](t, a.call("POST", "/v1/tasks", aTask)).ID
		a.Table.Fail(func(rig.Call) rig.Fault { return rig.Broken })
		defer a.Table.Fail(nil)
		for _, call := range []string{"POST /v1/tasks", "GET /v1/tasks", "GET /v1/tasks/" + id, "POST /v1/tasks/" + id + "/cancel", "GET /v1/lanes"} {
			method, path, _ := strings.Cut(call, " ")
			body := ""
			if call == "POST /v1/tasks" {
				body = aTask
			}
			resp := a.call(method, path, body)
			if resp.StatusCode != 503 || resp.Headers["retry-after"] == "" || codeOf(t, resp) != events.Unavailable || strings.Contains(resp.Body, "injected") {
				t.Errorf("%s: %+v", call, resp)
			}
		}
		time.Sleep(2 * time.Minute) // credentials are forgotten: even who asks is unknown
		if resp := a.call("GET", "/v1/lanes", ""); resp.StatusCode != 503 {
			t.Errorf("%+v", resp)
		}
	})
}

// TestAPanicIsAnAnswerToo.
func TestAPanicIsAnAnswerToo(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		a.Table.Before(func(c rig.Call) {
			if c.Kind == "batch_get" {
				panic("a bug")
			}
		})
		resp := a.call("GET", "/v1/lanes", "")
		if resp.StatusCode != 503 || strings.Contains(resp.Body, "bug") {
			t.Errorf("%+v", resp)
		}
	})
}

package contract

import (
	"net/http"
	"strings"

	"github.com/lanekeeper/lanekeeper/events"
)

// tenantCalls are the calls in force that need a tenant's key.
var tenantCalls = []request{
	{method: http.MethodPost, path: "/v1/tasks", body: []byte(short)},
	{method: http.MethodGet, path: "/v1/tasks"},
	{method: http.MethodGet, path: "/v1/tasks/01234567-89ab-cdef"},
	{method: http.MethodPost, path: "/v1/tasks/01234567-89ab-cdef/cancel"},
	{method: http.MethodPost, path: "/v1/quotes", body: []byte(short)},
}

func authCases() []testCase {
	var list []testCase
	refuse := func(name string, authorization []string) {
		list = append(list, testCase{name: "auth/" + name, run: func(c *C) {
			for _, r := range append([]request{{path: "/v1/lanes"}}, tenantCalls...) {
				r.key = noKey
				if authorization != nil {
					r.header = http.Header{"Authorization": authorization}
				}
				c.send(r).wantCode(c, events.Unauthenticated)
			}
		}})
	}
	refuse("no credentials", nil)
	refuse("an empty header", []string{""})
	refuse("the scheme alone", []string{"Bearer"})
	refuse("an empty key", []string{"Bearer "})
	refuse("another scheme", []string{"Basic ZGVtby1hbHBoYTo="})
	refuse("a key without a scheme", []string{"demo-alpha"})
	refuse("an unknown key", []string{"Bearer demo-omega"})
	refuse("a key that begins like a known one", []string{"Bearer demo-alph"})
	refuse("two keys", []string{"Bearer demo-alpha demo-beta"})
	refuse("bytes beyond ASCII", []string{"Bearer demo-\xff\xfe"})
	refuse("a key of 4 KB", []string{"Bearer " + strings.Repeat("k", 4096)})
	return append(list,
		testCase{name: "auth/the scheme's case does not matter", run: func(c *C) {
			c.send(request{path: "/v1/tasks", key: noKey, header: http.Header{"Authorization": {"bearer " + c.cfg.Keys.A}}}).want(c, http.StatusOK)
		}},
		testCase{name: "auth/comes before everything else of the request", run: func(c *C) {
			c.send(request{method: http.MethodPost, path: "/v1/tasks", key: noKey, body: []byte("{"),
				header: http.Header{"Content-Type": {"text/plain"}}}).wantCode(c, events.Unauthenticated)
		}},
		testCase{name: "auth/an operator's key on tenant calls is 403 forbidden", run: func(c *C) {
			for _, r := range tenantCalls {
				r.key = c.cfg.Keys.Admin
				c.send(r).wantCode(c, events.Forbidden)
			}
		}},
		testCase{name: "auth/an operator's key reads the lanes", run: func(c *C) {
			c.send(request{path: "/v1/lanes", key: c.cfg.Keys.Admin}).want(c, http.StatusOK)
		}},
		testCase{name: "auth/a tenant header changes nothing", run: func(c *C) {
			a := c.submit(short)
			b := c.submitAs("", short, http.Header{"X-Tenant": {"beta"}, "X-Tenant-Id": {"beta"}})
			if a.Tenant != b.Tenant {
				c.errorf("tenant %q became %q", a.Tenant, b.Tenant)
			}
		}},
	)
}

func headerCases() []testCase {
	var list []testCase
	media := func(name string, contentType []string, accepted bool) {
		list = append(list, testCase{name: "media/" + name, run: func(c *C) {
			for _, path := range []string{"/v1/tasks", "/v1/quotes"} {
				r := request{method: http.MethodPost, path: path, body: []byte(short), noType: true}
				if contentType != nil {
					r.header = http.Header{"Content-Type": contentType}
				}
				got := c.send(r)
				if !accepted {
					got.wantCode(c, events.UnsupportedMediaType)
				} else if got.status >= 400 {
					c.errorf("%s", got)
				}
			}
		}})
	}
	media("none declared", nil, false)
	media("text/plain", []string{"text/plain"}, false)
	media("a form", []string{"application/x-www-form-urlencoded"}, false)
	media("application/jsonp", []string{"application/jsonp"}, false)
	media("garbage", []string{";;;"}, false)
	media("application/json with charset", []string{"application/json; charset=utf-8"}, true)
	media("capitals", []string{"Application/JSON"}, true)

	key := func(name, value string) {
		list = append(list, testCase{name: "key/" + name, run: func(c *C) {
			c.send(request{method: http.MethodPost, path: "/v1/tasks", body: []byte(short),
				header: http.Header{"Idempotency-Key": {value}}}).wantFaults(c, "header:Idempotency-Key")
		}})
	}
	key("empty", "")
	key("256 characters", strings.Repeat("k", 256))
	key("beyond ASCII", "schlüssel")
	key("bytes that are not UTF-8", "k\xff")
	key("a tab inside", "a\tb")
	return append(list,
		testCase{name: "key/255 printable characters", run: func(c *C) {
			value := c.unique("long")
			value += strings.Repeat("~ !\"k", 60)[:255-len(value)]
			c.submitAs("", short, http.Header{"Idempotency-Key": {value}})
		}},
		testCase{name: "headers/9 KB of them", run: func(c *C) {
			h := http.Header{}
			for _, name := range []string{"X-One", "X-Two", "X-Three"} {
				h[name] = []string{strings.Repeat("h", 3*1024)}
			}
			c.submitAs("", short, h)
		}},
		testCase{name: "headers/an Accept that we cannot serve is ignored", run: func(c *C) {
			c.submitAs("", short, http.Header{"Accept": {"text/html"}})
		}},
	)
}

func routeCases() []testCase {
	var list []testCase
	for _, path := range []string{"/", "/v1", "/v1/", "/v2/tasks", "/v1/tasks/", "/v1/task", "/v1/tasks/a/b/c", "/v1/lanes/standard", "/V1/tasks", "/v1//tasks", "/v1/../v1/tasks", "/healthz/"} {
		list = append(list, testCase{name: "route/" + path + " is 404", run: func(c *C) {
			c.get(path).wantCode(c, events.NotFound)
		}})
	}
	for _, r := range []request{
		{method: "PUT", path: "/v1/tasks"}, {method: "DELETE", path: "/v1/tasks"}, {method: "PATCH", path: "/v1/tasks"},
		{method: "HEAD", path: "/v1/tasks"}, {method: "OPTIONS", path: "/v1/tasks"}, {method: "PURGE", path: "/v1/tasks"},
		{method: "get", path: "/v1/tasks"},
		{method: "DELETE", path: "/v1/tasks/01234567-89ab-cdef"}, {method: "HEAD", path: "/v1/tasks/01234567-89ab-cdef"},
		{method: "GET", path: "/v1/tasks/01234567-89ab-cdef/cancel"}, {method: "GET", path: "/v1/quotes"},
		{method: "POST", path: "/v1/lanes"}, {method: "OPTIONS", path: "/v1/lanes"}, {method: "POST", path: "/healthz"},
	} {
		list = append(list, testCase{name: "route/" + r.method + " " + r.path + " is 405", run: func(c *C) {
			got := c.send(r)
			if r.method == http.MethodHead {
				got.want(c, http.StatusMethodNotAllowed)
				return
			}
			got.wantCode(c, events.MethodNotAllowed)
		}})
	}
	return list
}

package contract

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/lanekeeper/lanekeeper/events"
)

// badBody is a body that must be refused with 400, by submissions and quotes alike, with faults at these pointers.
type badBody struct {
	name, body string
	pointers   []string
}

func badBodies() []badBody {
	with := func(field string) string { return `{"class":"mail.send","payload":{"sleep_ms":1},` + field + `}` }
	nested := func(open, closing string, n int) string {
		return `{"class":"mail.send","payload":` + strings.Repeat(open, n) + `0` + strings.Repeat(closing, n) + `}`
	}
	return []badBody{
		{"empty", "", []string{""}},
		{"white space only", " \n", []string{""}},
		{"not JSON", "class=mail.send", []string{""}},
		{"cut off", `{"class":"mail.send"`, []string{""}},
		{"single quotes", `{'class':'mail.send'}`, []string{""}},
		{"comment", `{"class":"mail.send"/*x*/}`, []string{""}},
		{"trailing comma", `{"class":"mail.send",}`, []string{""}},
		{"text after the object", short + " x", []string{""}},
		{"two objects", short + short, []string{""}},
		{"byte order mark", "\ufeff" + short, []string{""}},
		{"NaN", with(`"deadline_seconds":NaN`), []string{""}},
		{"Infinity", with(`"deadline_seconds":-Infinity`), []string{""}},
		{"number with a leading zero", with(`"deadline_seconds":060`), []string{""}},
		{"invalid UTF-8 in a text", "{\"class\":\"mail.send\",\"ordering_key\":\"\xff\xfe\"}", []string{""}},
		{"invalid UTF-8 in the payload", "{\"class\":\"mail.send\",\"payload\":\"\xc3\x28\"}", []string{""}},
		{"an array", `[` + short + `]`, []string{""}},
		{"a text", `"mail.send"`, []string{""}},
		{"null", `null`, []string{""}},
		{"payload nested one level too deep", nested("[", "]", 64), nil},
		{"arrays nested 10,000 deep", nested("[", "]", 10_000), nil},
		{"objects nested 10,000 deep", nested(`{"a":`, "}", 10_000), nil},
		{"100,000 brackets never closed", `{"class":"mail.send","payload":` + strings.Repeat("[", 100_000), nil},

		{"duplicate key", `{"class":"mail.send","class":"mail.send"}`, []string{"/class"}},
		{"duplicate key, escaped", `{"class":"mail.send","cl\u0061ss":"agent.lint"}`, []string{"/class"}},
		{"duplicate key in hints", with(`"hints":{"rows":1,"rows":2}`), []string{"/hints/rows"}},
		{"duplicate key deep in the payload", `{"class":"mail.send","payload":{"x":[{"a/b":1,"a/b":1}]}}`, []string{"/payload/x/0/a~1b"}},

		{"no fields", `{}`, []string{"/class"}},
		{"class of the wrong type", `{"class":7}`, []string{"/class"}},
		{"class null", `{"class":null}`, []string{"/class"}},
		{"class empty", `{"class":""}`, []string{"/class"}},
		{"class of 65 characters", `{"class":"` + strings.Repeat("a", 65) + `"}`, []string{"/class"}},
		{"class of 100 KB", `{"class":"` + strings.Repeat("a", 100_000) + `"}`, []string{"/class"}},
		{"name in capitals", `{"Class":"mail.send"}`, []string{"/Class", "/class"}},

		{"deadline zero", with(`"deadline_seconds":0`), []string{"/deadline_seconds"}},
		{"deadline minus zero", with(`"deadline_seconds":-0.0`), []string{"/deadline_seconds"}},
		{"deadline negative", with(`"deadline_seconds":-5`), []string{"/deadline_seconds"}},
		{"deadline below a millisecond", with(`"deadline_seconds":1e-9`), []string{"/deadline_seconds"}},
		{"deadline 1e400", with(`"deadline_seconds":1e400`), []string{"/deadline_seconds"}},
		{"deadline -1e400", with(`"deadline_seconds":-1e400`), []string{"/deadline_seconds"}},
		{"deadline with a huge exponent", with(`"deadline_seconds":1e999999999999`), []string{"/deadline_seconds"}},
		{"deadline a hair beyond 14 days", with(`"deadline_seconds":1209600.0001`), []string{"/deadline_seconds"}},
		{"deadline beyond 14 days", with(`"deadline_seconds":1209600.001`), []string{"/deadline_seconds"}},
		{"deadline as text", with(`"deadline_seconds":"60"`), []string{"/deadline_seconds"}},
		{"deadline null", with(`"deadline_seconds":null`), []string{"/deadline_seconds"}},
		{"deadline true", with(`"deadline_seconds":true`), []string{"/deadline_seconds"}},

		{"priority unknown", with(`"priority":"urgent"`), []string{"/priority"}},
		{"priority in capitals", with(`"priority":"Normal"`), []string{"/priority"}},
		{"priority empty", with(`"priority":""`), []string{"/priority"}},
		{"priority a number", with(`"priority":1`), []string{"/priority"}},

		{"hints an array", with(`"hints":[1]`), []string{"/hints"}},
		{"hints null", with(`"hints":null`), []string{"/hints"}},
		{"hint as text", with(`"hints":{"rows":"5"}`), []string{"/hints/rows"}},
		{"hint negative", with(`"hints":{"rows":-1}`), []string{"/hints/rows"}},
		{"hint with a fraction", with(`"hints":{"rows":1.5}`), []string{"/hints/rows"}},
		{"hint 1e400", with(`"hints":{"rows":1e400}`), []string{"/hints/rows"}},
		{"hint beyond 2^53", with(`"hints":{"rows":9007199254740993}`), []string{"/hints/rows"}},
		{"hint beyond 64 bits", with(`"hints":{"rows":18446744073709551617}`), []string{"/hints/rows"}},
		{"hint an object", with(`"hints":{"rows":{}}`), []string{"/hints/rows"}},
		{"hint with an odd name and a wrong value", with(`"hints":{"~/":-1}`), []string{"/hints/~0~1"}},
		{"hint without a name", with(`"hints":{"":1}`), []string{"/hints"}},
		{"hint with a name of 65 characters", with(`"hints":{"` + strings.Repeat("h", 65) + `":1}`), []string{"/hints"}},
		{"hint with a control character in its name", with(`"hints":{"a\u0007":1}`), []string{"/hints"}},
		{"hints, 17 of them", with(`"hints":{` + seventeen() + `}`), []string{"/hints"}},
		{"hint over the class's max_hints", `{"class":"report.export","hints":{"rows":5000001}}`, []string{"/hints/rows"}},

		{"ordering_key empty", with(`"ordering_key":""`), []string{"/ordering_key"}},
		{"ordering_key a number", with(`"ordering_key":7`), []string{"/ordering_key"}},
		{"ordering_key of 256 characters", with(`"ordering_key":"` + strings.Repeat("k", 256) + `"`), []string{"/ordering_key"}},
		{"ordering_key with a control character", with(`"ordering_key":"a\u0000b"`), []string{"/ordering_key"}},

		{"a tenant in the body", with(`"tenant":"beta"`), []string{"/tenant"}},
		{"unknown field", with(`"retries":3`), []string{"/retries"}},
		{"unknown field with an odd name", with(`"a/b~c":3`), []string{"/a~1b~0c"}},
		{"unknown field with an empty name", with(`"":3`), []string{"/"}},
		{"an estimate of the client's own", with(`"estimate_seconds":0.001`), []string{"/estimate_seconds"}},
	}
}

func seventeen() string {
	var parts []string
	for i := range 17 {
		parts = append(parts, fmt.Sprintf(`"h%d":1`, i))
	}
	return strings.Join(parts, ",")
}

func bodyCases() []testCase {
	var list []testCase
	for _, b := range badBodies() {
		list = append(list, testCase{name: "body/" + b.name, run: func(c *C) {
			for _, path := range []string{"/v1/tasks", "/v1/quotes"} {
				c.send(request{method: http.MethodPost, path: path, body: []byte(b.body)}).wantFaults(c, b.pointers...)
			}
		}})
	}
	return append(list,
		testCase{name: "body/all faults at once, each with its pointer", run: func(c *C) {
			got := c.send(request{method: http.MethodPost, path: "/v1/tasks",
				body:   []byte(`{"class":5,"deadline_seconds":-1,"priority":"urgent","hints":{"rows":-1,"bytes":"x"},"tenant":"beta","ordering_key":""}`),
				header: http.Header{"Idempotency-Key": {""}}})
			got.wantFaults(c, "/class", "/deadline_seconds", "/priority", "/hints/rows", "/hints/bytes", "/tenant", "/ordering_key", "header:Idempotency-Key")
		}},
		testCase{name: "body/a refused body leaves no task", run: func(c *C) {
			key := http.Header{"Idempotency-Key": {c.unique("refused")}}
			c.send(request{method: http.MethodPost, path: "/v1/tasks", body: []byte(`{"class":"mail.send","x":1}`), header: key}).wantFaults(c, "/x")
			got := c.send(request{method: http.MethodPost, path: "/v1/tasks", body: []byte(short), header: key})
			got.want(c, http.StatusAccepted)
			if got.header.Get("Idempotency-Replayed") != "" {
				c.errorf("the key was taken by a refused request")
			}
		}},
	)
}

func refusalCases() []testCase {
	both := func(c *C, body string, code events.Code) {
		for _, path := range []string{"/v1/tasks", "/v1/quotes"} {
			c.post(path, body).wantCode(c, code)
		}
	}
	return []testCase{
		{name: "refusal/unknown_class", run: func(c *C) { both(c, `{"class":"mail.sent"}`, events.UnknownClass) }},
		{name: "refusal/unknown_class of 64 characters", run: func(c *C) {
			both(c, `{"class":"`+strings.Repeat("a", 64)+`"}`, events.UnknownClass)
		}},
		{name: "refusal/forbidden_priority by the tier", run: func(c *C) {
			both(c, `{"class":"mail.send","priority":"critical"}`, events.ForbiddenPriority)
			both(c, `{"class":"mail.send","priority":"high"}`, events.ForbiddenPriority)
		}},
		{name: "refusal/deadline_infeasible", run: func(c *C) {
			got := c.post("/v1/tasks", `{"class":"agent.migration","deadline_seconds":0.5}`)
			p := got.wantCode(c, events.DeadlineInfeasible)
			if p.Decision == nil {
				return
			}
			if d := p.Decision; d.BindingLimit != "service_time" || d.Deadline != 500 || d.ServiceP95+d.Margin < d.Deadline || p.RetryAfterSeconds != 0 {
				c.errorf("decision %+v, retry_after_seconds %d", *d, p.RetryAfterSeconds)
			}
		}},
	}
}

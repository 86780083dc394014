package contract

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/lanekeeper/lanekeeper/events"
)

// short is a task that costs next to nothing.
const short = `{"class":"mail.send","payload":{"sleep_ms":1}}`

func submitCases() []testCase {
	accepted := func(body string) func(*C) { return func(c *C) { c.submit(body) } }
	return []testCase{
		{name: "submit/202 with Location and the whole task", run: submitWhole},
		{name: "submit/deadline_seconds counts from receipt", run: submitDeadline},
		{name: "submit/a fraction of a second in deadline_seconds", run: submitFraction},
		{name: "submit/deadline_seconds of exactly 14 days", run: accepted(`{"class":"mail.send","payload":{"sleep_ms":1},"deadline_seconds":1209600}`)},
		{name: "submit/without a deadline the priority's max_duration", run: submitDefaultDeadline},
		{name: "submit/priority low", run: submitPriority},
		{name: "submit/hints choose the bucket", run: submitHints},
		{name: "submit/unknown hint names are facts like others", run: accepted(`{"class":"mail.send","payload":{"sleep_ms":1},"hints":{"bytes":9007199254740991,"external_calls":0}}`)},
		{name: "submit/ordering_key", run: accepted(`{"class":"mail.send","payload":{"sleep_ms":1},"ordering_key":"order 7 / ä"}`)},
		{name: "submit/payload left out", run: accepted(`{"class":"mail.send"}`)},
		{name: "submit/payload nested as deep as allowed", run: accepted(`{"class":"mail.send","payload":{"sleep_ms":1,"deep":` + strings.Repeat("[", 62) + strings.Repeat("]", 62) + `}}`)},
		{name: "submit/text beyond ASCII", run: accepted(`{"class":"mail.send","payload":{"sleep_ms":1,"to":"Zoë 🚀 \ud83d\ude80 \u0000"}}`)},
		{name: "submit/white space around everything", run: accepted(" \r\n\t{ \"class\" : \"mail.send\" , \"payload\" : { \"sleep_ms\" : 1 } } \n")},
		{name: "submit/escaped names are names", run: accepted(`{"cl\u0061ss":"mail.send","payload":{"sleep_ms":1}}`)},
	}
}

func submitWhole(c *C) {
	got := c.post("/v1/tasks", short)
	got.want(c, http.StatusAccepted)
	t, err := got.task()
	c.must(err)
	if t.Class != "mail.send" || t.Priority != "normal" || t.Tenant == "" || t.Bucket == "" || t.Lane == "" || t.AtLane == "" {
		c.errorf("class %q, priority %q, tenant %q, bucket %q, lane %q, at_lane %q", t.Class, t.Priority, t.Tenant, t.Bucket, t.Lane, t.AtLane)
	}
	if t.State != events.StateQueued && t.State != events.StateWaiting || t.Attempt != 0 || len(t.Attempts) != 0 || t.StartedAt != 0 {
		c.errorf("a task just accepted is %s with %d attempts, %d listed", t.State, t.Attempt, len(t.Attempts))
	}
	if t.CancelRequested || t.Delayed || t.Error != nil || t.Result != nil {
		c.errorf("a task just accepted has %s", got.body)
	}
	p := t.Prediction
	if p.ServiceP50 <= 0 || p.ServiceP95 < p.ServiceP50 || p.Wait < 0 || p.Margin < 0 {
		c.errorf("prediction %+v", p)
	}
	if want := t.DeadlineAt - events.Time(p.ServiceP95); p.StartBy != want {
		c.errorf("start_by is %s; deadline less service p95 is %s", p.StartBy, want)
	}
	if p.FinishBy <= t.SubmittedAt || p.FinishBy > t.DeadlineAt {
		c.errorf("finish_by %s is not between %s and %s", p.FinishBy, t.SubmittedAt, t.DeadlineAt)
	}
	if got.header.Get("Idempotency-Replayed") != "" {
		c.errorf("Idempotency-Replayed on a first submission")
	}
}

func (c *C) wantDeadline(t events.Task, ms int64) {
	if got := int64(t.DeadlineAt - t.SubmittedAt); got != ms {
		c.errorf("deadline_at is %d ms after submitted_at, want %d", got, ms)
	}
}

func submitDeadline(c *C) {
	c.wantDeadline(c.submit(`{"class":"mail.send","payload":{"sleep_ms":1},"deadline_seconds":300}`), 300_000)
}

func submitFraction(c *C) {
	c.wantDeadline(c.submit(`{"class":"mail.send","payload":{"sleep_ms":1},"deadline_seconds":3.00125e2}`), 300_125)
}

func submitDefaultDeadline(c *C) {
	normal := c.submit(short)
	low := c.submit(`{"class":"mail.send","payload":{"sleep_ms":1},"priority":"low"}`)
	for _, t := range []events.Task{normal, low} {
		if ms := int64(t.DeadlineAt - t.SubmittedAt); ms < 1000 || ms > 14*24*3600*1000 {
			c.errorf("priority %s: deadline after %d ms", t.Priority, ms)
		}
	}
	if n, l := normal.DeadlineAt-normal.SubmittedAt, low.DeadlineAt-low.SubmittedAt; l <= n {
		c.errorf("low has %d ms, normal %d ms", l, n)
	}
}

func submitPriority(c *C) {
	if t := c.submit(`{"class":"mail.send","payload":{"sleep_ms":1},"priority":"low"}`); t.Priority != "low" {
		c.errorf("priority is %q", t.Priority)
	}
}

func submitHints(c *C) {
	small := c.submit(`{"class":"report.export","payload":{"sleep_ms":1},"hints":{"rows":1}}`)
	none := c.submit(`{"class":"report.export","payload":{"sleep_ms":1}}`)
	large := c.submit(`{"class":"report.export","payload":{"sleep_ms":1},"hints":{"rows":100000}}`)
	if small.Bucket != "small" || none.Bucket != "small" || large.Bucket != "large" {
		c.errorf("buckets %q, %q, %q; want small, small, large", small.Bucket, none.Bucket, large.Bucket)
	}
	if small.Lane != "standard" || large.Lane != "heavy" {
		c.errorf("lanes %q and %q; want standard and heavy", small.Lane, large.Lane)
	}
}

// sized is a submission whose payload has exactly n bytes as sent.
func sized(n int) []byte {
	const head, tail = `{"sleep_ms":1,"pad":"`, `"}`
	return []byte(`{"class":"mail.send","payload":` + head + strings.Repeat("x", n-len(head)-len(tail)) + tail + `}`)
}

// padded is a submission with white space up to exactly n bytes.
func padded(n int) []byte {
	return append([]byte(short), bytes.Repeat([]byte(" "), n-len(short))...)
}

func sizeCases() []testCase {
	const kib, mib = 1 << 10, 1 << 20
	var list []testCase
	add := func(name string, body []byte, status int, gateway bool) {
		list = append(list, testCase{name: "size/" + name, run: func(c *C) {
			got := c.send(request{method: http.MethodPost, path: "/v1/tasks", body: body, gateway: gateway})
			if status == http.StatusAccepted {
				got.want(c, status)
				return
			}
			if gateway && got.status == status {
				return
			}
			got.wantCode(c, events.PayloadTooLarge)
			if !gateway {
				c.send(request{method: http.MethodPost, path: "/v1/quotes", body: body}).wantCode(c, events.PayloadTooLarge)
			}
		}})
	}
	add("a payload of exactly 256 KiB", sized(256*kib), 202, false)
	add("a payload of 256 KiB and one byte", sized(256*kib+1), 413, false)
	add("a 300 KB payload", sized(300*1000), 413, false)
	add("a body of exactly 1 MiB", padded(mib), 202, false)
	add("a body of 1 MiB and one byte", padded(mib+1), 413, false)
	add("a 2 MB body", padded(2*1000*1000), 413, false)
	add("a 2 MB body that is not JSON", bytes.Repeat([]byte("{"), 2*mib), 413, false)
	add("a 7 MB body (the gateway's own answer is right too)", padded(7*mib), 413, true)
	return list
}

func classCases() []testCase {
	var list []testCase
	for _, class := range []string{"mail.send", "agent.lint", "report.export", "agent.migration"} {
		list = append(list, testCase{name: "class/" + class + " reaches succeeded", run: func(c *C) { reachesSucceeded(c, class) }})
	}
	return list
}

func reachesSucceeded(c *C, class string) {
	first := c.submit(fmt.Sprintf(`{"class":%q,"payload":{"sleep_ms":30}}`, class))
	t := c.await("", first.ID)
	if t.State != events.StateSucceeded || t.Attempt != 1 || len(t.Attempts) != 1 {
		c.fatalf("state %s, attempt %d, %d attempts listed", t.State, t.Attempt, len(t.Attempts))
	}
	a := t.Attempts[0]
	if a.Attempt != 1 || a.Outcome != events.AttemptSucceeded || a.Lane != t.Lane || a.Error != "" || a.Signature != "" {
		c.errorf("attempt %+v", a)
	}
	if t.StartedAt < t.SubmittedAt || t.FinishedAt < t.StartedAt+30 || t.FinishedAt > t.StartedAt+60_000 {
		c.errorf("submitted %s, started %s, finished %s", t.SubmittedAt, t.StartedAt, t.FinishedAt)
	}
	if t.Prediction != first.Prediction || t.SubmittedAt != first.SubmittedAt || t.DeadlineAt != first.DeadlineAt {
		c.errorf("what was promised has changed: %+v, was %+v", t.Prediction, first.Prediction)
	}
	if t.Error != nil || t.CancelRequested {
		c.errorf("error %+v, cancel_requested %v", t.Error, t.CancelRequested)
	}
}

func failureCases() []testCase {
	return []testCase{
		{name: "failure/fails once, then succeeds", run: func(c *C) {
			t := c.await("", c.submit(`{"class":"mail.send","payload":{"sleep_ms":1,"fail":"no such host 10.0.0.7","fail_times":1}}`).ID)
			if t.State != events.StateSucceeded || t.Attempt != 2 || len(t.Attempts) != 2 {
				c.fatalf("state %s, attempt %d, %d attempts listed", t.State, t.Attempt, len(t.Attempts))
			}
			if a := t.Attempts[0]; a.Outcome != events.AttemptFailed || a.Signature == "" || !strings.Contains(a.Error, "no such host") {
				c.errorf("first attempt %+v", a)
			}
		}},
		{name: "failure/always fails: ends failed or quarantined, with the error", run: func(c *C) {
			t := c.await("", c.submit(`{"class":"mail.send","payload":{"sleep_ms":1,"fail":"no such host"}}`).ID)
			if t.State != events.StateFailed && t.State != events.StateQuarantined {
				c.fatalf("state %s", t.State)
			}
			if t.Error == nil || !strings.Contains(t.Error.Message, "no such host") || len(t.Attempts) != t.Attempt {
				c.errorf("error %+v, attempt %d, %d listed", t.Error, t.Attempt, len(t.Attempts))
			}
		}},
	}
}

package apigw

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
)

func (c *call) health(context.Context) (*answer, error) {
	return &answer{status: http.StatusOK, body: events.Health{Status: "ok", ConfigHash: c.hash, Version: c.version}}, nil
}

// submission decodes a body that must be a task.
func (c *call) submission() (intake.Submission, error) {
	var none intake.Submission
	if c.who.Operator {
		return none, &intake.Refusal{Code: events.Forbidden, Detail: "operator keys do not submit tasks; use a tenant's key"}
	}
	declared, _ := header(c.req, "content-type")
	if media, _, err := mime.ParseMediaType(declared); err != nil || media != events.MediaJSON {
		return none, &intake.Refusal{Code: events.UnsupportedMediaType, Detail: "the Content-Type must be application/json"}
	}
	raw, err := body(c.req)
	if err != nil {
		return none, err
	}
	h := intake.Header{}
	h.IdempotencyKey, h.HasIdempotencyKey = header(c.req, "idempotency-key")
	if brought, _ := header(c.req, "traceparent"); brought != "" {
		if t, ok := trace.Parse(brought); ok { // what cannot be read is no trace
			h.Traceparent = t.String()
		}
	}
	sub, refusal := intake.Decode(raw, h, c.svc.Config)
	if refusal != nil {
		return none, refusal
	}
	return sub, nil
}

func (c *call) submit(ctx context.Context) (*answer, error) {
	sub, err := c.submission()
	if err != nil {
		return nil, err
	}
	got, err := c.svc.Submit(ctx, c.who, sub)
	if err != nil {
		return nil, err
	}
	a := &answer{status: http.StatusAccepted, body: view(got.Task, c.nowMS()), headers: map[string]string{"location": events.TaskPath(got.Task.ID)}}
	if got.Replayed {
		a.headers["idempotency-replayed"] = "true"
	}
	return a, nil
}

func (c *call) quote(ctx context.Context) (*answer, error) {
	sub, err := c.submission()
	if err != nil {
		return nil, err
	}
	q, err := c.svc.Quote(ctx, c.who, sub)
	if err != nil {
		return nil, err
	}
	return &answer{status: http.StatusOK, body: q}, nil
}

func (c *call) get(ctx context.Context) (*answer, error) {
	q, err := query(c.req)
	if err != nil {
		return nil, err
	}
	var wait time.Duration
	if q.Has("wait") {
		n, err := number(q, "wait", 0, int(intake.MaxWait/time.Second))
		if err != nil {
			return nil, faults([]events.FieldError{*err})
		}
		wait = time.Duration(n) * time.Second
	}
	t, err := c.svc.Get(ctx, c.who, c.args[0], wait)
	if err != nil {
		return nil, err
	}
	now := c.nowMS()
	v := view(t, now)
	if f, known := c.svc.Forecast(ctx, c.who, t); known {
		position := events.Seconds(f.AheadMS)
		v.Position = &position
		if v.Delayed {
			v.ExpectedStart = events.Time(now + f.WaitMS)
		}
	}
	a := &answer{status: http.StatusOK, body: v, headers: map[string]string{}}
	if t.State.Live() {
		a.headers["retry-after"] = strconv.FormatInt(pollAfter(t, now), 10)
	}
	return a, nil
}

func (c *call) explain(ctx context.Context) (*answer, error) {
	e, err := c.svc.Explain(ctx, c.who, c.args[0])
	if err != nil {
		return nil, err
	}
	return &answer{status: http.StatusOK, body: e}, nil
}

func (c *call) list(ctx context.Context) (*answer, error) {
	q, err := query(c.req)
	if err != nil {
		return nil, err
	}
	f := intake.Filter{State: q.Get("state"), Class: q.Get("class"), Limit: intake.DefaultPage, Cursor: q.Get("cursor")}
	wrong := twice(q, "state", "class", "cursor")
	if q.Has("limit") {
		n, err := number(q, "limit", 1, intake.MaxPage)
		if err != nil {
			wrong = append(wrong, *err)
		}
		f.Limit = n
	}
	if q.Has("state") && !knownState(f.State) {
		wrong = append(wrong, events.FieldError{Pointer: "query:state", Detail: "is not a state of a task"})
	}
	if q.Has("class") && !intake.ValidClass(f.Class) {
		wrong = append(wrong, events.FieldError{Pointer: "query:class", Detail: "is not the name of a class"})
	}
	if q.Has("cursor") && !intake.ValidCursor(f.Cursor) {
		wrong = append(wrong, events.FieldError{Pointer: "query:cursor", Detail: "is not a cursor of this list"})
	}
	if len(wrong) > 0 {
		return nil, faults(wrong)
	}
	tasks, next, err := c.svc.List(ctx, c.who, f)
	if err != nil {
		return nil, err
	}
	page := events.TaskPage{NextCursor: events.Null(next)}
	for _, t := range tasks {
		page.Items = append(page.Items, view(t, c.nowMS()))
	}
	return &answer{status: http.StatusOK, body: page}, nil
}

func (c *call) cancel(ctx context.Context) (*answer, error) {
	t, done, err := c.svc.Cancel(ctx, c.who, c.args[0])
	if err != nil {
		return nil, err
	}
	status := http.StatusAccepted
	if done {
		status = http.StatusOK
	}
	return &answer{status: status, body: view(t, c.nowMS())}, nil
}

func (c *call) lanes(ctx context.Context) (*answer, error) {
	lanes, err := c.svc.Lanes(ctx)
	if err != nil {
		return nil, err
	}
	return &answer{status: http.StatusOK, body: events.LaneList{Items: lanes}}, nil
}

func (c *call) nowMS() int64 { return c.svc.Clock().UnixMilli() }

func number(q url.Values, name string, least, most int) (int, *events.FieldError) {
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < least || n > most || len(q[name]) > 1 {
		return 0, &events.FieldError{Pointer: "query:" + name, Detail: fmt.Sprintf("must be a whole number from %d to %d", least, most)}
	}
	return n, nil
}

// twice lists which of the named parameters are given more than once: nobody can say which is meant.
func twice(q url.Values, names ...string) []events.FieldError {
	var wrong []events.FieldError
	for _, name := range names {
		if len(q[name]) > 1 {
			wrong = append(wrong, events.FieldError{Pointer: "query:" + name, Detail: "is given more than once"})
		}
	}
	return wrong
}

func knownState(s string) bool {
	for _, known := range events.States() {
		if string(known) == s {
			return true
		}
	}
	return false
}

func faults(list []events.FieldError) *intake.Refusal { return intake.Invalid(list) }

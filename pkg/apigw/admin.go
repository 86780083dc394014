package apigw

import (
	"context"
	"math"
	"mime"
	"net/http"
	"net/url"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
)

// operators are the calls that need an operator's key.
var operators = []route{
	{http.MethodGet, "/v1/admin/quarantine", false, (*call).quarantine},
	{http.MethodPost, "/v1/admin/replays", false, (*call).startReplay},
	{http.MethodGet, "/v1/admin/replays", false, (*call).listReplays},
	{http.MethodGet, "/v1/admin/replays/{}", false, (*call).getReplay},
	{http.MethodDelete, "/v1/admin/replays/{}", false, (*call).stopReplay},
	{http.MethodGet, "/v1/admin/placements", false, (*call).placements},
	{http.MethodPost, "/v1/admin/lanes/{}/pause", false, (*call).pause},
	{http.MethodPost, "/v1/admin/lanes/{}/resume", false, (*call).resume},
	{http.MethodGet, "/v1/admin/tenants/{}", false, (*call).getTenant},
	{http.MethodPut, "/v1/admin/tenants/{}", false, (*call).putTenant},
	{http.MethodPost, "/v1/admin/tenants/{}/keys", false, (*call).createKey},
	{http.MethodDelete, "/v1/admin/tenants/{}/keys/{}", false, (*call).deleteKey},
}

// operatorsOnly makes routes refuse everybody else.
func operatorsOnly(list []route) []route {
	out := make([]route, 0, len(list))
	for _, r := range list {
		serve := r.serve
		r.serve = func(c *call, ctx context.Context) (*answer, error) {
			if !c.who.Operator {
				return nil, &intake.Refusal{Code: events.Forbidden, Detail: "only operators' keys make this call"}
			}
			return serve(c, ctx)
		}
		out = append(out, r)
	}
	return out
}

// jsonBody is the body of a call that must declare it as JSON.
func (c *call) jsonBody() ([]byte, error) {
	declared, _ := header(c.req, "content-type")
	if media, _, err := mime.ParseMediaType(declared); err != nil || media != events.MediaJSON {
		return nil, &intake.Refusal{Code: events.UnsupportedMediaType, Detail: "the Content-Type must be application/json"}
	}
	return body(c.req)
}

func ok(v any, err error) (*answer, error) {
	if err != nil {
		return nil, err
	}
	return &answer{status: http.StatusOK, body: v}, nil
}

func (c *call) placements(ctx context.Context) (*answer, error) {
	return ok(c.ops.Placements(ctx))
}

func (c *call) pause(ctx context.Context) (*answer, error) {
	return ok(c.ops.PauseLane(ctx, c.who, c.args[0], true))
}

func (c *call) resume(ctx context.Context) (*answer, error) {
	return ok(c.ops.PauseLane(ctx, c.who, c.args[0], false))
}

func (c *call) getTenant(ctx context.Context) (*answer, error) {
	return ok(c.ops.Tenant(ctx, c.args[0]))
}

func (c *call) putTenant(ctx context.Context) (*answer, error) {
	raw, err := c.jsonBody()
	if err != nil {
		return nil, err
	}
	tier, refusal := intake.DecodeTenantRequest(raw)
	if refusal != nil {
		return nil, refusal
	}
	t, created, err := c.ops.PutTenant(ctx, c.who, c.args[0], tier)
	if err != nil {
		return nil, err
	}
	if created {
		return &answer{status: http.StatusCreated, body: t}, nil
	}
	return ok(t, nil)
}

func (c *call) createKey(ctx context.Context) (*answer, error) {
	key, err := c.ops.CreateKey(ctx, c.who, c.args[0])
	if err != nil {
		return nil, err
	}
	return &answer{status: http.StatusCreated, body: key}, nil
}

func (c *call) deleteKey(ctx context.Context) (*answer, error) {
	if err := c.ops.DeleteKey(ctx, c.who, c.args[0], c.args[1]); err != nil {
		return nil, err
	}
	return &answer{status: http.StatusNoContent}, nil
}

func (c *call) quarantine(ctx context.Context) (*answer, error) {
	q, err := query(c.req)
	if err != nil {
		return nil, err
	}
	f := events.ReplayFilter{Lane: q.Get("lane"), Class: q.Get("class"), Tenant: q.Get("tenant"), Signature: q.Get("signature")}
	limit, wrong := page(q)
	wrong = append(append(wrong, twice(q, "lane", "class", "tenant", "signature")...), intake.FilterFaults(f, q.Has)...)
	if q.Has("min_age_seconds") {
		n, fault := number(q, "min_age_seconds", 0, math.MaxInt32)
		if fault != nil {
			wrong = append(wrong, *fault)
		}
		f.MinAge = events.Seconds(n) * 1000
	}
	if len(wrong) > 0 {
		return nil, faults(wrong)
	}
	return ok(c.ops.Quarantine(ctx, f, limit, q.Get("cursor")))
}

func (c *call) startReplay(ctx context.Context) (*answer, error) {
	raw, err := c.jsonBody()
	if err != nil {
		return nil, err
	}
	req, refusal := intake.DecodeReplayRequest(raw)
	if refusal != nil {
		return nil, refusal
	}
	rep, err := c.ops.StartReplay(ctx, c.who, req)
	if err != nil {
		return nil, err
	}
	if rep.DryRun {
		return ok(rep, nil)
	}
	return &answer{status: http.StatusAccepted, body: rep, headers: map[string]string{"location": events.ReplayPath(rep.ID)}}, nil
}

func (c *call) listReplays(ctx context.Context) (*answer, error) {
	q, err := query(c.req)
	if err != nil {
		return nil, err
	}
	limit, wrong := page(q)
	if len(wrong) > 0 {
		return nil, faults(wrong)
	}
	return ok(c.ops.Replays(ctx, limit, q.Get("cursor")))
}

func (c *call) getReplay(ctx context.Context) (*answer, error) {
	return ok(c.ops.Replay(ctx, c.args[0]))
}

func (c *call) stopReplay(ctx context.Context) (*answer, error) {
	return ok(c.ops.StopReplay(ctx, c.who, c.args[0]))
}

func (c *call) retry(ctx context.Context) (*answer, error) {
	t, changed, err := c.svc.Retry(ctx, c.who, c.args[0])
	if err != nil {
		return nil, err
	}
	if !changed {
		return ok(view(t, c.nowMS()), nil)
	}
	return &answer{status: http.StatusAccepted, body: view(t, c.nowMS()), headers: map[string]string{"location": events.TaskPath(t.ID)}}, nil
}

// adminPage is how many items an operator's list has on a page by default.
const adminPage = 50

// page reads how long a page of an operator's list is to be, and what is wrong with that and with the cursor's form.
func page(q url.Values) (limit int, wrong []events.FieldError) {
	limit = adminPage
	if q.Has("limit") {
		n, fault := number(q, "limit", 1, intake.MaxPage)
		if fault != nil {
			wrong = append(wrong, *fault)
		}
		limit = n
	}
	wrong = append(wrong, twice(q, "cursor")...)
	if q.Has("cursor") && q.Get("cursor") == "" {
		wrong = append(wrong, events.FieldError{Pointer: "query:cursor", Detail: "is not a cursor of this list"})
	}
	return limit, wrong
}

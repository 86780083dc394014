package apigw

import (
	"context"
	"strings"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/env"
	"github.com/lanekeeper/lanekeeper/pkg/intake"
)

// JWT names the claims of tokens that API Gateway has verified. The zero value
// takes API keys only.
type JWT struct {
	TenantClaim string
	TierClaim   string // "": the tenant's stored contract says the tier
}

// WithJWT makes the handler serve the API a second time under env.JWTPrefix, to
// callers whose token the gateway's authorizer has verified.
func (h *Handler) WithJWT(j JWT) *Handler {
	h.jwt = j
	return h
}

// path is a request's path without the prefix for tokens, and whether it had it.
func (j JWT) path(raw string) (path string, byToken bool) {
	if j.TenantClaim == "" || !strings.HasPrefix(raw, env.JWTPrefix+"/v1/") {
		return raw, false
	}
	return strings.TrimPrefix(raw, env.JWTPrefix), true
}

// authenticate finds out who calls. A key counts on the plain paths alone and
// claims on the token's alone. Claims come from the gateway's authorizer, which a client cannot
// write to, and only from the route that has it: a path that reaches another route,
// say by an escape that the gateway compares undecoded, was verified by nobody.
func (h *Handler) authenticate(ctx context.Context, req *Request, byToken bool) (intake.Principal, error) {
	if !byToken {
		return h.svc.Authenticate(ctx, bearer(req))
	}
	verified := req.RequestContext.Authorizer
	if req.RequestContext.RouteKey != env.JWTRoute || verified == nil || verified.JWT == nil {
		return intake.Principal{}, &intake.Refusal{Code: events.Unauthenticated, Detail: "the token was not verified"}
	}
	claims := verified.JWT.Claims
	tier := ""
	if h.jwt.TierClaim != "" {
		if tier = claims[h.jwt.TierClaim]; tier == "" {
			return intake.Principal{}, &intake.Refusal{Code: events.Unauthenticated, Detail: "the token names no tier"}
		}
	}
	return h.svc.Claimed(ctx, claims[h.jwt.TenantClaim], tier)
}

// moveLinks lets the paths in an answer lead to where its caller is known.
func (a *answer) moveLinks() {
	move := func(l *events.Links) { l.Self, l.Cancel = env.JWTPrefix+l.Self, env.JWTPrefix+l.Cancel }
	switch b := a.body.(type) {
	case events.Task:
		move(&b.Links)
		a.body = b
	case events.TaskPage:
		for i := range b.Items {
			move(&b.Items[i].Links)
		}
	}
	if location, ok := a.headers["location"]; ok {
		a.headers["location"] = env.JWTPrefix + location
	}
}

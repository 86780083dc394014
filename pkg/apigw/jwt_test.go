package apigw_test

import (
	"strings"
	"testing"

	lambdaevents "github.com/aws/aws-lambda-go/events"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/pkg/apigw"
	"github.com/lanekeeper/lanekeeper/pkg/env"
)

// byToken makes a request as it comes from the route behind the authorizer.
func byToken(req apigw.Request, claims map[string]string) apigw.Request {
	req.RouteKey, req.RequestContext.RouteKey = env.JWTRoute, env.JWTRoute
	req.RequestContext.Authorizer = &lambdaevents.APIGatewayV2HTTPRequestContextAuthorizerDescription{
		JWT: &lambdaevents.APIGatewayV2HTTPRequestContextAuthorizerJWTDescription{Claims: claims}}
	return req
}

// token sends one and checks the answer as that of the plain path.
func (a *api) token(req apigw.Request) apigw.Response {
	a.t.Helper()
	resp, err := a.h.Handle(a.t.Context(), req)
	if err != nil {
		a.t.Fatal(err)
	}
	a.check(req.RequestContext.HTTP.Method, strings.TrimPrefix(req.RawPath, env.JWTPrefix), resp)
	return resp
}

func TestATokenStandsForTheTenantInItsClaims(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		a.h.WithJWT(apigw.JWT{TenantClaim: "custom:tenant", TierClaim: "custom:tier"})
		basic, _ := a.Config.Tenant("alpha")
		claims := map[string]string{"sub": "somebody", "custom:tenant": "alpha", "custom:tier": basic.Tier}
		// What a client writes into headers is nobody's business.
		resp := a.token(byToken(request("POST", "/jwt/v1/tasks", "key-beta", aTask, "custom:tenant", "beta"), claims))
		made := decoded[events.Task](t, resp)
		if resp.StatusCode != 202 || made.Tenant != "alpha" || resp.Headers["location"] != "/jwt/v1/tasks/"+made.ID || made.Links.Self != resp.Headers["location"] {
			t.Fatalf("%+v", resp)
		}
		if got := a.token(byToken(request("GET", made.Links.Self, "", ""), claims)); got.StatusCode != 200 || decoded[events.Task](t, got).ID != made.ID {
			t.Errorf("read: %+v", got)
		}
		page := decoded[events.TaskPage](t, a.token(byToken(request("GET", "/jwt/v1/tasks", "", ""), claims)))
		if len(page.Items) != 1 || page.Items[0].Links.Cancel != "/jwt/v1/tasks/"+made.ID+"/cancel" {
			t.Errorf("list: %+v", page)
		}
		// The same tenant's key sees the same task on the plain path.
		if got := a.call("GET", "/v1/tasks/"+made.ID, ""); got.StatusCode != 200 || decoded[events.Task](t, got).Links.Self != "/v1/tasks/"+made.ID {
			t.Errorf("by key: %+v", got)
		}
		if got := a.token(byToken(request("PUT", "/jwt/v1/admin/tenants/x", "key-admin", `{"tier":"basic"}`), claims)); codeOf(t, got) != events.Forbidden {
			t.Errorf("a token is no operator: %+v", got)
		}
	})
}

func TestTheContractSaysTheTierWhereNoClaimDoes(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		a.h.WithJWT(apigw.JWT{TenantClaim: "tenant"})
		for tenant, want := range map[string]int{"alpha": 202, "nobody": 401, "": 401} {
			for range 2 { // looked up, then remembered
				resp := a.token(byToken(request("POST", "/jwt/v1/tasks", "", aTask), map[string]string{"tenant": tenant}))
				if resp.StatusCode != want {
					t.Errorf("%q: %+v", tenant, resp)
				}
			}
		}
	})
}

// TestWhatNoAuthorizerVerifiedIsNobody: neither a key, nor claims on another
// route, nor claims that name no tenant or tier.
func TestWhatNoAuthorizerVerifiedIsNobody(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		a.h.WithJWT(apigw.JWT{TenantClaim: "tenant", TierClaim: "tier"})
		good := map[string]string{"tenant": "alpha", "tier": "basic"}
		elsewhere := byToken(request("GET", "/jwt/v1/tasks", "", ""), good)
		elsewhere.RequestContext.RouteKey = "$default"
		for name, req := range map[string]apigw.Request{
			"a key":                       request("GET", "/jwt/v1/tasks", "key-alpha", ""),
			"another route":               elsewhere,
			"claims on the plain path":    byToken(request("GET", "/v1/tasks", "", ""), good),
			"no tenant":                   byToken(request("GET", "/jwt/v1/tasks", "", ""), map[string]string{"tier": "basic"}),
			"no tier":                     byToken(request("GET", "/jwt/v1/tasks", "", ""), map[string]string{"tenant": "alpha"}),
			"no such tier":                byToken(request("GET", "/jwt/v1/tasks", "", ""), map[string]string{"tenant": "alpha", "tier": "gold"}),
			"a tenant with a separator":   byToken(request("GET", "/jwt/v1/tasks", "", ""), map[string]string{"tenant": "alpha#0", "tier": "basic"}),
			"several tenants as one text": byToken(request("GET", "/jwt/v1/tasks", "", ""), map[string]string{"tenant": "[alpha beta]", "tier": "basic"}),
		} {
			if resp := a.token(req); resp.StatusCode != 401 || codeOf(t, resp) != events.Unauthenticated {
				t.Errorf("%s: %+v", name, resp)
			}
		}
	})
}

func TestWithoutAnIssuerThereIsNoSuchPath(t *testing.T) {
	serve(t, func(t *testing.T, a *api) {
		resp := a.do(byToken(request("GET", "/jwt/v1/tasks", "key-alpha", ""), map[string]string{"tenant": "alpha"}))
		if codeOf(t, resp) != events.NotFound {
			t.Errorf("%+v", resp)
		}
	})
}

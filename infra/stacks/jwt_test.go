//go:build cdk

package stacks_test

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/pkg/env"
	"github.com/lanekeeper/lanekeeper/pkg/environment"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

// TestJWTBesideKeys deploys with a token issuer: one route has the authorizer, and
// those for API keys stay as they are.
func TestJWTBesideKeys(t *testing.T) {
	e, err := environment.Load("../environments/dev.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e.JWT = &environment.JWT{Issuer: "https://id.example/pool", Audience: []string{"queue"}, TenantClaim: "custom:tenant", TierClaim: "custom:tier"}
	cfg, err := policyfile.Load(e.ConfigPath())
	if err != nil {
		t.Fatal(err)
	}
	d, err := synth(e, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.findings) > 0 {
		t.Errorf("findings: %v", d.findings)
	}
	authorizers := d.of("AWS::ApiGatewayV2::Authorizer")
	for _, a := range authorizers {
		if p := a.Properties; p["AuthorizerType"] != "JWT" || at(p, "JwtConfiguration", "Issuer") != e.JWT.Issuer ||
			at(p, "JwtConfiguration", "Audience", 0) != "queue" || at(p, "IdentitySource", 0) != "$request.header.Authorization" {
			t.Errorf("authorizer %v", p)
		}
	}
	before := deployed(t, "dev")
	if len(authorizers) != 1 || len(before.of("AWS::ApiGatewayV2::Authorizer")) != 0 {
		t.Errorf("%d authorizers, %d without jwt", len(authorizers), len(before.of("AWS::ApiGatewayV2::Authorizer")))
	}
	open, guarded := 0, 0
	for id, r := range d.of("AWS::ApiGatewayV2::Route") {
		switch {
		case r.Properties["RouteKey"] == env.JWTRoute && r.Properties["AuthorizationType"] == "JWT" && r.Properties["AuthorizerId"] != nil:
			guarded++
		case r.Properties["AuthorizationType"] == nil && r.Properties["RouteKey"] != env.JWTRoute:
			open++
		default:
			t.Errorf("%s: %v", id, r.Properties)
		}
	}
	if guarded != 1 || open != len(before.of("AWS::ApiGatewayV2::Route")) {
		t.Errorf("%d routes with the authorizer, %d without", guarded, open)
	}
	for _, s := range d.of("AWS::ApiGatewayV2::Stage") {
		if num(at(s.Properties, "RouteSettings", env.JWTRoute, "ThrottlingRateLimit")) < 1 {
			t.Errorf("no throttle on %s: %v", env.JWTRoute, s.Properties)
		}
	}
	claims := 0
	for _, f := range d.of("AWS::Lambda::Function") {
		v, _ := at(f.Properties, "Environment", "Variables").(map[string]any)
		if v[env.JWTTenantClaim] == "custom:tenant" && v[env.JWTTierClaim] == "custom:tier" && f.Properties["FunctionName"] == e.Function(environment.Admission) {
			claims++
		} else if v[env.JWTTenantClaim] != nil {
			t.Errorf("%v knows the claims", f.Properties["FunctionName"])
		}
	}
	if claims != 1 {
		t.Errorf("%d functions know the claims", claims)
	}
}

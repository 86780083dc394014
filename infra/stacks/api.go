//go:build cdk

package stacks

import (
	"encoding/json"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lanekeeper/lanekeeper/pkg/env"
	"github.com/lanekeeper/lanekeeper/pkg/environment"
)

// costly are the routes with a throttle of their own: each call may write. All
// others share the stage's.
var costly = []struct{ id, key string }{
	{"Submit", "POST /v1/tasks"},
	{"Quote", "POST /v1/quotes"},
}

// accessFields are what an access log line holds: nothing of the body and no credential.
var accessFields = map[string]string{
	"request_id": "$context.requestId", "time": "$context.requestTimeEpoch", "method": "$context.httpMethod", "path": "$context.path",
	"route": "$context.routeKey", "status": "$context.status", "latency_ms": "$context.responseLatency",
	"integration_ms": "$context.integrationLatency", "integration_error": "$context.integrationErrorMessage",
	"response_bytes": "$context.responseLength", "ip": "$context.identity.sourceIp",
}

// api makes the HTTP API. Everything goes to the admission function, which knows
// the paths and answers for all that do not exist.
func (s *stack) api() {
	f := s.function(constructs.NewConstruct(s.cdk, jsii.String("Admission")), s.Admission)
	api := awsapigatewayv2.NewCfnApi(s.cdk, jsii.String("Api"), &awsapigatewayv2.CfnApiProps{
		Name: jsii.String(s.Env.Function("api")), ProtocolType: jsii.String("HTTP"),
		Description: jsii.String("Lanekeeper " + s.Env.Name),
	})
	integration := awsapigatewayv2.NewCfnIntegration(s.cdk, jsii.String("Integration"), &awsapigatewayv2.CfnIntegrationProps{
		ApiId: api.Ref(), IntegrationType: jsii.String("AWS_PROXY"), PayloadFormatVersion: jsii.String("2.0"),
		IntegrationUri: f.AttrArn(), TimeoutInMillis: number(30_000),
	})
	target := awscdk.Fn_Join(jsii.String("/"), jsii.Strings("integrations", *integration.Ref()))
	settings := map[string]any{}
	stage := awsapigatewayv2.NewCfnStage(s.cdk, jsii.String("Stage"), &awsapigatewayv2.CfnStageProps{
		ApiId: api.Ref(), StageName: jsii.String("$default"), AutoDeploy: jsii.Bool(true),
		AccessLogSettings:    &awsapigatewayv2.CfnStage_AccessLogSettingsProperty{DestinationArn: s.accessLogs().AttrArn(), Format: jsii.String(accessFormat())},
		DefaultRouteSettings: s.throttle(),
		RouteSettings:        settings,
	})
	route := func(id, key string) {
		r := awsapigatewayv2.NewCfnRoute(s.cdk, jsii.String("Route-"+id), &awsapigatewayv2.CfnRouteProps{ApiId: api.Ref(), RouteKey: jsii.String(key), Target: target})
		suppress(r, "AwsSolutions-APIG4", "Credentials are verified by the admission function itself, which answers a missing one in the API's own form; a gateway authorizer could not.")
		stage.AddResourceDependency(r, nil)
	}
	for _, c := range costly {
		settings[c.key] = map[string]any{"ThrottlingRateLimit": s.Env.Throttle.Rate, "ThrottlingBurstLimit": s.Env.Throttle.Burst}
		route(c.id, c.key)
	}
	if s.Env.JWT != nil {
		stage.AddResourceDependency(s.jwtRoute(api, target), nil)
		settings[env.JWTRoute] = map[string]any{"ThrottlingRateLimit": s.Env.Throttle.Rate, "ThrottlingBurstLimit": s.Env.Throttle.Burst}
	}
	stage.SetRouteSettings(settings)
	route("Default", "$default")
	awslambda.NewCfnPermission(s.cdk, jsii.String("Permission"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunction"), FunctionName: f.Ref(), Principal: jsii.String("apigateway.amazonaws.com"),
		SourceArn: awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}:${Api}/*"), nil),
	})
	awscdk.NewCfnOutput(s.cdk, jsii.String("ApiId"), &awscdk.CfnOutputProps{Value: api.Ref()})
	awscdk.NewCfnOutput(s.cdk, jsii.String("ApiUrl"), &awscdk.CfnOutputProps{Value: api.AttrApiEndpoint()})
}

// jwtRoute is the one route behind the gateway's own authorizer: the whole API
// again, for callers with a token. API keys keep working on the other routes, which an authorizer would close to them.
func (s *stack) jwtRoute(api awsapigatewayv2.CfnApi, target *string) awsapigatewayv2.CfnRoute {
	authorizer := awsapigatewayv2.NewCfnAuthorizer(s.cdk, jsii.String("Authorizer"), &awsapigatewayv2.CfnAuthorizerProps{
		ApiId: api.Ref(), AuthorizerType: jsii.String("JWT"), Name: jsii.String(s.Env.Function("jwt")),
		IdentitySource:   &[]*string{jsii.String("$request.header.Authorization")},
		JwtConfiguration: &awsapigatewayv2.CfnAuthorizer_JWTConfigurationProperty{Issuer: jsii.String(s.Env.JWT.Issuer), Audience: jsii.Strings(s.Env.JWT.Audience...)},
	})
	return awsapigatewayv2.NewCfnRoute(s.cdk, jsii.String("Route-JWT"), &awsapigatewayv2.CfnRouteProps{
		ApiId: api.Ref(), RouteKey: jsii.String(env.JWTRoute), Target: target, AuthorizationType: jsii.String("JWT"), AuthorizerId: authorizer.Ref(),
	})
}

func (s *stack) throttle() *awsapigatewayv2.CfnStage_RouteSettingsProperty {
	return &awsapigatewayv2.CfnStage_RouteSettingsProperty{
		ThrottlingRateLimit: number(s.Env.Throttle.Rate), ThrottlingBurstLimit: number(s.Env.Throttle.Burst), DetailedMetricsEnabled: jsii.Bool(false),
	}
}

func (s *stack) accessLogs() awslogs.CfnLogGroup {
	logs := awslogs.NewCfnLogGroup(s.cdk, jsii.String("AccessLogs"), &awslogs.CfnLogGroupProps{
		LogGroupName: jsii.String("/aws/vendedlogs/" + s.Env.Function(environment.Admission) + "-access"), RetentionInDays: number(s.Env.LogRetentionDays),
	})
	s.removal(logs)
	return logs
}

func accessFormat() string {
	text, err := json.Marshal(accessFields)
	if err != nil {
		panic(err) // strings marshal
	}
	return string(text)
}

//go:build cdk

package stacks

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lanekeeper/lanekeeper/infra/plan"
)

// function makes a function with a role and a log group of its own.
func (s *stack) function(scope constructs.Construct, f plan.Function) awslambda.CfnFunction {
	logs := awslogs.NewCfnLogGroup(scope, jsii.String("Logs"), &awslogs.CfnLogGroupProps{
		LogGroupName: jsii.String(f.LogGroup), RetentionInDays: number(s.Env.LogRetentionDays),
	})
	s.removal(logs)
	statements := []any{
		map[string]any{"Sid": "Log", "Effect": "Allow", "Action": []string{"logs:CreateLogStream", "logs:PutLogEvents"}, "Resource": logs.AttrArn()},
		map[string]any{"Sid": "Trace", "Effect": "Allow", "Action": []string{"xray:PutTelemetryRecords", "xray:PutTraceSegments"}, "Resource": "*"},
	}
	for _, st := range f.Statements {
		statements = append(statements, statement(st))
	}
	role := s.role(scope, "lambda.amazonaws.com", nil, statements)
	suppress(role, "AwsSolutions-IAM5", "X-Ray's two write calls have no resource level: AWS accepts nothing but * for them.", "Resource::*")

	variables := map[string]*string{}
	for k, v := range f.Env {
		variables[k] = sub(v)
	}
	asset := s.asset(f.Package)
	// Text hands lines on as they are printed: JSON already, and for metrics in a
	// form that must not be wrapped.
	props := &awslambda.CfnFunctionProps{
		FunctionName:  jsii.String(f.Name),
		Description:   jsii.String("Lanekeeper " + s.Env.Name + ": " + f.About),
		Runtime:       jsii.String("provided.al2023"),
		Handler:       jsii.String("bootstrap"),
		Architectures: jsii.Strings(s.Env.LambdaArchitecture()),
		Code:          &awslambda.CfnFunction_CodeProperty{S3Bucket: asset.S3BucketName(), S3Key: asset.S3ObjectKey()},
		Role:          role.AttrArn(),
		Timeout:       number(f.TimeoutS),
		MemorySize:    number(f.MemoryMB),
		Environment:   &awslambda.CfnFunction_EnvironmentProperty{Variables: &variables},
		LoggingConfig: &awslambda.CfnFunction_LoggingConfigProperty{LogFormat: jsii.String("Text"), LogGroup: logs.Ref()},
		TracingConfig: &awslambda.CfnFunction_TracingConfigProperty{Mode: jsii.String("Active")},
		RecursiveLoop: jsii.String("Terminate"),
	}
	if f.Reserved > 0 {
		props.ReservedConcurrentExecutions = number(f.Reserved)
	}
	return awslambda.NewCfnFunction(scope, jsii.String("Function"), props)
}

func (s *stack) role(scope constructs.Construct, service string, condition map[string]any, statements []any) awsiam.CfnRole {
	trust := map[string]any{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": map[string]any{"Service": service}}
	if condition != nil {
		trust["Condition"] = condition
	}
	return awsiam.NewCfnRole(scope, jsii.String("Role"), &awsiam.CfnRoleProps{
		AssumeRolePolicyDocument: document(trust),
		Policies:                 &[]any{&awsiam.CfnRole_PolicyProperty{PolicyName: jsii.String("exact"), PolicyDocument: document(statements...)}},
	})
}

func document(statements ...any) map[string]any {
	return map[string]any{"Version": "2012-10-17", "Statement": statements}
}

func statement(s plan.Statement) map[string]any {
	effect := "Allow"
	if s.Deny {
		effect = "Deny"
	}
	m := map[string]any{"Sid": s.Sid, "Effect": effect, "Action": s.Actions, "Resource": subs(s.Resources)}
	if len(s.LeadingKeys) > 0 {
		m["Condition"] = map[string]any{"ForAnyValue:StringLike": map[string]any{"dynamodb:LeadingKeys": s.LeadingKeys}}
	}
	return m
}

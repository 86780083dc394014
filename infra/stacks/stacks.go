//go:build cdk

// Package stacks renders a plan as CloudFormation stacks, with the CDK's plain
// CloudFormation constructs: a template holds what the plan says and nothing
// that a construct adds by itself.
//
// Four stacks: data (the table), lanes (queues, workers, mappings), api, and
// operations (aggregator, redrive, schedule, alarms, dashboard). They know each
// other by name only; there are no exports, which would tie lanes down.
// Logical ids follow from the lane's and function's names, so that adding or
// removing a lane leaves all other resources alone.
package stacks

import (
	"path/filepath"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3assets"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lanekeeper/lanekeeper/infra/plan"
)

// builder is what all stacks of one deployment share.
type builder struct {
	*plan.Plan
	app      constructs.Construct
	packages string
}

// stack is one of them.
type stack struct {
	cdk awscdk.Stack
	*builder
	assets map[string]awss3assets.Asset
}

// New makes the stacks of a plan, in the order in which they are deployed.
// packages is the folder with the functions' zips.
func New(app constructs.Construct, p *plan.Plan, packages string) []awscdk.Stack {
	b := &builder{Plan: p, app: app, packages: packages}
	data := b.stack("data", "The table.")
	data.table()
	lanes := b.stack("lanes", "The lanes' queues, workers and mappings.")
	for _, l := range p.Lanes {
		lanes.lane(l)
	}
	api := b.stack("api", "The HTTP API and the admission function.")
	api.api()
	operations := b.stack("operations", "Aggregator, redrive, schedule, alarms and dashboard.")
	operations.operations()

	lanes.cdk.AddStackDependency(data.cdk, nil)
	api.cdk.AddStackDependency(lanes.cdk, nil)
	operations.cdk.AddStackDependency(lanes.cdk, nil)
	return []awscdk.Stack{data.cdk, lanes.cdk, api.cdk, operations.cdk}
}

func (b *builder) stack(name, about string) *stack {
	s := awscdk.NewStack(b.app, jsii.String(b.Env.Stack(name)), &awscdk.StackProps{
		StackName:   jsii.String(b.Env.Stack(name)),
		Description: jsii.String("Lanekeeper " + b.Env.Name + ": " + about),
		Tags:        &map[string]*string{"lanekeeper:environment": jsii.String(b.Env.Name)},
	})
	return &stack{cdk: s, builder: b, assets: map[string]awss3assets.Asset{}}
}

// asset is a function's package, once per stack.
func (s *stack) asset(name string) awss3assets.Asset {
	if a, ok := s.assets[name]; ok {
		return a
	}
	a := awss3assets.NewAsset(s.cdk, jsii.String("Package-"+name), &awss3assets.AssetProps{Path: jsii.String(filepath.Join(s.packages, name+".zip"))})
	s.assets[name] = a
	return a
}

// removal applies the environment's policy to what holds data.
func (s *stack) removal(r awscdk.CfnResource) {
	if s.Env.Retain {
		r.ApplyRemovalPolicy(awscdk.RemovalPolicy_RETAIN, nil)
	} else {
		r.ApplyRemovalPolicy(awscdk.RemovalPolicy_DESTROY, nil)
	}
}

// sub fills in CloudFormation's pseudo parameters, if there are any.
func sub(text string) *string {
	if strings.Contains(text, "${") {
		return awscdk.Fn_Sub(jsii.String(text), nil)
	}
	return jsii.String(text)
}

func subs(texts []string) []*string {
	list := make([]*string, len(texts))
	for i, t := range texts {
		list[i] = sub(t)
	}
	return list
}

func number(n int) *float64 { return jsii.Number(n) }

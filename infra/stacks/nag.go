//go:build cdk

package stacks

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// Nag holds everything under app to AWS's own rules for solutions.
func Nag(app constructs.Construct) {
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Verbose: jsii.Bool(true)}), nil)
}

// Findings are what the rules found, errors and warnings, once the stacks are
// synthesised.
func Findings(stacks []awscdk.Stack) []string {
	var found []string
	for _, s := range stacks {
		for _, c := range *s.Node().FindAll(constructs.ConstructOrder_PREORDER) {
			for _, m := range *c.Node().Metadata() {
				if t := *m.Type; t == "aws:cdk:error" || t == "aws:cdk:warning" {
					text, _ := m.Data.(string)
					found = append(found, *c.Node().Path()+": "+text)
				}
			}
		}
	}
	return found
}

// suppress takes one finding off one resource, with the reason.
func suppress(r constructs.IConstruct, rule, reason string, appliesTo ...string) {
	s := &cdknag.NagPackSuppression{Id: jsii.String(rule), Reason: jsii.String(reason)}
	if len(appliesTo) > 0 {
		var list []any
		for _, a := range appliesTo {
			list = append(list, a)
		}
		s.AppliesTo = &list
	}
	cdknag.NagSuppressions_AddResourceSuppressions(r, &[]*cdknag.NagPackSuppression{s}, nil)
}

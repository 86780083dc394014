//go:build cdk

package stacks_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/lanekeeper/lanekeeper/infra/plan"
	"github.com/lanekeeper/lanekeeper/infra/stacks"
	"github.com/lanekeeper/lanekeeper/pkg/environment"
	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/policy/policyfile"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	status := m.Run()
	jsii.Close() // ends the Node process
	os.Exit(status)
}

var environments = []string{"dev", "staging", "prod"}

// resource is one resource of a template.
type resource struct {
	Type           string
	Properties     map[string]any
	DeletionPolicy string
}

// deployment is all resources of an environment's stacks by "stack/logical id".
type deployment struct {
	plan      *plan.Plan
	resources map[string]resource
	findings  []string
}

// synthesised are the three environments, each made once.
var synthesised = map[string]func() (*deployment, error){}

func init() {
	for _, name := range environments {
		synthesised[name] = sync.OnceValues(func() (*deployment, error) {
			e, err := environment.Load("../environments/" + name + ".yaml")
			if err != nil {
				return nil, err
			}
			cfg, err := policyfile.Load(e.ConfigPath())
			if err != nil {
				return nil, err
			}
			return synth(e, cfg)
		})
	}
}

func deployed(t *testing.T, name string) *deployment {
	t.Helper()
	d, err := synthesised[name]()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// synth renders a plan with stand-ins for the packages.
func synth(e *environment.Environment, cfg *policy.Config) (*deployment, error) {
	p, err := plan.New(e, cfg, plan.Options{Redrive: true})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lanekeeper-synth-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, f := range p.Functions() {
		if err := os.WriteFile(filepath.Join(dir, f.Package+".zip"), []byte("PK stand-in for "+f.Package), 0o600); err != nil {
			return nil, err
		}
	}
	out := filepath.Join(dir, "out")
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(out), AnalyticsReporting: jsii.Bool(false)})
	made := stacks.New(app, p, dir)
	stacks.Nag(app)
	app.Synth(nil)

	d := &deployment{plan: p, resources: map[string]resource{}, findings: stacks.Findings(made)}
	for _, s := range made {
		data, err := os.ReadFile(filepath.Join(out, *s.TemplateFile()))
		if err != nil {
			return nil, err
		}
		var template struct{ Resources map[string]resource }
		if err := json.Unmarshal(data, &template); err != nil {
			return nil, err
		}
		stack := strings.TrimPrefix(*s.StackName(), "lanekeeper-"+e.Name+"-")
		for id, r := range template.Resources {
			d.resources[stack+"/"+id] = r
		}
	}
	return d, nil
}

// of are the resources of a type.
func (d *deployment) of(kind string) map[string]resource {
	found := map[string]resource{}
	for id, r := range d.resources {
		if r.Type == kind {
			found[id] = r
		}
	}
	return found
}

// clone is a deep copy that a test may break.
func (d *deployment) clone(t *testing.T) *deployment {
	t.Helper()
	data, err := json.Marshal(d.resources)
	if err != nil {
		t.Fatal(err)
	}
	c := &deployment{plan: d.plan, findings: d.findings}
	if err := json.Unmarshal(data, &c.resources); err != nil {
		t.Fatal(err)
	}
	return c
}

// at follows a path of keys and of list places into properties; nil where it ends.
func at(v any, path ...any) any {
	for _, p := range path {
		switch key := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[key]
		case int:
			l, _ := v.([]any)
			if key >= len(l) {
				return nil
			}
			v = l[key]
		}
	}
	return v
}

func num(v any) float64 { f, _ := v.(float64); return f }

// text is a string, or what Fn::Sub fills in.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	s, _ := at(v, "Fn::Sub").(string)
	return s
}

func list(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	if v == nil {
		return nil
	}
	return []any{v}
}

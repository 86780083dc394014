package archtest

import "slices"

// rule limits what the packages under from may import.
//
// Patterns: "std" is the standard library, "std:net" one package of it,
// "std:net/..." that and what is below; "./pkg/op" is a package of this module
// and what is below, "." all of the module; anything else is a path elsewhere
// and what is below it.
type rule struct {
	name   string
	from   []string
	except []string // under from, but free of this rule
	only   []string // if set, nothing else may be imported
	never  []string // may not be imported; stronger than only
	links  []string // may not be imported, nor by anything that is imported
	tests  bool     // never also holds for the imports of tests
	why    string
}

// The layers of pkg, each of whose packages stands in one of them.
var (
	// domain is pure: arithmetic and values.
	domain = []string{
		"./pkg/admission", "./pkg/belief", "./pkg/estimate", "./pkg/failure", "./pkg/fair", "./pkg/hist", "./pkg/placement", "./pkg/policy", "./pkg/retry", "./pkg/task", "./pkg/wait",
	}
	// operations say what is read and written, as values.
	operations = []string{"./pkg/op", "./pkg/taskop"}
	// ports are interfaces that several services share.
	ports = []string{"./pkg/chance", "./pkg/clock", "./pkg/env", "./pkg/queue", "./pkg/trace"}
	// services do the work, over ports.
	services = []string{"./pkg/aggregate", "./pkg/chain", "./pkg/execute", "./pkg/intake", "./pkg/operate", "./pkg/recovery", "./pkg/redrive", "./pkg/tally"}
	// adapters join ports to AWS.
	adapters = []string{"./pkg/apigw", "./pkg/dynamo", "./pkg/sqsevent", "./pkg/sqsqueue", "./pkg/telemetry", "./pkg/tickevent"}
	// free packages are for users and for tests.
	free = []string{"./pkg/apitest", "./pkg/archtest", "./pkg/awsboot", "./pkg/environment", "./pkg/meter", "./pkg/simtest", "./pkg/worker"}

	layers = join(domain, operations, ports, services, adapters, free)
)

var (
	cdk = []string{
		"github.com/aws/aws-cdk-go", "github.com/aws/jsii-runtime-go", "github.com/aws/constructs-go",
		"github.com/cdklabs",
	}
	// suites are the conformance tests of ports, which engines' tests import.
	suites    = []string{"./pkg/op/optest", "./pkg/queue/queuetest"}
	engines   = []string{"./localstack", "modernc.org", "github.com/truora/minidyn"}
	testTools = []string{"pgregory.net/rapid", "github.com/anishathalye/porcupine", "github.com/getkin/kin-openapi"}
	yaml      = []string{"github.com/goccy/go-yaml"}

	// impure is what an argument must stand for in the domain.
	impure = []string{
		"std:context", "std:crypto/rand", "std:database/...", "std:io/ioutil", "std:log/...", "std:net",
		"std:net/http/...", "std:net/rpc/...", "std:os/...", "std:runtime/...", "std:syscall/...", "std:testing/...",
	}
)

// unwritten lists what the rules name and does not exist yet. An entry that
// exists must go, so that a rule which matches nothing is always noticed.
var unwritten = []string{}

var rules = append([]rule{
	{
		name:   "domain is pure",
		from:   domain,
		except: []string{"./pkg/policy/policyfile"},
		only:   join(domain, []string{"std"}),
		never:  join(impure, []string{"./pkg/policy/policyfile"}),
		why:    "decisions, estimates and states are arithmetic on arguments: they can be replayed, fuzzed and proven without a clock, a store or a network",
	},
	{
		name:  "YAML stays in policyfile",
		from:  []string{"./pkg/policy/policyfile"},
		only:  join([]string{"std", "./pkg/policy"}, yaml),
		never: []string{"std:context", "std:net/...", "std:database/..."},
		why:   "functions read the compiled configuration, so the parser is linked only where a person's file is read",
	},
	{
		name:   "operations are values",
		from:   []string{"./pkg/op"},
		except: suites,
		only:   join(domain, []string{"std", "./pkg/op"}),
		never:  join([]string{"std:net/...", "std:os/...", "std:database/...", "./pkg/policy/policyfile"}, suites),
		why:    "what is written once must mean the same on every engine, so it knows none of them",
	},
	{
		name:  "business operations know values only",
		from:  []string{"./pkg/taskop"},
		only:  join(domain, []string{"std", "./pkg/op", "./pkg/taskop"}),
		never: join([]string{"std:net/...", "std:os/...", "std:database/...", "./pkg/policy/policyfile"}, suites),
		why:   "a business operation is a plain value of conditions and updates; who executes it is not its matter",
	},
	{
		name:   "ports promise no engine",
		from:   ports,
		except: suites,
		only:   join(domain, ports, []string{"std", "./events", "github.com/google/uuid"}),
		never:  join(suites, []string{"./pkg/policy/policyfile"}),
		why:    "a port is what engines have in common",
	},
	{
		name:  "services declare ports",
		from:  services,
		only:  join(domain, operations, ports, services, []string{"std", "./events", "./pkg/worker", "github.com/google/uuid"}),
		never: join([]string{"std:net/http/...", "std:os/...", "std:database/...", "./pkg/policy/policyfile"}, suites),
		why:   "a service runs unchanged on AWS and on a laptop because it sees ports, never an SDK or an adapter",
	},
	{
		name:  "libraries stand below programs",
		from:  []string{"./pkg", "./events"},
		never: []string{"./localstack", "./cmd", "./functions", "./infra"},
		why:   "programs use libraries, not the other way round",
	},
	{
		name:   "only infra knows the CDK",
		from:   []string{"."},
		except: []string{"./infra"},
		never:  join(cdk, []string{"./infra"}),
		links:  cdk,
		tests:  true,
		why:    "the CDK's bindings take a minute to compile, need Node to run and do not belong in what is deployed",
	},
	{
		name:  "functions link no engine, emulator or test tool",
		from:  []string{"./functions"},
		links: join(cdk, engines, testTools, yaml, []string{"./cmd", "./infra", "std:testing/..."}),
		why:   "cold starts pay for every byte, and code that plays AWS has no business on AWS",
	},
	{
		name:  "commands are not libraries",
		from:  []string{"./pkg", "./events", "./functions", "./localstack"},
		never: []string{"./cmd"},
		why:   "what two programs share belongs in pkg or localstack",
	},
}, apart(adapters)...)

// apart makes one rule per package: it imports none of the others.
func apart(packages []string) []rule {
	var made []rule
	for _, p := range packages {
		made = append(made, rule{
			name:  "adapters do not know each other: " + p,
			from:  []string{p},
			never: slices.DeleteFunc(slices.Clone(packages), func(other string) bool { return other == p }),
			why:   "each adapter can be replaced alone; what they share belongs in a port",
		})
	}
	return made
}

func join(lists ...[]string) []string { return slices.Concat(lists...) }

package environment

import "github.com/lanekeeper/lanekeeper/pkg/op"

// The functions that every deployment has. A lane's worker is WorkerPrefix and
// the lane's name.
const (
	Admission    = "admission"
	Aggregator   = "aggregator"
	Redrive      = "redrive"
	WorkerPrefix = "worker-"
)

// TTLAttribute is the table's expiry attribute, seconds since 1970. Expiry only
// tidies; nothing depends on it.
const TTLAttribute = op.TTL

// prefix of everything in an account.
const prefix = "lanekeeper-"

// Stack is the name of one of the deployment's stacks: data, lanes, api,
// operations.
func (e *Environment) Stack(name string) string { return prefix + e.Name + "-" + name }

// Table is the name of the table.
func (e *Environment) Table() string { return prefix + e.Name }

// Queue is the name of a lane's queue.
func (e *Environment) Queue(lane string) string { return prefix + e.Name + "-" + lane }

// DeadLetters is the name of a lane's dead-letter queue. Redrive reads the
// lane from it.
func (e *Environment) DeadLetters(lane string) string { return e.Queue(lane) + DeadLettersSuffix }

// DeadLettersSuffix is what a dead-letter queue's name adds to its queue's.
const DeadLettersSuffix = "-dlq"

// Function is the name of a function.
func (e *Environment) Function(name string) string { return prefix + e.Name + "-" + name }

// Worker is the name of a lane's worker function.
func (e *Environment) Worker(lane string) string { return e.Function(WorkerPrefix + lane) }

// LogGroup is where a function's log lines go.
func (e *Environment) LogGroup(function string) string { return "/aws/lambda/" + e.Function(function) }

// Namespace is the CloudWatch namespace of the metrics the functions emit.
func (e *Environment) Namespace() string { return "Lanekeeper/" + e.Name }

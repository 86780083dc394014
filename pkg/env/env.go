// Package env names the environment variables by which a deployment and its
// functions agree: declared once, set by one side and read by the other.
package env

// The variables of the functions.
const (
	// Table is the name of the DynamoDB table.
	Table = "LANEKEEPER_TABLE"
	// Config is the path of the compiled configuration; default DefaultConfig.
	Config = "LANEKEEPER_COMPILED_CONFIG"
	// Queues is a JSON object of queue URLs by lane.
	Queues = "LANEKEEPER_QUEUES"
	// Lane is the lane that a worker function serves.
	Lane = "LANEKEEPER_LANE"
	// Aggregator is the name or ARN of the aggregator function, which admission
	// wakes. Empty: only the schedule starts it.
	Aggregator = "LANEKEEPER_AGGREGATOR"
	// MetricsNamespace is the CloudWatch namespace of what the aggregator emits.
	// Empty: it emits nothing.
	MetricsNamespace = "LANEKEEPER_METRICS_NAMESPACE"
	// DeadLetters is what the URLs of dead-letter queues add to those of the lanes'
	// queues, so that the aggregator can count what is in them. Empty: it does not.
	DeadLetters = "LANEKEEPER_DEAD_LETTERS"
	// TraceShare is the share of submissions without a trace of their own that
	// start one, from 0 to 1; default trace.DefaultShare.
	TraceShare = "LANEKEEPER_TRACE_SHARE"
	// JWTTenantClaim is the claim that names the tenant of a JWT which API Gateway
	// has verified. Empty: admission takes API keys only.
	JWTTenantClaim = "LANEKEEPER_JWT_TENANT_CLAIM"
	// JWTTierClaim is the claim that names its tier. Empty: the tenant's stored contract does.
	JWTTierClaim = "LANEKEEPER_JWT_TIER_CLAIM"
)

// The API's operations stand a second time under JWTPrefix, for callers with a
// JWT; JWTRoute is the key of the gateway's route that has the authorizer.
const (
	JWTPrefix = "/jwt"
	JWTRoute  = "ANY " + JWTPrefix + "/v1/{proxy+}"
)

// DefaultConfig is where the compiled configuration lies in a function's
// package, relative to LAMBDA_TASK_ROOT.
const DefaultConfig = "config.json"

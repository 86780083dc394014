package main

// pricesAsOf is when the prices below were last looked up: on-demand list
// prices of us-east-1 in US dollars, without free tiers. Check them before you rely on them.
const pricesAsOf = "2026-11"

// Prices.
const (
	perMillionHTTP    = 1.00 // HTTP API requests
	perMillionInvokes = 0.20
	perGBSecondARM    = 0.0000133334
	perMillionSQS     = 0.40
	perMillionWRU     = 0.625
	perMillionRRU     = 0.125
	perMetricMonth    = 0.30 // custom metric, the first 10,000
	perAlarmMetric    = 0.10 // alarm, for each metric it looks at, and month
	perGBLogs         = 0.50
)

// month in seconds, as AWS counts it: 730 hours.
const month = 730 * 60 * 60

// road is what one task of a kind needs.
type road struct {
	Name, About, Source string
	WRU, RRU            float64
	Admissions          float64 // HTTP requests and invocations of admission
	SQS                 float64 // requests: send, receive, delete
	Invocations         float64 // of a worker
}

// measuredAt is when `make bench` gave the figures of the first two roads.
const measuredAt = "2026-11-30"

// roads are the kinds of task. Units are metered by `make bench` over the
// DynamoDB adapter, index writes, lost races, statistics and ticks included.
var roads = []road{
	{"single", "finds a free slot", "measured", 18.1, 2.7, 1, 3, 1},
	{"congested", "waits, and is handed over by a worker that ended another", "measured", 18.8, 3.7, 1, 0.3, 0.1},
	{"retried", "finds a free slot, fails once, succeeds in the retry lane", "single, and the operations of one more attempt counted by DynamoDB's rules", 18.1 + retryWRU, 2.7 + 2, 1, 6, 2},
}

// retryWRU are the write units of one more attempt: the end of the first (row and
// ledger in a transaction 4, due index 2, lane 1), its return (row 1, due index
// 2, lane 1), and the claim (row and ledger 4, lane 1).
const retryWRU = 4 + 2 + 1 + 1 + 2 + 1 + 4 + 1

// Durations and memory of the functions that are assumed, to be replaced by those of your account.
const (
	admissionMS = 20.0
	admissionGB = 0.5
	overheadMS  = 40.0 // of a worker around the handler
	workerGB    = 0.5
	logBytes    = 600.0 // per task: access log line, a few lines of the functions
)

// What a deployment does while nothing happens.
const (
	idlePollsMonth = 650_000.0 // requests of one event source mapping on an empty queue
	idleRunShare   = 0.5       // of the time in which the aggregator runs: 30 s of each minute
	tickWRU        = 1.0       // per second of a run: its lease
	tickRRU        = 16*0.5 + 2
	aggregatorGB   = 0.25
	reportRRU      = 12.0 // per minute, of counters and lanes
	reportWRU      = 6.0
)

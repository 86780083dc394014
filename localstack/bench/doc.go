// Package bench measures what Lanekeeper costs: nanoseconds of the pure parts
// and of the admission handler, milliseconds of the whole road on the embedded
// engine, and DynamoDB units of the whole road on the DynamoDB adapter.
//
// Times depend on the machine and on what else runs there; nothing may be
// concluded from one of them but their proportions. Units do not: they are
// counted from the real requests and item sizes by DynamoDB's rules (see
// package meter), and a test holds one task's figures against a count made by
// hand. A road that loses a task, retries one, or leaves a ledger other than
// zero is an error and reports no figures.
package bench

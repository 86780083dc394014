// Package contract is the black-box suite of the HTTP API: it knows a server only by its address and its keys.
//
// What is guaranteed: every answer that any case sees is held against openapi.yaml (package apitest), and an answer
// that violates it fails the case that saw it. Each case is named and printed, one line each:
//
//	ok    name
//	FAIL  name: why
//	later name          specified, not yet in force: not counted
//	skip  name: why     cannot be shown here: not counted
//
// The suite submits little work, cancels what it leaves, and ends by reading from /metrics that every tenant's ledger
// is back at zero and that the process has not grown. It expects the demonstration's configuration
// (localstack/lanekeeper.yaml); cases that need another one start a server of their own where they can.
package contract

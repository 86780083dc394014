// Package invariants has tests only: what must hold whatever runs in parallel,
// on every table. Submissions, workers, cancels and the aggregator run at once
// over the embedded table, and over the DynamoDB adapter on an in-process
// emulator; budgets, rows and lanes are held against each other all the while
// and at the end.
package invariants

// Package worker is what you import to run your own task classes: register a
// handler for each class on a [Mux] and start it.
//
// A handler may run more than once for a task (delivery is at least once), so
// make it idempotent by the task's ID. It runs with a context that ends at the
// lane's attempt time limit, when the task's cancel was requested (learned at the
// lease's renewals: after 20 s, then every 10 s), or when the attempt has lost its lease; after that nothing it does can change the task.
package worker

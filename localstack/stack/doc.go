// Package stack is the whole system in one process: the embedded table and
// queues, API Gateway, event source mappings and the schedule, driving the same
// handler values that the Lambda mains use. It is what `make run` runs and what
// end-to-end tests start.
package stack

// Package execute runs tasks: it claims what a message wakes it for, runs the
// handler under a lease, writes the outcome, and takes over the next waiting
// task in the slot that became free.
//
// It guarantees that an attempt changes its task only while it holds the
// lease, that an outcome is written once, and that whatever happens between two
// of its calls leaves lanes too full rather than too empty. It never sends to a
// lane's queue.
package execute

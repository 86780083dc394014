// Package task is the life of a task: its states, the events that move it
// between them, and what each move does to its tenant's ledger.
//
// The table [Transitions] is the only description. The operations, the tests
// and docs/states.md are all held against it. It guarantees that a terminal
// state is never left, that every reservation is released exactly once on every
// path, and that [Next] knows no move the table does not list.
package task

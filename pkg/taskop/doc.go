// Package taskop builds the business operations on the store: accept, claim,
// renew, finish, release, park, cancel, expire and the rest, each one atomic
// call, as plain [op] values.
//
// What belongs together is one transaction of two items: the task's row and
// its tenant's ledger. The lane item is always a single conditional update of
// its own, taken before the row's write and given back after it, so that a
// crash in between leaves the lane too full and never too empty; the
// aggregator's tick repairs it. Every open task is named in the lane item
// (q#<id> while queued, r#<id> while running), which makes every change of
// `open` recognise its own earlier application, and repair exact.
//
// What takes two calls is composed in the services, where a crash between them
// can be tried.
package taskop

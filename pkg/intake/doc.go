// Package intake admits tasks and answers what their tenants ask about them.
//
// It guarantees that a submission is either accepted whole (its row, its
// reservation and, where a slot was free, its message) or leaves nothing in rows
// and ledgers; that a repeated idempotency key gives the same task whatever the
// limits say by then; and that it fails closed when the store or queue does.
//
// A submission makes three calls in sequence: the guard on the lane item, the
// accept of row and ledger in one transaction, the send. There is one read more
// when copies are stale or before a keyed request is refused, and one write
// more for each condition that failed.
package intake

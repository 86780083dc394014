// Package admission decides whether a task is accepted: one pure function of the request, a copy of the lane and a
// copy of the tenant's ledger.
//
// What it guarantees:
//
//   - More queued work, more running attempts or fewer slots never turn a rejection into an acceptance; a later
//     deadline never turns an acceptance into a rejection. That a request is let in as a probe, which is marked, rests on
//     what was observed and not on the load; a probe keeps to the same rule.
//   - An accepted decision carries a Guard, conditions for the write. The copy it was decided on satisfies them, and
//     whatever others were accepted in between, a write that satisfies them would have been accepted on the true state
//     too: all that entered since the copy counts as still waiting.
//   - A rejection names the first check that failed and the limit that binds, with all figures, and says when to come
//     back, computed from how the backlog drains.
//
// All times and work are int64 milliseconds; sums saturate. Decide allocates nothing.
package admission

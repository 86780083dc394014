// Package meter counts what requests to DynamoDB cost, by DynamoDB's rules and
// from the real sizes of the items: it stands between the adapter and a
// backing client (an emulator, in benchmarks) and reads each item before and
// after each write, unmetered.
//
// Calls go through one at a time, so that what it reads is what the write met
// and the figures are exact; it is a measuring instrument, not for production.
//
// The rules, from the Amazon DynamoDB Developer Guide:
//
//   - Writes ("Read and write operations"): one unit per KB of the larger of
//     the item before and after, rounded up. A delete is charged the item it
//     deletes; of nothing, one unit. A failed condition is charged as well, the
//     larger of the item there and the one that would have been.
//   - Transactions ("Capacity management for transactions"): two units for
//     each, the checks included: one to prepare and one to commit. What a
//     cancelled one costs is not written down; it is counted in full.
//   - Index writes ("Provisioned throughput considerations for global
//     secondary indexes"): one write when an item enters or leaves the index,
//     two when one of its key attributes changes, none when the entry stays as
//     it is; each by the size of the entry. In a transaction they are not
//     doubled: indexes are written after the transaction, and measurements
//     against the service agree (nubo-db/dynoxide, pull request 188).
//   - Reads: one unit per 4 KB, rounded up, for each item got, one for an item
//     that is not there; a query pays for the sum of its page. Half of that
//     when eventually consistent, as indexes always are.
//
// A request of the adapter counts once, however often the SDK sent it.
package meter

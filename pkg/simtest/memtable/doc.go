// Package memtable is an [op.Table] in memory, for simulations: fast, without
// I/O, and exactly as unhelpful as DynamoDB where it is told to be.
//
// It guarantees what [op.Table] does (held by the conformance suite), and that
// it draws every freedom it takes (how long an index lags, whether a page is
// short or empty, whether an eventual read is stale) from the functions in its
// [Options], so that a run can be replayed. Index entries of one item appear in
// the order of its writes; entries of different items overtake each other.
package memtable

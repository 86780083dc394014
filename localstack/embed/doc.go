// Package embed is the embedded engine: the table and the queues of one machine
// in one SQLite file, behind the same ports as DynamoDB and SQS.
//
// Guaranteed:
//
//   - [Table] is an op.Table. It interprets the operations with op.Eval and
//     op.Apply and refuses what DynamoDB refuses: items over 400 KB, transactions
//     of more than 100 items or 4 MB, an item twice in a transaction, batches of
//     more than 100 keys. Pages end at 1 MB.
//   - An item whose time has come (op.TTL) is deleted by and by, in small batches
//     in the background. The room is used again; the file does not shrink.
//   - [Queues] behaves as SQS standard queues do: at-least-once, visibility
//     timeouts, delays, receive counts, redrive, retention. A long poll wakes at
//     once when a message is sent or becomes visible.
//   - What was acknowledged survives the death of the process at any moment
//     (kill -9). A power cut may cost the last commits unless Options.Sync is
//     set; it never corrupts the file.
//   - One process at a time holds a file; a second Open fails with [ErrInUse].
//   - Everything is safe for concurrent use.
//
// All writes pass one goroutine that commits what has gathered as one SQLite
// transaction (group commit), so that each call is isolated and throughput grows
// with the number of clients. Reads run beside it on their own connections.
//
// On demand the engine behaves as badly as AWS may: see [Faults] and
// [QueueFaults]. A given seed and order of calls gives the same answers.
package embed

// Package dynamo is the op.Table on Amazon DynamoDB.
//
// It renders the values of package op as expressions and reads DynamoDB's
// answers back into them; it holds no rule of the business. It guarantees:
//
//   - A write marked Once reaches DynamoDB at most once, whatever fails, unless
//     DynamoDB itself said that it did nothing (a transaction was in the way).
//   - Every other call is repeated by the SDK after throttles, faults of the
//     server and lost connections. A transaction carries one client request
//     token over all its repetitions, so it is applied at most once.
//   - A condition that fails after an attempt of the same single write had an
//     unknown outcome is not reported as failed: that attempt may have been
//     applied and may be what the condition met. It is an op.Unavailable.
//   - Transactions that collide are tried again in place, with full jitter,
//     for a bounded time; then they are op.Unavailable with op.Conflict.
//   - Errors are recognised by type and code. The one exception is the size of
//     an updated item, for which DynamoDB has a text only.
//   - Each attempt has a time limit of its own; the call as a whole is bounded
//     by the context.
package dynamo

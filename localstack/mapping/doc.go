// Package mapping plays a Lambda event source mapping: it polls one queue and
// invokes one function with batches of its messages.
//
// Guaranteed, as by AWS for standard queues:
//
//   - No more than MaxConcurrency invocations run at once, and the queue is only
//     polled while one of them is free, so what waits stays in the queue.
//   - A batch has at most BatchSize messages and an event of at most 6 MB. With a
//     window, a batch that is not full waits that long for more, counted from its
//     first message.
//   - Messages are deleted after success and never otherwise. What fails stays
//     hidden until its visibility ends, then comes back with a higher count.
//   - With ReportBatchItemFailures, an answer without failures (null, {}, an empty
//     or null list, nothing at all) is success; listed messages fail; an unknown,
//     empty or missing id, or an answer that is no such object, fails the whole
//     batch. So do errors, panics, throttles and time-outs.
//   - An invocation ends at the function's timeout; what it answers later is ignored.
//   - The mapping knows nothing of reserved concurrency: a function that throttles
//     uses up the receive counts of its messages.
//   - After Stop no batch starts. Messages in hand for a batch that has not started
//     are visible again at once.
//
// Not played: the ramp of pollers (all of MaxConcurrency is there from the start).
package mapping

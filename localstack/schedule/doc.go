// Package schedule plays Amazon EventBridge Scheduler with one function as its
// target, and Lambda's asynchronous invocation of that function.
//
// Guaranteed:
//
//   - A run at the start and then one each Every, on time whether earlier runs have
//     ended or not: runs overlap, as on AWS, where the grain is a minute.
//   - Invoke starts one more run at once and does not wait for it.
//   - A run ends at the function's timeout, even when its handler does not.
//   - A failed run is tried again Retries times, after 1 and 2 minutes, with the same
//     event, as Lambda does for asynchronous invocations (0 to 2, there 2 by
//     default, here 0).
//   - After Stop nothing starts. Stop waits for what runs.
package schedule

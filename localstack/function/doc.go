// Package function plays AWS Lambda for one handler on one machine: the very
// lambda.Handler that a Lambda main starts is invoked with what Lambda would
// give it and held to what Lambda would hold it to.
//
// Guaranteed of every invocation:
//
//   - The context carries a lambdacontext with a fresh request id and the
//     function's ARN, and a deadline at the function's timeout.
//   - It ends at the timeout. Lambda kills the process then; a goroutine cannot be
//     killed, so the handler is abandoned instead: its context is cancelled, its
//     slot is free, and whatever it returns later is ignored.
//   - A panic is an answer of kind [Crashed], never the end of the process.
//   - Reserved concurrency, when set, throttles at once and never queues.
//   - Requests and responses over Lambda's 6 MB are refused.
//
// Not played: cold starts, memory limits, environment variables, and the rule
// that one instance serves one event at a time; handlers run side by side, which
// is why [Handler] takes the place of lambda.NewHandler.
package function
